//! The objects related to the one that a pass reconciles. They are read from the watches' stores, and from the API
//! server where the store lacks the object, because the absence of an object can open a gate.

use std::{collections::HashMap, sync::Arc};

use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::{capi::ContractReference, uncached::read_uncached};
use crate::kubernetes::patch::is_not_found;
use capo_core::Lookup;

/// The object in the watch's store, or else in the API server; `None` only when the API server answered that the object
/// is absent.
pub(crate) async fn cached_or_read<K>(
    store: &Store<K>,
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<K>>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + 'static,
{
    let key = ObjectRef::new(name).within(namespace);
    if let Some(found) = store.get(&key) {
        return Ok(Some(found));
    }
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    Ok(read_uncached(&api, name).await?.map(Arc::new))
}

/// The version and path under which each contract kind is served. Each is looked up once.
#[derive(Debug, Default)]
pub(crate) struct ContractKinds(Mutex<HashMap<(String, String), ApiResource>>);

impl ContractKinds {
    /// Reads the object that `reference` names, without a cache. The result is unknown while the kind of the object is
    /// not served.
    pub(crate) async fn read(
        &self,
        client: &Client,
        namespace: &str,
        reference: &ContractReference,
    ) -> Result<Lookup<serde_json::Value>, kube::Error> {
        let Some(resource) = self.resource(client, reference).await? else {
            return Ok(Lookup::Unknown);
        };
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        match read_uncached(&api, &reference.name).await {
            Ok(Some(object)) => {
                let object = serde_json::to_value(object);
                Ok(object.map_or(Lookup::Unknown, Lookup::Found))
            }
            Ok(None) => Ok(Lookup::Absent),
            Err(error) => {
                if is_not_found(&error) {
                    // This version of the kind is not served any more. The next read looks for another version.
                    self.0.lock().remove(&key_of(reference));
                }
                Err(error)
            }
        }
    }

    async fn resource(
        &self,
        client: &Client,
        reference: &ContractReference,
    ) -> Result<Option<ApiResource>, kube::Error> {
        let key = key_of(reference);
        if let Some(resource) = self.0.lock().get(&key) {
            return Ok(Some(resource.clone()));
        }
        let group = match kube::discovery::group(client, &reference.api_group).await {
            Ok(group) => group,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((resource, _)) = group.recommended_kind(&reference.kind) else {
            return Ok(None);
        };
        self.0.lock().insert(key, resource.clone());
        Ok(Some(resource))
    }
}

fn key_of(reference: &ContractReference) -> (String, String) {
    (reference.api_group.clone(), reference.kind.clone())
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        task::{Context, Poll},
    };

    use futures::{FutureExt as _, future::BoxFuture};
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that serves one kind and gives the same answer to every read of its objects.
    #[derive(Clone)]
    struct Server {
        status: u16,
        answer: Value,
    }

    impl tower::Service<Request<Body>> for Server {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            const VERSION: &str = "controlplane.cluster.x-k8s.io/v1beta2";
            let version = json!({"groupVersion": VERSION, "version": "v1beta2"});
            let (status, answer) = match request.uri().path() {
                "/apis" => (
                    200,
                    json!({"kind": "APIGroupList", "groups": [{"name": "controlplane.cluster.x-k8s.io",
                        "versions": [version], "preferredVersion": version}]}),
                ),
                path if path.ends_with(VERSION) => (
                    200,
                    json!({"kind": "APIResourceList", "groupVersion": VERSION, "resources": [
                        {"name": "kubeadmcontrolplanes", "singularName": "", "namespaced": true,
                         "kind": "KubeadmControlPlane", "verbs": ["get"]}]}),
                ),
                _ => (self.status, self.answer.clone()),
            };
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            let response = Response::builder().status(status).body(body).unwrap();
            std::future::ready(Ok(response)).boxed()
        }
    }

    /// What was read of an object, and whether its kind is looked up again before the next read.
    async fn read(kind: &str, status: u16, answer: Value) -> (Option<Lookup<Value>>, bool) {
        let client = Client::new(Server { status, answer }, "n");
        let kinds = ContractKinds::default();
        let reference = ContractReference {
            api_group: "controlplane.cluster.x-k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: "c1".to_owned(),
        };
        let found = kinds.read(&client, "n", &reference).await.ok();
        (found, kinds.0.lock().is_empty())
    }

    #[tokio::test]
    async fn a_control_plane_is_absent_only_if_the_answer_names_it() {
        let not_found = |details: Value| {
            json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound",
                "code": 404, "message": "not found", "details": details})
        };
        let kind = "KubeadmControlPlane";
        let named = read(kind, 404, not_found(json!({"name": "c1"}))).await;
        assert_eq!(named, (Some(Lookup::Absent), false));
        let unnamed = read(kind, 404, not_found(json!({}))).await;
        assert_eq!(unnamed, (None, true));
        let not_served = read("RKE2ControlPlane", 404, json!({})).await;
        assert_eq!(not_served, (Some(Lookup::Unknown), true));
        let object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "c1"}});
        let (found, _) = read(kind, 200, object).await;
        assert!(matches!(found, Some(Lookup::Found(_))));
    }
}

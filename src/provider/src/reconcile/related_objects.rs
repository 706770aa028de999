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

use super::{capi::ContractReference, uncached::names_as_absent};
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
    match api.get(name).await {
        Ok(found) => Ok(Some(Arc::new(found))),
        Err(error) if names_as_absent(&error, name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The version and path under which each contract kind is served. Each is looked up once.
#[derive(Debug, Default)]
pub(crate) struct ContractKinds(Mutex<HashMap<(String, String), ApiResource>>);

impl ContractKinds {
    /// The object that `reference` means, read without a cache. It is unknown while its kind is not served.
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
        let Some(object) = api.get_opt(&reference.name).await? else {
            return Ok(Lookup::Absent);
        };
        let object = serde_json::to_value(object);
        Ok(object.map_or(Lookup::Unknown, Lookup::Found))
    }

    async fn resource(
        &self,
        client: &Client,
        reference: &ContractReference,
    ) -> Result<Option<ApiResource>, kube::Error> {
        let key = (reference.api_group.clone(), reference.kind.clone());
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

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, Response, Uri};
use kube::client::{Body, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Migration, MigrationReport, PAGE, migrate};
use capo_api::GROUP;

/// An API server whose definitions name v1beta1 and v1beta2 as stored. When the first object is patched, it compacts
/// the revision of every list.
#[derive(Clone)]
struct Server {
    /// The plurals and the metadata of the objects, in the order of a list.
    objects: Arc<[(&'static str, Value)]>,
    /// The status code of the answer to a patch, by the object's name.
    code: fn(&str) -> u16,
    /// The names of the patched objects and the patches, refused ones included.
    patches: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    fn new(objects: Vec<(&'static str, Value)>, code: fn(&str) -> u16) -> Self {
        Self {
            objects: objects.into(),
            code,
            patches: Arc::default(),
        }
    }

    async fn migrate(&self) -> MigrationReport {
        migrate(&Client::new(self.clone(), "n"), Migration::default()).await
    }

    /// The names of the patched objects.
    fn patched(&self) -> Vec<String> {
        let patches = self.patches.lock();
        patches.iter().map(|(name, _)| name.clone()).collect()
    }

    fn answer(&self, method: &Method, uri: &Uri, body: &[u8]) -> (u16, Value) {
        let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        match (method.as_str(), segments.as_slice()) {
            (_, ["apis", "apiextensions.k8s.io", _, _, name, ..]) => self.definition(name),
            ("GET", ["apis", GROUP, _, plural]) => {
                self.page(plural, uri.query().unwrap_or_default())
            }
            ("GET", ["apis", GROUP, _, "namespaces", _, _, name]) => self.object(name),
            ("PATCH", ["apis", GROUP, _, "namespaces", _, _, name]) => {
                let patch = serde_json::from_slice(body).unwrap();
                self.patches.lock().push(((*name).to_owned(), patch));
                match (self.code)(name) {
                    200 => self.object(name),
                    code => failure(code),
                }
            }
            _ => failure(405),
        }
    }

    fn definition(&self, name: &str) -> (u16, Value) {
        let plural = name.split('.').next().unwrap_or_default();
        if !self.objects.iter().any(|(of, _)| *of == plural) {
            return failure(404);
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "resourceVersion": "7"},
            "spec": {
                "group": GROUP, "scope": "Namespaced", "names": {"kind": plural, "plural": plural},
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": false},
                    {"name": "v1beta2", "served": true, "storage": true},
                ],
            },
            "status": {"storedVersions": ["v1beta1", "v1beta2"]},
        });
        (200, definition)
    }

    fn page(&self, plural: &str, query: &str) -> (u16, Value) {
        let parameters: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let number = |name: &str| -> usize {
            let value = parameters.get(name);
            value.map_or(0, |value| value.parse().unwrap())
        };
        let from = number("continue");
        if from > 0 && !self.patches.lock().is_empty() {
            return failure(410);
        }
        let of_kind = self.objects.iter().filter(|(of, _)| *of == plural);
        let all: Vec<Value> = of_kind.map(|(_, metadata)| partial(metadata)).collect();
        let to = all.len().min(from + number("limit"));
        let token = if to < all.len() {
            to.to_string()
        } else {
            String::new()
        };
        let page = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {"resourceVersion": "1", "continue": token}, "items": all[from..to],
        });
        (200, page)
    }

    /// The object, which was written after the list.
    fn object(&self, name: &str) -> (u16, Value) {
        let mut objects = self.objects.iter().map(|(_, metadata)| metadata);
        match objects.find(|metadata| metadata["name"] == name) {
            Some(metadata) if (self.code)(name) != 404 => {
                let mut object = partial(metadata);
                object["metadata"]["resourceVersion"] = "2".into();
                (200, object)
            }
            _ => failure(404),
        }
    }
}

fn partial(metadata: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
}

fn failure(code: u16) -> (u16, Value) {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "InternalError",
    };
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code,
        "message": reason});
    (code, status)
}

impl tower::Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let (status, answer) = server.answer(&parts.method, &parts.uri, &body);
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok(Response::builder().status(status).body(body).unwrap())
        }
        .boxed()
    }
}

fn machine(name: &str) -> (&'static str, Value) {
    let metadata = json!({"name": name, "namespace": "n", "resourceVersion": "1"});
    ("openstackmachines", metadata)
}

const MACHINES: &str = "openstackmachines.infrastructure.cluster.x-k8s.io";

#[tokio::test(start_paused = true)]
async fn a_migration_does_not_need_a_revision_for_longer_than_the_list() {
    let names: Vec<String> = (0..2 * PAGE + 50).map(|at| format!("m-{at}")).collect();
    let objects = names.iter().map(|name| machine(name)).collect();
    let server = Server::new(objects, |_| 200);
    let report = server.migrate().await;
    assert_eq!(report.failed, [""; 0]);
    assert_eq!(report.rewritten, names.len());
    assert_eq!(report.cleaned, [MACHINES]);
    assert_eq!(server.patched(), names);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_another_client_wrote_or_deleted_is_done() {
    let objects = ["written", "deleted", "untouched"].map(machine).into();
    let server = Server::new(objects, |name| match name {
        "written" => 409,
        "deleted" => 404,
        _ => 200,
    });
    let report = server.migrate().await;
    assert_eq!(report.failed, [""; 0]);
    assert_eq!(report.rewritten, 1);
    assert_eq!(report.cleaned, [MACHINES]);
    assert_eq!(server.patched(), ["written", "deleted", "untouched"]);
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_those_of_the_moment_of_the_rewrite() {
    let entry = |version: &str| {
        let version = format!("{GROUP}/{version}");
        json!({"manager": "kubectl", "operation": "Apply", "apiVersion": version})
    };
    let objects = ["deleted", "untouched"].map(|name| {
        let (plural, mut metadata) = machine(name);
        metadata["managedFields"] = json!([entry("v1alpha7"), entry("v1beta1")]);
        (plural, metadata)
    });
    let server = Server::new(objects.into(), |name| match name {
        "deleted" => 404,
        _ => 200,
    });
    let report = server.migrate().await;
    assert_eq!(report.failed, [""; 0]);
    assert_eq!(report.rewritten, 1);
    let patch = json!({"metadata": {"resourceVersion": "2", "managedFields": [entry("v1beta1")]}});
    assert_eq!(*server.patches.lock(), [("untouched".to_owned(), patch)]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_not_cleaned_after_a_failure_that_the_report_does_not_name() {
    let cluster = |at: u32| {
        let (_, metadata) = machine(&format!("c-{at}"));
        ("openstackclusters", metadata)
    };
    let mut objects: Vec<_> = (0..25).map(cluster).collect();
    objects.push(machine("m"));
    let server = Server::new(objects, |_| 500);
    let report = server.migrate().await;
    assert!(!report.is_complete());
    assert!(!report.failed.iter().any(|error| error.contains("n/m:")));
    assert_eq!(server.patched().len(), 26);
    assert_eq!(report.cleaned, [""; 0]);
}

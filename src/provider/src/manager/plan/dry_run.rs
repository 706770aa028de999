//! A client of the Kubernetes API that sends no write. It records every write, and answers it as the API server would,
//! based on what a read returns. If only CAPO's definitions are installed, objects are read as v1beta1 and converted in
//! this process.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture, stream};
use http::{Method, Request, Response, StatusCode, Uri, request::Parts};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::Service;

use crate::{subject::Subject, webhooks::conversion::convert};
use capo_api::GROUP;
use capo_core::ObjectName;

/// The version that the manager reads.
const READ: &str = "v1beta2";
/// The version that CAPO up to 0.14 serves.
const SERVED: &str = "v1beta1";

/// A write that was not sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnsentWrite {
    pub(crate) subject: Subject,
    pub(crate) verb: &'static str,
    /// Whether only the status is written.
    pub(crate) of_status: bool,
    /// The written content: the difference for an existing object, or the whole new object.
    pub(crate) content: Value,
}

/// The function that receives the writes.
pub(crate) type Record = Arc<dyn Fn(UnsentWrite) + Send + Sync>;

/// A client that reads through `client` and reports writes to `record`.
///
/// # Errors
///
/// When the API server does not serve the API group of capo-rs, or can't be reached.
pub(crate) async fn recording(client: Client, record: Record) -> Result<Client, kube::Error> {
    let request = Request::get(format!("/apis/{GROUP}"))
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    let group: Value = client.request(request).await?;
    let converts = !serves(&group, READ);
    let namespace = client.default_namespace().to_owned();
    let recording = Recording {
        client,
        converts,
        record,
    };
    Ok(Client::new(recording, namespace))
}

fn serves(group: &Value, version: &str) -> bool {
    let versions = group["versions"].as_array();
    versions.is_some_and(|all| all.iter().any(|one| one["version"] == version))
}

type ResponseBody = UnsyncBoxBody<Bytes, kube::Error>;

#[derive(Clone)]
struct Recording {
    client: Client,
    /// Whether objects are converted, because v1beta2 is not served.
    converts: bool,
    record: Record,
}

impl Service<Request<Body>> for Recording {
    type Response = Response<ResponseBody>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let recording = self.clone();
        async move { recording.answer(request).await }.boxed()
    }
}

impl Recording {
    async fn answer(self, request: Request<Body>) -> Result<Response<ResponseBody>, kube::Error> {
        let (parts, body) = request.into_parts();
        if parts.method == Method::GET {
            return self.read(parts).await;
        }
        let content = body.collect_bytes().await?;
        let content = serde_json::from_slice(&content).unwrap_or(Value::Null);
        self.write(&parts, content).await
    }

    async fn read(&self, mut parts: Parts) -> Result<Response<ResponseBody>, kube::Error> {
        let path = parts.uri.path();
        if !self.converts || !path.starts_with(&format!("/apis/{GROUP}/{READ}/")) {
            let response = self.client.send(Request::from_parts(parts, Body::empty()));
            return Ok(response.await?.map(BodyExt::boxed_unsync));
        }
        let query = parts.uri.query().unwrap_or_default();
        if query.split('&').any(|parameter| parameter == "watch=true") {
            // A dry run uses the objects as they were listed, so its watches stay silent.
            let nothing = stream::pending::<Result<Frame<Bytes>, kube::Error>>();
            return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
        }
        parts.uri = as_served(&parts.uri);
        let response = self
            .client
            .send(Request::from_parts(parts, Body::empty()))
            .await?;
        let status = response.status();
        let body = response.into_body().collect_bytes().await?;
        match serde_json::from_slice(&body) {
            Ok(object) if status.is_success() => Ok(answer(status, &as_read(object))),
            _ => Ok(raw(status, body)),
        }
    }

    /// The object that a write changes, as it is now.
    async fn current(&self, path: &str) -> Result<Result<Value, Value>, kube::Error> {
        let request = Request::get(path)
            .body(Body::empty())
            .map_err(kube::Error::HttpError)?;
        let response = self.read(request.into_parts().0).await?;
        let found = response.status().is_success();
        let body = response.into_body().collect().await?.to_bytes();
        let content = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok(if found { Ok(content) } else { Err(content) })
    }

    async fn write(
        &self,
        parts: &Parts,
        content: Value,
    ) -> Result<Response<ResponseBody>, kube::Error> {
        let target = Target::of(parts.uri.path());
        if target.plural == "events" {
            return Ok(answer(StatusCode::CREATED, &content));
        }
        if parts.method == Method::POST {
            let named = content["metadata"]["name"].as_str().unwrap_or_default();
            self.record(&target, named, "create", content.clone());
            return Ok(answer(StatusCode::CREATED, &created(content)));
        }
        let current = match self.current(&target.path).await? {
            Ok(current) => current,
            Err(status) => {
                let code = status["code"]
                    .as_u64()
                    .and_then(|code| u16::try_from(code).ok());
                let code = code.and_then(|code| StatusCode::from_u16(code).ok());
                return Ok(answer(code.unwrap_or(StatusCode::BAD_GATEWAY), &status));
            }
        };
        if parts.method == Method::DELETE {
            self.record(&target, &target.name, "delete", Value::Null);
            return Ok(answer(StatusCode::OK, &current));
        }
        if parts.method == Method::PUT {
            self.record(&target, &target.name, "replace", content.clone());
            return Ok(answer(StatusCode::OK, &content));
        }
        let seen = &content["metadata"]["resourceVersion"];
        if !seen.is_null() && *seen != current["metadata"]["resourceVersion"] {
            return Ok(answer(StatusCode::CONFLICT, &conflict(&target)));
        }
        let mut after = current.clone();
        merge(&mut after, &content);
        if after != current {
            let mut change = content;
            if let Some(metadata) = change["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            self.record(&target, &target.name, "patch", change);
        }
        Ok(answer(StatusCode::OK, &after))
    }

    fn record(&self, target: &Target, name: &str, verb: &'static str, content: Value) {
        (self.record)(UnsentWrite {
            subject: Subject::new(&target.kind, &ObjectName::new(&target.namespace, name)),
            verb,
            of_status: target.of_status,
            content,
        });
    }
}

/// The object or list that the path of a request names.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// The path without the subresource.
    path: String,
    plural: String,
    kind: String,
    namespace: String,
    name: String,
    of_status: bool,
}

impl Target {
    fn of(path: &str) -> Self {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        // The path begins with `/api/v1/…` for the core group, and with `/apis/<group>/<version>/…` for every other
        // group.
        let behind_version = if segments.first() == Some(&"api") {
            2
        } else {
            3
        };
        let rest = segments.get(behind_version..).unwrap_or_default();
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let at = |index: usize| (*rest.get(index).unwrap_or(&"")).to_owned();
        let (plural, name, subresource) = (at(0), at(1), at(2));
        let path = match subresource.as_str() {
            "" => path.to_owned(),
            subresource => path
                .trim_end_matches(subresource)
                .trim_end_matches('/')
                .to_owned(),
        };
        Self {
            path,
            kind: kind(&plural).to_owned(),
            plural,
            namespace: namespace.to_owned(),
            name,
            of_status: subresource == "status",
        }
    }
}

/// The kind for a plural that the manager writes, or the plural itself if the kind is unknown.
fn kind(plural: &str) -> &str {
    match plural {
        "openstackclusters" => "OpenStackCluster",
        "openstackclustertemplates" => "OpenStackClusterTemplate",
        "openstackmachines" => "OpenStackMachine",
        "openstackmachinetemplates" => "OpenStackMachineTemplate",
        "openstackservers" => "OpenStackServer",
        "openstackfloatingippools" => "OpenStackFloatingIPPool",
        "openstackclusteridentities" => "OpenStackClusterIdentity",
        "ipaddressclaims" => "IPAddressClaim",
        "ipaddresses" => "IPAddress",
        "machines" => "Machine",
        other => other,
    }
}

fn as_served(uri: &Uri) -> Uri {
    let text = uri.to_string();
    let served = text.replacen(
        &format!("/apis/{GROUP}/{READ}/"),
        &format!("/apis/{GROUP}/{SERVED}/"),
        1,
    );
    served.parse().unwrap_or_else(|_| uri.clone())
}

/// Converts an object or a list to v1beta2. An object that can't be converted stays as it is, and its reader reports
/// what is wrong with it.
fn as_read(mut content: Value) -> Value {
    let wanted = format!("{GROUP}/{READ}");
    let kind = content["kind"].as_str().unwrap_or_default().to_owned();
    let Some(item_kind) = kind.strip_suffix("List") else {
        return convert(content.clone(), &wanted).unwrap_or(content);
    };
    let api_version = content["apiVersion"].clone();
    if let Some(items) = content["items"].as_array_mut() {
        for item in items {
            // The items of a list have no field `kind`.
            item["kind"] = json!(item_kind);
            item["apiVersion"] = api_version.clone();
            if let Ok(converted) = convert(item.clone(), &wanted) {
                *item = converted;
            }
        }
    }
    content["apiVersion"] = json!(wanted);
    content
}

/// Adds the fields by which the API server identifies a new object.
fn created(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    object["metadata"]["resourceVersion"] = json!("0");
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["creationTimestamp"] = json!(jiff::Timestamp::now().to_string());
    object
}

fn conflict(target: &Target) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
        "message": format!("{} {}: the object has been modified", target.kind, target.name),
    })
}

fn answer(status: StatusCode, content: &Value) -> Response<ResponseBody> {
    raw(status, Bytes::from(content.to_string()))
}

fn raw(status: StatusCode, content: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(Body::from(content).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// JSON merge patch, RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_object() {
        let target = Target::of(
            "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/n/openstackclusters/c/status",
        );
        assert_eq!(
            (
                target.kind.as_str(),
                target.namespace.as_str(),
                target.name.as_str(),
                target.of_status
            ),
            ("OpenStackCluster", "n", "c", true)
        );
        assert!(
            target.path.ends_with("/openstackclusters/c"),
            "{}",
            target.path
        );
        let target = Target::of("/api/v1/namespaces/n/events");
        assert_eq!(
            (target.plural.as_str(), target.namespace.as_str()),
            ("events", "n")
        );
        let target = Target::of("/apis/g/v1/openstackclusteridentities/status");
        assert_eq!((target.name.as_str(), target.of_status), ("status", false));
    }

    #[test]
    fn a_merge_patch_removes_what_is_null_and_replaces_lists() {
        let mut object = json!({"a": {"b": 1, "c": [1, 2]}, "d": 3});
        merge(
            &mut object,
            &json!({"a": {"b": null, "c": [3]}, "e": {"f": null}}),
        );
        assert_eq!(object, json!({"a": {"c": [3]}, "d": 3, "e": {}}));
    }

    #[test]
    fn a_list_of_v1beta1_is_read_as_v1beta2() {
        let list = json!({
            "kind": "OpenStackClusterList", "apiVersion": format!("{GROUP}/v1beta1"), "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "c"}, "spec": {"disableExternalNetwork": true}}],
        });
        let list = as_read(list);
        assert_eq!(list["items"][0]["apiVersion"], format!("{GROUP}/v1beta2"));
        assert_eq!(list["items"][0]["spec"]["enableExternalNetwork"], false);
        assert_eq!(list["metadata"]["resourceVersion"], "7");
    }
}

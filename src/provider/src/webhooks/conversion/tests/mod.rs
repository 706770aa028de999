//! Hand-written examples. The test suite converts whole generated objects, made from the CRDs' schemas.

mod annotations;
mod any;
mod reviews;
mod shapes;
mod status;

use serde_json::{Value, json};

use super::*;
use capo_api::CAPO_STASH;

const V1BETA1: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers give what json! returns"
)]
fn object(kind: &str, version: &str, parts: Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "c", "namespace": "n"},
    });
    for (key, value) in parts.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

/// Checks that both are the same object, in both directions.
fn same(kind: &str, old: Value, new: Value) {
    let old = object(kind, V1BETA1, old);
    let new = object(kind, V1BETA2, new);
    assert_eq!(convert(old.clone(), V1BETA2).unwrap(), new);
    assert_eq!(convert(new, V1BETA1).unwrap(), old);
}

fn annotated(key: &str, content: &Value) -> Value {
    json!({"name": "c", "namespace": "n", "annotations": {(key): content.to_string()}})
}

//! Handles a pass that panicked. The panic ends only that pass: the log has the panic, a metric counts it, and the
//! object's condition Ready shows it until a later pass succeeds.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use serde_json::{Map, Value, json};

use super::Outcome;
use crate::kubernetes::{
    conditions::{Conditions, kind::READY},
    patch::write_status,
    replaced_versions::ReplacedVersions,
};
use capo_core::{ConditionState, FailureClass, ObjectName, Reason};

/// The panic's own text is only in the log, because it may contain data of other objects.
const MESSAGE: &str = "A pass over this object ended in a programming error, which the manager's log describes. The manager \
                       tries again; other objects are not affected. Please report the log lines.";

/// The outcome of a pass that panicked.
pub(super) fn outcome() -> Outcome {
    Outcome::failed(FailureClass::Transient, Reason::InternalError, MESSAGE)
}

/// Sets the object's condition Ready to False.
pub(super) async fn show<K>(client: &Client, name: &ObjectName)
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = if name.namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), &name.namespace, &resource)
    };
    let written = async {
        let Some(object) = api.get_opt(&name.name).await? else {
            return Ok(());
        };
        // The object was read from the API server, so no cache is behind.
        let replaced = ReplacedVersions::default();
        write_status(&replaced, &api, &object, |object| {
            status(object, Timestamp::now())
        })
        .await?;
        Ok::<_, kube::Error>(())
    };
    if let Err(error) = written.await {
        tracing::warn!(%error, "The condition of an object whose pass panicked can't be written");
    }
}

/// The object's status with Ready set to False.
fn status(object: &DynamicObject, now: Timestamp) -> Value {
    let status = object.data.get("status").cloned();
    let mut status = status.unwrap_or_else(|| Value::Object(Map::new()));
    let existing = status["conditions"].take();
    let existing: Vec<Condition> = serde_json::from_value(existing).unwrap_or_default();
    let generation = object.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(&existing, generation, now);
    let state = ConditionState::unmet(Reason::InternalError, MESSAGE);
    conditions.set(READY, &state);
    status["conditions"] = json!(conditions.into_list());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_false_and_everything_else_in_the_status_stays() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": "c", "generation": 3},
            "status": {
                "network": {"id": "n"},
                "conditions": [
                    {"type": "NetworkReady", "status": "True", "reason": "Ready", "message": "",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            },
        }))
        .unwrap();
        let status = status(&object, "2026-01-02T00:00:00Z".parse().unwrap());
        assert_eq!(status["network"]["id"], "n");
        assert_eq!(status["conditions"][0]["type"], "Ready");
        assert_eq!(status["conditions"][0]["status"], "False");
        assert_eq!(status["conditions"][0]["reason"], "InternalError");
        assert_eq!(status["conditions"][0]["observedGeneration"], 3);
        assert_eq!(status["conditions"][1]["type"], "NetworkReady");
        assert_eq!(status["conditions"][1]["status"], "True");
    }
}

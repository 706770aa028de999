//! Since when a Machine has been healthy, as far as this process has seen it. After a restart this is not known, which
//! makes the gates wait longer but never shorter.

use std::time::Instant;

use crate::reconcile::{
    capi::{Machine, condition},
    health::Track,
};
use capo_core::ConditionStatus;
use capo_gate::desired::ObservedCondition;

/// The times since which the conditions of a Machine have been True.
#[derive(Debug, Default)]
pub(in crate::controllers) struct MachineHealth {
    api_server_pod: Track,
    node: Track,
}

impl MachineHealth {
    /// Takes the conditions of the Machine at the time `now`, and returns the health from `APIServerPodHealthy` and
    /// `NodeHealthy`.
    pub(super) fn observe(
        &mut self,
        machine: &Machine,
        now: Instant,
    ) -> (ObservedCondition, ObservedCondition) {
        let api_server_pod = self
            .api_server_pod
            .observe(machine.condition(condition::API_SERVER_POD_HEALTHY), now);
        (
            if was_unhealthy_before_deletion(machine) {
                ObservedCondition::False
            } else {
                api_server_pod
            },
            self.node
                .observe(machine.condition(condition::NODE_HEALTHY), now),
        )
    }
}

/// Whether the API server was unhealthy before the Machine's deletion began. `KubeadmControlPlane` does not check the
/// Pods of a Machine that is being deleted, and sets the condition to False with the reason `Deleting`. The transition
/// time changes only if the status changes, and counts whole seconds. If it is earlier than the deletion, the condition
/// was already False, because the last check found the API server unhealthy.
fn was_unhealthy_before_deletion(machine: &Machine) -> bool {
    let deletion = machine.metadata.deletion_timestamp.as_ref();
    let condition = machine.condition(condition::API_SERVER_POD_HEALTHY);
    deletion
        .zip(condition)
        .is_some_and(|(deletion, condition)| {
            condition.status == ConditionStatus::False
                && condition
                    .last_transition_time
                    .is_some_and(|transition| transition < deletion.0)
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn observed(deletion: &Value, mut condition: Value) -> ObservedCondition {
        condition["type"] = json!(condition::API_SERVER_POD_HEALTHY);
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"name": "m", "deletionTimestamp": deletion},
            "status": {"conditions": [condition]},
        }))
        .unwrap();
        MachineHealth::default().observe(&machine, Instant::now()).0
    }

    #[test]
    fn what_was_unhealthy_before_its_deletion_still_is() {
        let deletion = json!("2026-11-21T10:05:00Z");
        let deleting = |transition: &str| json!({"status": "False", "reason": "Deleting", "lastTransitionTime": transition});
        for (transition, expected) in [
            ("2026-11-21T10:04:59Z", ObservedCondition::False),
            // The condition was True or Unknown until the deletion, or may have been; a transition in the same second
            // does not show which.
            ("2026-11-21T10:05:00Z", ObservedCondition::Unknown),
            ("2026-11-21T10:05:01Z", ObservedCondition::Unknown),
        ] {
            assert_eq!(
                observed(&deletion, deleting(transition)),
                expected,
                "{transition}"
            );
        }
        let without_time = json!({"status": "False", "reason": "Deleting"});
        assert_eq!(
            observed(&deletion, without_time),
            ObservedCondition::Unknown
        );
        let early = "2026-11-21T10:00:00Z";
        assert_eq!(
            observed(&Value::Null, deleting(early)),
            ObservedCondition::Unknown
        );
    }
}

//! Since when a Machine is healthy, in what this process saw. Losing it makes the gates wait longer, never
//! shorter.

use std::time::Instant;

use crate::reconcile::{capi::Machine, health::Track};
use capo_core::ConditionStatus;
use capo_gate::desired::Health;

/// The health of its API server, which `KubeadmControlPlane` checks by the Pod.
const API_SERVER: &str = "APIServerPodHealthy";

/// Since when a Machine is healthy.
#[derive(Debug, Default)]
pub(in crate::controllers) struct MachineHealth {
    api_server_pod: Track,
    node: Track,
}

impl MachineHealth {
    /// Takes in the Machine as it is `now`, and returns its `APIServerPodHealthy` and `NodeHealthy`.
    pub(super) fn observe(&mut self, machine: &Machine, now: Instant) -> (Health, Health) {
        let api_server_pod = self
            .api_server_pod
            .observe(machine.condition(API_SERVER), now);
        (
            if was_unhealthy_before_deletion(machine) {
                Health::Bad
            } else {
                api_server_pod
            },
            self.node.observe(machine.condition("NodeHealthy"), now),
        )
    }
}

/// `KubeadmControlPlane` no longer checks the Pods of a Machine that is being deleted. It sets the condition to False with the
/// reason `Deleting`, whatever it was. The transition time changes only with the status, in whole seconds: one from before
/// the deletion shows that the last check found the API server unhealthy.
fn was_unhealthy_before_deletion(machine: &Machine) -> bool {
    let deletion = machine.metadata.deletion_timestamp.as_ref();
    let condition = machine.condition(API_SERVER);
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

    fn observed(deletion: &Value, mut condition: Value) -> Health {
        condition["type"] = json!(API_SERVER);
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
            ("2026-11-21T10:04:59Z", Health::Bad),
            // The condition was True or Unknown until the deletion, or may have been.
            ("2026-11-21T10:05:00Z", Health::Unknown),
            ("2026-11-21T10:05:01Z", Health::Unknown),
        ] {
            assert_eq!(
                observed(&deletion, deleting(transition)),
                expected,
                "{transition}"
            );
        }
        let without_time = json!({"status": "False", "reason": "Deleting"});
        assert_eq!(observed(&deletion, without_time), Health::Unknown);
        let early = "2026-11-21T10:00:00Z";
        assert_eq!(observed(&Value::Null, deleting(early)), Health::Unknown);
    }
}

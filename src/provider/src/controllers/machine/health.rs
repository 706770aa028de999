//! Since when a Machine is healthy, in what this process saw. Losing it makes the gates wait longer, never
//! shorter.

use std::time::Instant;

use crate::reconcile::{capi::Machine, health::Track};
use capo_gate::desired::Health;

/// Since when a Machine is healthy.
#[derive(Debug, Default)]
pub(in crate::controllers) struct MachineHealth {
    api_server_pod: Track,
    node: Track,
}

impl MachineHealth {
    /// Takes in the Machine as it is `now`, and returns its `APIServerPodHealthy` and `NodeHealthy`.
    pub(super) fn observe(&mut self, machine: &Machine, now: Instant) -> (Health, Health) {
        (
            self.api_server_pod
                .observe(machine.condition("APIServerPodHealthy"), now),
            self.node.observe(machine.condition("NodeHealthy"), now),
        )
    }
}

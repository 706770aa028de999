//! What the machine controller remembers between passes: since when a Machine is healthy, in what this
//! process saw. Losing it makes the gates wait longer, never shorter.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::controllers::{capi::Machine, health::Track};
use capo_core::ObjectName;
use capo_gate::desired::Health;

/// One per process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::controllers) struct Memory(Arc<Mutex<HashMap<ObjectName, Tracks>>>);

#[derive(Debug, Default)]
struct Tracks {
    /// The Machine it was seen on; another of the same name starts anew.
    uid: Option<String>,
    api_server_pod: Track,
    node: Track,
}

impl Memory {
    /// Takes in the Machine of `name` as it is `now`, and answers its `APIServerPodHealthy` and `NodeHealthy`.
    pub(super) fn health(
        &self,
        name: &ObjectName,
        machine: Option<&Machine>,
        now: Instant,
    ) -> (Health, Health) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(machine) = machine else {
            known.remove(name);
            return (Health::Unknown, Health::Unknown);
        };
        let tracks = known.entry(name.clone()).or_default();
        if tracks.uid != machine.metadata.uid {
            *tracks = Tracks {
                uid: machine.metadata.uid.clone(),
                ..Tracks::default()
            };
        }
        (
            tracks
                .api_server_pod
                .observe(machine.condition("APIServerPodHealthy"), now),
            tracks.node.observe(machine.condition("NodeHealthy"), now),
        )
    }

    /// Forgets a machine that is gone.
    pub(super) fn forget(&self, name: &ObjectName) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }
}

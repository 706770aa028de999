//! The input that waits for a load balancer's worker. Only the newest value of each object is kept, so that the inbox
//! is never larger than the cluster.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use capo_core::ObjectName;
use capo_gate::{
    desired::{DesiredMachine, LoadBalancerSpec},
    octavia::Octavia,
};

/// A client for the cloud; `None` without credentials.
pub(super) type Client = Option<std::sync::Arc<dyn Octavia>>;

/// Another cluster that claims the load balancer; `None` if there is none.
#[derive(Debug)]
pub(super) struct Claim(pub(super) Option<ObjectName>);

/// The input that arrived since the last call of the worker.
#[derive(Default)]
pub(super) struct Updates {
    pub(super) load_balancer: Option<(Client, LoadBalancerSpec)>,
    /// `None` for a machine that is gone.
    pub(super) machines: BTreeMap<ObjectName, Option<DesiredMachine>>,
    pub(super) claimed_by: Option<Claim>,
    pub(super) large_fleet: Option<bool>,
    /// A controller requests a read soon.
    pub(super) nudged: bool,
}

#[derive(Default)]
pub(super) struct Inbox {
    updates: Mutex<Updates>,
    arrived: Notify,
}

impl Inbox {
    pub(super) fn post(&self, write: impl FnOnce(&mut Updates)) {
        write(&mut self.updates.lock());
        self.arrived.notify_one();
    }

    pub(super) fn take(&self) -> Updates {
        std::mem::take(&mut self.updates.lock())
    }

    /// Returns when input has arrived since the last call.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

//! What waits for a load balancer's task: only the newest word on each object is kept.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use capo_core::ObjectName;
use capo_gate::{
    desired::{DesiredLoadBalancer, DesiredMachine},
    octavia::Octavia,
};

/// A client for the cloud, where there are credentials.
pub(super) type Client = Option<Arc<dyn Octavia>>;

/// Another cluster that claims the load balancer, if any does.
pub(super) struct Claim(pub(super) Option<ObjectName>);

#[derive(Default)]
pub(super) struct Mail {
    pub(super) load_balancer: Option<(Client, DesiredLoadBalancer)>,
    pub(super) machines: BTreeMap<ObjectName, Option<DesiredMachine>>,
    /// A new word on who else claims the load balancer.
    pub(super) claimed_by: Option<Claim>,
    pub(super) large_fleet: Option<bool>,
    pub(super) nudged: bool,
}

#[derive(Default)]
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    bell: Notify,
}

impl Mailbox {
    pub(super) fn post(&self, write: impl FnOnce(&mut Mail)) {
        write(&mut self.lock());
        self.bell.notify_one();
    }

    pub(super) fn take(&self) -> Mail {
        std::mem::take(&mut self.lock())
    }

    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

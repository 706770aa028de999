//! What every pass has at hand: what all controllers share, and what each of them remembers.

use std::ops::Deref;

use super::{cluster, machine, machine_template, server};
use crate::reconcile::{ObjectCache, SharedContext, WorkQueue, related_objects::ContractKinds};

/// What every pass has at hand. One per process.
pub struct Context {
    /// What all controllers share.
    pub shared: SharedContext,
    /// What the cluster controller has seen.
    pub(super) clusters: ObjectCache<cluster::cache::CachedCluster>,
    /// Where control-plane objects are served.
    pub(super) contract_kinds: ContractKinds,
    /// Since when Machines are healthy.
    pub(super) machines: ObjectCache<machine::MachineHealth>,
    /// What the server controller saw of servers.
    pub(super) servers: server::Memory,
    /// What the machine template controller looked up.
    pub(super) machine_templates: ObjectCache<machine_template::LookedUp>,
    /// Objects that want a pass.
    pub(super) queues: Queues,
}

/// Objects that want a pass, by controller.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    /// `OpenStackCluster`s.
    pub clusters: WorkQueue,
    /// `OpenStackMachine`s.
    pub machines: WorkQueue,
    /// `OpenStackServer`s.
    pub servers: WorkQueue,
}

impl Deref for Context {
    type Target = SharedContext;

    fn deref(&self) -> &SharedContext {
        &self.shared
    }
}

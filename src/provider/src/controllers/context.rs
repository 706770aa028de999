//! The state that every pass uses: what all controllers share, and what each controller remembers.

use std::ops::Deref;

use futures::future::BoxFuture;
use kube::ResourceExt;

use super::{Stores, capi::CLUSTER_NAME_LABEL, cluster, machine, machine_template, server};
use crate::reconcile::{
    ObjectCache, SharedContext, StepResult, creations::UncertainCreations, name_of,
    related_objects::ContractKinds,
};
use crate::work_queue::WorkQueue;
use capo_core::ObjectName;

/// The state that every pass uses. A process has one context.
pub struct Context {
    /// The state that all controllers share.
    pub shared: SharedContext,
    /// The objects in OpenStack that the cluster controller has read, by cluster.
    pub(super) clusters: ObjectCache<cluster::cache::CachedCluster>,
    /// The creations for clusters whose result is unknown.
    pub(super) cluster_creations: UncertainCreations,
    /// The floating IPs for pools of which it is unknown whether they were created.
    pub(super) pool_creations: UncertainCreations,
    /// The version and path under which control-plane objects are served.
    pub(super) contract_kinds: ContractKinds,
    /// When each Machine became healthy.
    pub(super) machines: ObjectCache<machine::MachineHealth>,
    /// The servers that the server controller has read, and its other caches.
    pub(super) servers: server::ServerCaches,
    /// The results of the lookups of the machine template controller, by template.
    pub(super) machine_templates: ObjectCache<machine_template::LookedUp>,
    /// Checks with the machine controller whether a server may be deleted.
    pub(super) ensure_server_may_be_deleted: ServerGate,
    /// The objects that need a pass.
    pub(super) queues: Queues,
}

/// Returns `Ok` if the server of the machine with this name may be deleted.
pub(super) type ServerGate =
    for<'a> fn(&'a ObjectName, &'a Context) -> BoxFuture<'a, StepResult<()>>;

/// The objects that need a pass, for each controller.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    /// `OpenStackCluster`s.
    pub clusters: WorkQueue,
    /// `OpenStackMachine`s.
    pub machines: WorkQueue,
    /// `OpenStackServer`s.
    pub servers: WorkQueue,
}

impl Queues {
    /// Enqueues the `OpenStackMachine`s of a Cluster.
    pub(super) fn enqueue_machines_of(&self, cluster: &ObjectName, stores: &Stores) {
        let theirs = stores.openstack_machines.state_filter(|machine| {
            machine.metadata.namespace.as_ref() == Some(&cluster.namespace)
                && machine.labels().get(CLUSTER_NAME_LABEL) == Some(&cluster.name)
        });
        for machine in theirs {
            self.machines.enqueue(&name_of(&*machine));
        }
    }
}

impl Deref for Context {
    type Target = SharedContext;

    fn deref(&self) -> &SharedContext {
        &self.shared
    }
}

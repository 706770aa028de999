//! The gates of a control-plane machine if clients reach the API server by a floating IP on one of the cluster's
//! machines. The cluster controller moves the floating IP and decides on the gates.

use std::sync::Arc;

use kube::Resource;

use super::pass::Pass;
use crate::reconcile::name_of;
use capo_core::{ConditionState, Lookup, ObjectName, Reason};
use capo_gate::findings::{Findings, Gate};

impl Pass<'_> {
    /// The gates that depend on the floating IP. Absent if the API server is not reached by a floating IP that capo-rs
    /// moves.
    pub(super) fn floating_ip_gates(&self) -> Lookup<Arc<Findings>> {
        let cluster = self
            .related
            .openstack_cluster
            .as_ref()
            .filter(|_| self.related.wants_floating_ip());
        let Some(cluster) = cluster else {
            return Lookup::Absent;
        };
        let name = name_of(&**cluster);
        self.context
            .clusters
            .read(&name, cluster.meta().uid.as_deref(), |seen| {
                seen.machine_floating_ip.gates.clone()
            })
            .unwrap_or_default()
    }

    /// The latest findings about the gates of the cluster's machines. They come from the load balancer's worker, or
    /// from the cluster controller if the cluster uses a floating IP.
    pub(super) fn latest_findings(&self, cluster: &ObjectName) -> Option<Arc<Findings>> {
        match self.floating_ip_gates() {
            Lookup::Found(gates) => Some(gates),
            Lookup::Unknown => None,
            Lookup::Absent => self.context.tracker.findings(cluster),
        }
    }

    /// Whether clients reach the API server through the floating IP; `None` if they reach it in another way.
    pub(super) fn floating_ip_ingress(&self) -> Option<ConditionState> {
        match self.floating_ip_gates() {
            Lookup::Absent => None,
            Lookup::Unknown => Some(ConditionState::unknown(
                Reason::NotYetObserved,
                "The API server's floating IP was not read yet",
            )),
            Lookup::Found(gates) => Some(gates.machines.get(&self.name).map_or_else(
                || {
                    let text =
                        "This machine was not considered for the API server's floating IP yet";
                    ConditionState::unknown(Reason::NotYetObserved, text)
                },
                |finding| finding.verdict.clone(),
            )),
        }
    }

    /// Enqueues the cluster if a gate of this machine was not decided yet, because no watch shows the cluster
    /// controller that the `OpenStackMachine` alone is being deleted.
    pub(super) fn enqueue_cluster(&self, cluster: &ObjectName) {
        if self.floating_ip_gates().is_absent() {
            return;
        }
        let is_undecided = match self.finding() {
            Some(finding) => self.is_deleting() && finding.finalizer == Gate::NOT_EVALUATED,
            None => true,
        };
        if is_undecided {
            self.context.queues.clusters.enqueue(cluster);
        }
    }
}

//! Publishes the member that a control-plane machine needs to its load balancer's worker, with the facts that its gates
//! need.

use std::{net::IpAddr, time::Instant};

use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use super::{
    pass::Pass,
    plan::{self, GateInputs, OwningMachine},
};
use crate::{
    controllers::capi::Machine,
    kubernetes::conditions::{self, kind},
    reconcile::{
        deletion_hooks::{Hooks, deletion},
        server_observation::{PortAddress, ServerAddress},
    },
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{NetworkStatusWithSubnets, OpenStackMachine},
};
use capo_core::{GateMode, ObjectName, gate_override};
use capo_gate::{
    desired::{DesiredMachine, ObservedCondition, ObservedServer, ServerState},
    findings::MachineFinding,
};

/// Whether the server's object shows the condition Paused as True.
fn shows_a_pause(server: &OpenStackServer) -> bool {
    let conditions = server.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == kind::PAUSED)
        .any(conditions::is_true)
}

/// The address on which the machine's API server listens: the first fixed IPv4 address in the cluster's network, or the
/// first fixed address there if the machine has no IPv4 address.
fn member_address(addresses: &[ServerAddress], network: &str) -> Option<IpAddr> {
    let fixed = || {
        addresses
            .iter()
            .filter(|address| !address.floating && address.network == network)
            .map(|address| address.address)
    };
    preferred(fixed)
}

/// Determines the same address for a server that is being built, from its ports.
fn expected_address(addresses: &[PortAddress], network: &str) -> Option<IpAddr> {
    preferred(|| {
        let there = addresses
            .iter()
            .filter(|port| port.network.as_str() == network);
        there.map(|port| port.address)
    })
}

fn preferred<I: Iterator<Item = IpAddr>>(addresses: impl Fn() -> I) -> Option<IpAddr> {
    addresses()
        .find(IpAddr::is_ipv4)
        .or_else(|| addresses().next())
}

/// What a pass has read of a control-plane machine. The member that the machine needs follows from these facts.
struct MemberFacts<'a> {
    /// The name under which the tracker knows the cluster.
    cluster: ObjectName,
    object: &'a OpenStackMachine,
    machine: Option<&'a Machine>,
    server_object: Option<&'a OpenStackServer>,
    /// The cluster's network as the status of the `OpenStackCluster` shows it.
    network: Option<&'a NetworkStatusWithSubnets>,
    /// The addresses of the server in its last read.
    seen_addresses: &'a [ServerAddress],
    /// The addresses of the ports of a server that is being built.
    expected_addresses: Vec<PortAddress>,
    admitted: bool,
    paused: bool,
    server: ObservedServer,
    api_server_pod: ObservedCondition,
    node: ObservedCondition,
}

/// Determines the member that the machine needs, and what its gates depend on. The function is pure.
fn desired_machine(facts: &MemberFacts<'_>, now: Timestamp) -> DesiredMachine {
    let network_name = facts.network.and_then(|network| network.name.as_deref());
    let network_id = facts.network.and_then(|network| network.id.as_deref());
    let seen = member_address(facts.seen_addresses, network_name.unwrap_or_default());
    let expected = || expected_address(&facts.expected_addresses, network_id.unwrap_or_default());
    let annotations = facts.object.annotations();
    let gate_override = annotations.get(gate_override::KEY).map(String::as_str);
    DesiredMachine {
        cluster: facts.cluster.clone(),
        uid: facts.object.metadata.uid.clone(),
        machine: facts.machine.map(ResourceExt::name_any),
        address: seen.or_else(expected),
        admitted: facts.admitted,
        paused: facts.paused,
        server: facts.server,
        deletion: deletion(
            facts.object.meta(),
            facts.server_object.map(Resource::meta),
            facts.machine,
        ),
        gate_override: gate_override::parse_optional(gate_override, now),
        api_server_pod: facts.api_server_pod,
        node: facts.node,
        has_node: facts
            .machine
            .is_some_and(|machine| machine.status.node_ref.is_some()),
    }
}

impl Pass<'_> {
    /// Publishes what is known of a control-plane machine to the tracker, and reads the tracker's finding.
    pub(super) fn publish_desired(&mut self) {
        let health = self.observe_health();
        let Some(facts) = self.member_facts(health) else {
            return;
        };
        let desired = desired_machine(&facts, Timestamp::now());
        let cluster = facts.cluster;
        self.publish(desired);
        self.findings = self.latest_findings(&cluster);
        self.enqueue_cluster(&cluster);
        self.request_server_read();
    }

    /// Takes the conditions `APIServerPodHealthy` and `NodeHealthy` of the Machine. This is done for every machine, so
    /// that nothing is kept of a Machine that does not exist any more.
    fn observe_health(&self) -> (ObservedCondition, ObservedCondition) {
        let health = &self.context.machines;
        let Some(machine) = self.related.machine.as_deref() else {
            health.forget(&self.name);
            return (ObservedCondition::Unknown, ObservedCondition::Unknown);
        };
        let uid = machine.metadata.uid.as_deref();
        health.update(&self.name, uid, |health| {
            health.observe(machine, Instant::now())
        })
    }

    /// Gathers the facts about a control-plane machine. `None` if the machine is a worker, which needs no member, or if
    /// its `OpenStackCluster` is unknown, because the tracker keeps members by cluster.
    fn member_facts(
        &self,
        (api_server_pod, node): (ObservedCondition, ObservedCondition),
    ) -> Option<MemberFacts<'_>> {
        let related = &self.related;
        if !related.control_plane {
            return None;
        }
        let cluster = related.openstack_cluster.as_deref();
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        let observation = self.observation.as_ref();
        let observations = &self.context.servers.observations;
        Some(MemberFacts {
            cluster: related.cluster_key()?,
            object: &self.object,
            machine: related.machine.as_deref(),
            server_object: related.server.as_deref(),
            network: status.and_then(|status| status.network.as_ref()),
            seen_addresses: observation.map_or(&[], |seen| &seen.addresses),
            expected_addresses: observations.expected(&self.name, related.server_uid()),
            admitted: self.is_admitted(),
            paused: self.is_paused_or_moved(),
            server: self.observed_server(),
            api_server_pod,
            node,
        })
    }

    /// Publishes the member to the tracker.
    fn publish(&self, desired: DesiredMachine) {
        let tracker = &self.context.tracker;
        tracker.set_machine(&self.name, desired);
        // The object may have vanished during the pass. The store is checked after publishing, so that either this
        // check or the watch makes the tracker forget the machine.
        let key = ObjectRef::new(&self.name.name).within(&self.name.namespace);
        if self.context.stores.openstack_machines.get(&key).is_none() {
            tracker.forget_machine(&self.name);
        }
    }

    /// Enqueues the server for a new read if the finding asks for one. The finding may be older than the read that it
    /// asked for, so the age of the last read is checked too.
    fn request_server_read(&self) {
        if self
            .finding()
            .is_some_and(|finding| finding.needs_server_read)
            && self.observed_server().is_due(Instant::now())
            && self.related.server.is_some()
            && self.context.servers.observations.request_read(&self.name)
        {
            self.context.queues.servers.enqueue(&self.name);
        }
    }

    /// Enqueues the server for changes that only the machine's controller notices: a change of the Cluster's pause, and
    /// the opening of the gate if the `OpenStackServer` alone is being deleted.
    pub(super) fn enqueue_server(&self) {
        let Some(server) = &self.related.server else {
            return;
        };
        let may_go = server.meta().deletion_timestamp.is_some()
            && plan::may_delete_server(&self.gate_inputs()).is_ok();
        if may_go || shows_a_pause(server) != self.related.is_paused() {
            self.context.queues.servers.enqueue(&self.name);
        }
    }

    pub(super) fn finding(&self) -> Option<&MachineFinding> {
        self.findings.as_ref()?.machines.get(&self.name)
    }

    /// Whether Cluster API has copied the provider id, or will do so in a moment because `provisioned` is set.
    fn is_admitted(&self) -> bool {
        self.provisioned
            || self
                .related
                .machine
                .as_ref()
                .is_some_and(|machine| machine.is_admitted())
    }

    fn observed_server(&self) -> ObservedServer {
        if let Some(seen) = &self.observation {
            return seen.server;
        }
        if self.is_deleting() && self.related.server.is_none() {
            // The `OpenStackServer` does not exist any more. Its controller removes the finalizer only after two reads
            // did not find the server.
            let now = Instant::now();
            return ObservedServer {
                state: ServerState::Absent,
                read_at: Some(now),
                down_since: now.checked_sub(ObservedServer::DOWN_FOR),
            };
        }
        ObservedServer {
            state: ServerState::Other,
            read_at: None,
            down_since: None,
        }
    }

    /// Whether the server has the floating IP from the pool that the spec names. True if the spec names no pool.
    fn has_floating_ip(&self) -> bool {
        self.object.spec.floating_ip_pool_ref.is_none()
            || self.related.server.as_ref().is_some_and(|server| {
                let conditions = server.status.iter().flat_map(|status| &status.conditions);
                conditions.into_iter().any(|condition| {
                    condition.type_ == kind::FLOATING_ADDRESS_FROM_POOL_READY
                        && conditions::is_true(condition)
                })
            })
    }

    /// Whether the status of the `OpenStackServer` shows the server as ready, and the last read of the server did not
    /// show another state than ACTIVE.
    fn server_active(&self) -> bool {
        let server = self.related.server.as_ref();
        let status = server.and_then(|server| server.status.as_ref());
        let observation = self.observation.as_ref();
        status.is_some_and(|status| status.ready)
            && observation.is_none_or(|seen| seen.server.state == ServerState::Active)
    }

    /// The mode of this machine's gates. It is `Off` if no gate applies to the machine.
    fn gate_mode(&self) -> GateMode {
        if self.related.is_gated() || !self.floating_ip_gates().is_absent() {
            self.context.tracker.settings().mode
        } else {
            GateMode::Off
        }
    }

    pub(super) fn gate_inputs(&self) -> GateInputs<'_> {
        GateInputs {
            mode: self.gate_mode(),
            paused: self.is_paused_or_moved(),
            cluster_deleting_or_absent: self.related.is_cluster_deleting_or_absent(),
            admitted: self.is_admitted(),
            server_active: self.server_active() && self.has_floating_ip(),
            machine: self.related.machine.as_ref().map(|machine| OwningMachine {
                deleting: machine.is_deleting(),
                held_at: machine.held_at(),
                infrastructure_deleting: self.is_deleting(),
                carried: Hooks::on(&machine.metadata),
                wanted: Hooks::wanted(machine.spec.version.as_deref()),
            }),
            finding: self.finding(),
        }
    }
}

#[cfg(test)]
mod tests;

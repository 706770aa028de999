//! Publishes the member that a control-plane machine needs to its load balancer's worker, with the facts that its gates
//! need.

use std::{net::IpAddr, time::Instant};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::{
    pass::Pass,
    plan::{self, GateInputs, OwningMachine},
};
use crate::{
    kubernetes::conditions::{self, kind},
    reconcile::{
        deletion_hooks::{Hooks, deletion},
        server_observation::{PortAddress, ServerAddress},
    },
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{GateMode, gate_override};
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

impl Pass<'_> {
    /// Publishes what is known of a control-plane machine to the tracker, and reads the tracker's finding.
    pub(super) fn publish_desired(&mut self) {
        let machine = self.related.machine.as_deref();
        let health = &self.context.machines;
        let (api_server_pod, node) = if let Some(machine) = machine {
            let uid = machine.metadata.uid.as_deref();
            health.update(&self.name, uid, |health| {
                health.observe(machine, Instant::now())
            })
        } else {
            health.forget(&self.name);
            (ObservedCondition::Unknown, ObservedCondition::Unknown)
        };
        if !self.related.control_plane {
            return;
        }
        let Some(cluster) = self.related.cluster_key() else {
            return;
        };
        let network = self
            .related
            .openstack_cluster
            .as_ref()
            .and_then(|cluster| cluster.status.as_ref()?.network.clone())
            .unwrap_or_default();
        let addresses = self
            .observation
            .as_ref()
            .map(|seen| seen.addresses.as_slice());
        let server_uid = self.related.server_uid();
        let expected = self
            .context
            .servers
            .observations
            .expected(&self.name, server_uid);
        let address = member_address(
            addresses.unwrap_or_default(),
            network.name.as_deref().unwrap_or_default(),
        );
        let desired = DesiredMachine {
            cluster: cluster.clone(),
            uid: self.object.metadata.uid.clone(),
            machine: machine.map(ResourceExt::name_any),
            address: address.or_else(|| {
                let network = network.id.as_deref().unwrap_or_default();
                expected_address(&expected, network)
            }),
            admitted: self.is_admitted(),
            paused: self.is_paused_or_moved(),
            server: self.observed_server(),
            deletion: deletion(
                self.object.meta(),
                self.related.server.as_ref().map(|server| server.meta()),
                machine,
            ),
            gate_override: gate_override::parse_optional(
                self.object
                    .annotations()
                    .get(gate_override::KEY)
                    .map(String::as_str),
                Timestamp::now(),
            ),
            api_server_pod,
            node,
            has_node: machine.is_some_and(|machine| machine.status.node_ref.is_some()),
        };
        let tracker = &self.context.tracker;
        tracker.set_machine(&self.name, desired);
        // The object may have vanished during the pass. The store is checked after publishing, so that either this
        // check or the watch makes the tracker forget the machine.
        let key =
            kube::runtime::reflector::ObjectRef::new(&self.name.name).within(&self.name.namespace);
        if self.context.stores.openstack_machines.get(&key).is_none() {
            tracker.forget_machine(&self.name);
        }
        self.findings = self.latest_findings(&cluster);
        self.enqueue_cluster(&cluster);
        // The finding may be older than the read of the server that it asked for.
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
mod tests {
    use super::*;

    #[test]
    fn the_member_listens_on_the_clusters_network() {
        let seen = |network: &str, address: &str, floating| ServerAddress {
            network: network.to_owned(),
            address: address.parse().unwrap(),
            floating,
        };
        let addresses = [
            seen("other", "192.168.0.1", false),
            seen("cluster", "fd00::5", false),
            seen("cluster", "203.0.113.9", true),
            seen("cluster", "10.6.0.5", false),
            seen("cluster", "10.6.0.6", false),
        ];
        let expected: IpAddr = "10.6.0.5".parse().unwrap();
        assert_eq!(member_address(&addresses, "cluster"), Some(expected));
        assert_eq!(
            member_address(&addresses[..3], "cluster"),
            Some("fd00::5".parse().unwrap())
        );
        assert_eq!(member_address(&addresses, "none"), None);
        let of_ports: Vec<PortAddress> = addresses
            .iter()
            .filter(|seen| !seen.floating)
            .map(|seen| PortAddress {
                network: seen.network.as_str().into(),
                address: seen.address,
            })
            .collect();
        let of_port = |network| expected_address(&of_ports, network);
        assert_eq!(of_port("cluster"), Some(expected));
        assert_eq!(of_port("other"), Some("192.168.0.1".parse().unwrap()));
        assert_eq!(of_port("none"), None);
    }
}

//! The desired state of an `OpenStackCluster`, with every value parsed by [`super::validate`].

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    endpoint::plan::EndpointInputs,
    security_groups::rule::Rule,
    validate::problems::{Part, Problem},
};
use crate::reconcile::cluster_names::{Names, Role};
use capo_core::octavia::MonitorNumbers;
use capo_core::{
    MonitorType,
    ids::{NetworkId, RouterId, SubnetId},
};
use capo_openstack::network::{AllocationPool, NetworkFilter, RouterFilter, SubnetFilter};

/// An existing object, as the user points to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference<Id, F> {
    /// The object with this id.
    Id(Id),
    /// The only object that matches this filter.
    Filter(F),
}

/// An existing network.
pub(crate) type NetworkReference = Reference<NetworkId, NetworkFilter>;
/// An existing subnet.
pub(crate) type SubnetReference = Reference<SubnetId, SubnetFilter>;
/// An existing router.
pub(crate) type RouterReference = Reference<RouterId, RouterFilter>;

/// The desired state of an `OpenStackCluster`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DesiredCluster {
    /// `<namespace>/<name>` of the object, for messages.
    pub object: String,
    /// The names of all managed objects.
    pub names: Names,
    /// The tags of all managed objects.
    pub tags: Vec<String>,
    /// The external network.
    pub external: DesiredExternalNetwork,
    /// The network and its subnets.
    pub network: DesiredNetwork,
    /// The router.
    pub router: DesiredRouter,
    /// The subnet of machines and members; the first one where none is given.
    pub primary_subnet: Option<SubnetReference>,
    /// Managed security groups.
    pub security: Option<DesiredSecurityGroups>,
    /// The managed load balancer.
    pub load_balancer: Option<DesiredLoadBalancer>,
    /// A bastion is enabled.
    pub bastion: bool,
    /// `spec.apiServer.floatingIP`.
    pub floating_ip: Option<IpAddr>,
    /// What decides on the endpoint.
    pub endpoint: EndpointInputs,
    /// `spec.controlPlaneAvailabilityZones`.
    pub control_plane_zones: Vec<String>,
    /// `spec.controlPlaneOmitAvailabilityZone`.
    pub omit_zone: bool,
}

/// The external network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DesiredExternalNetwork {
    /// None is desired.
    Off,
    /// The only one there is; none is fine too.
    Sole,
    /// This one.
    Given(NetworkReference),
}

/// The network and its subnets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DesiredNetwork {
    /// Ours.
    Managed(ManagedNetwork),
    /// Existing ones.
    Existing {
        /// The network; found through the first subnet where none is given.
        network: Option<NetworkReference>,
        /// Its subnets; all of them where none is given.
        subnets: Vec<SubnetReference>,
    },
}

/// A network of ours with one subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagedNetwork {
    /// The subnet's range.
    pub range: IpNet,
    /// Its name servers.
    pub name_servers: Vec<IpAddr>,
    /// The addresses to allocate; all of them where none is given.
    pub pools: Vec<AllocationPool>,
    /// Largest packet.
    pub mtu: Option<u32>,
    /// False switches port security off.
    pub port_security: bool,
}

/// The router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredRouter {
    /// An existing one.
    pub existing: Option<RouterReference>,
    /// Our addresses in the external network: the subnet, and the address where one is given.
    pub external_ips: Vec<(SubnetReference, Option<IpAddr>)>,
}

/// Managed security groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DesiredSecurityGroups {
    /// Every rule of the spec could be parsed, and the port of the API servers is certain.
    pub complete: bool,
    /// Everything within the cluster may pass.
    pub allow_all_in_cluster: bool,
    /// The user's rules for control-plane machines, then those for all.
    pub control_plane_rules: Vec<DesiredUserRule>,
    /// The user's rules for workers, then those for all.
    pub worker_rules: Vec<DesiredUserRule>,
}

/// A rule of the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredUserRule {
    /// What it lets through; with `groups`, the remote is filled in for each of them.
    pub rule: Rule,
    /// Managed groups at the other end.
    pub groups: Vec<Role>,
    /// The user's description.
    pub description: String,
}

/// The managed load balancer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DesiredLoadBalancer {
    /// Octavia's provider.
    pub provider: Option<String>,
    /// Name of Octavia's flavor.
    pub flavor: Option<String>,
    /// Octavia's availability zone.
    pub availability_zone: Option<String>,
    /// Its own network, where it is not the cluster's.
    pub network: Option<NetworkReference>,
    /// Its own subnets.
    pub subnets: Vec<SubnetReference>,
    /// Ports besides the API server's.
    pub additional_ports: Vec<u16>,
    /// The ranges that may connect besides the cluster itself; with `None` every address may connect.
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// The health monitors' numbers.
    pub monitor: MonitorNumbers,
    /// How health monitors check; `None` where the spec has no type.
    pub monitor_type: Option<MonitorType>,
}

impl DesiredCluster {
    /// Every port of the load balancer, the API server's first.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let mut ports = vec![self.endpoint.port()];
        let more = self
            .load_balancer
            .iter()
            .flat_map(|lb| &lb.additional_ports);
        for port in more {
            if !ports.contains(port) {
                ports.push(*port);
            }
        }
        ports
    }

    /// Whether the port of the load balancer is certain: the endpoint has one, or the spec's can be used.
    pub(crate) fn is_port_known(&self, problems: &[Problem]) -> bool {
        self.endpoint.given_port.is_some()
            || !problems
                .iter()
                .any(|problem| problem.part == Part::Endpoint)
    }

    /// A floating IP is desired in front of the API server, if there is a network for it.
    pub(crate) fn wants_floating_ip(&self) -> bool {
        self.endpoint.floating_ip && self.external != DesiredExternalNetwork::Off
    }
}

impl DesiredLoadBalancer {
    /// Whether it may be in another network than the cluster's.
    pub(crate) fn has_own_network(&self) -> bool {
        self.network.is_some() || !self.subnets.is_empty()
    }
}

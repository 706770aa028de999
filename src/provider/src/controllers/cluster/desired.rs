//! The desired state of an `OpenStackCluster`, with every value parsed by [`super::validate`].

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    endpoint::plan::EndpointInputs,
    security_groups::rule::Rule,
    validate::problems::{Problem, SpecPart},
};
use crate::reconcile::cluster_names::{Names, Role};
use capo_core::octavia::MonitorParameters;
use capo_core::{
    MonitorType,
    ids::{NetworkId, RouterId, SubnetId},
};
use capo_openstack::network::{AllocationPool, NetworkFilter, RouterFilter, SubnetFilter};

/// An existing OpenStack object, as the spec refers to it.
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
    /// The subnet of machines and load balancer members. `None` means the first subnet of the network.
    pub primary_subnet: Option<SubnetReference>,
    /// Managed security groups.
    pub security: Option<DesiredSecurityGroups>,
    /// The managed load balancer.
    pub load_balancer: Option<DesiredLoadBalancer>,
    /// Whether a bastion is enabled.
    pub bastion: bool,
    /// `spec.apiServer.floatingIP`.
    pub floating_ip: Option<IpAddr>,
    /// The inputs of the decision about the endpoint.
    pub endpoint: EndpointInputs,
    /// `spec.controlPlaneAvailabilityZones`.
    pub control_plane_zones: Vec<String>,
    /// `spec.controlPlaneOmitAvailabilityZone`.
    pub omit_zone: bool,
}

/// The external network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DesiredExternalNetwork {
    /// No external network is used.
    Off,
    /// The only external network of the cloud is used. If the cloud has none, the cluster gets none.
    Sole,
    /// The external network that the spec names.
    Given(NetworkReference),
}

/// The network and its subnets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DesiredNetwork {
    /// A network that is created for the cluster.
    Managed(ManagedNetwork),
    /// A network that exists already.
    Existing {
        /// The network. `None` means the network of the first of `subnets`.
        network: Option<NetworkReference>,
        /// The subnets that the cluster uses. An empty list means all subnets of the network.
        subnets: Vec<SubnetReference>,
    },
}

/// A network with one subnet that is created for the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagedNetwork {
    /// The subnet's address range.
    pub range: IpNet,
    /// The subnet's DNS servers.
    pub name_servers: Vec<IpAddr>,
    /// The subnet's allocation pools. An empty list means the whole range.
    pub pools: Vec<AllocationPool>,
    /// The MTU of the network in bytes. `None` leaves the choice to Neutron.
    pub mtu: Option<u32>,
    /// Whether port security is enabled on the network.
    pub port_security: bool,
}

/// The router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredRouter {
    /// The router that exists already; `None` means that the cluster gets a managed one.
    pub existing: Option<RouterReference>,
    /// The addresses of a managed router in the external network: the subnet, and the address if the spec has one.
    pub external_ips: Vec<(SubnetReference, Option<IpAddr>)>,
}

/// Managed security groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DesiredSecurityGroups {
    /// Whether every rule of the spec and the port of the API servers could be parsed.
    pub complete: bool,
    /// Whether all traffic within the cluster is allowed.
    pub allow_all_in_cluster: bool,
    /// The user's rules for control-plane machines, followed by the user's rules for all machines.
    pub control_plane_rules: Vec<DesiredUserRule>,
    /// The user's rules for workers, followed by the user's rules for all machines.
    pub worker_rules: Vec<DesiredUserRule>,
}

/// A security group rule from the spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredUserRule {
    /// The traffic that the rule allows. If `groups` is not empty, there is one rule for each of them with that group
    /// as remote.
    pub rule: Rule,
    /// The managed security groups at the other end of the traffic.
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
    /// The load balancer's own network, if it is not the cluster's network.
    pub network: Option<NetworkReference>,
    /// The subnets in the load balancer's own network.
    pub subnets: Vec<SubnetReference>,
    /// The TCP ports of the load balancer besides that of the API server.
    pub additional_ports: Vec<u16>,
    /// The address ranges that may connect besides the cluster's own addresses. `None` means that every address may
    /// connect.
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// The intervals and counts of the health monitors.
    pub monitor: MonitorParameters,
    /// The type of the health monitors; `None` if the spec has none.
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

    /// Whether the port of the load balancer is certain: the endpoint has a port already, or the port in the spec can
    /// be used.
    pub(crate) fn is_port_known(&self, problems: &[Problem]) -> bool {
        self.endpoint.given_port.is_some()
            || !problems
                .iter()
                .any(|problem| problem.part == SpecPart::Endpoint)
    }
}

impl DesiredLoadBalancer {
    /// Whether the load balancer may be in another network than the cluster's.
    pub(crate) fn has_own_network(&self) -> bool {
        self.network.is_some() || !self.subnets.is_empty()
    }
}

//! What passes have read of a cluster's objects in OpenStack. These types hold data only: the modules that read
//! OpenStack fill them, and the cache keeps them from one pass to the next.

use std::{net::IpAddr, time::Instant};

use ipnet::IpNet;

use capo_core::{
    Lookup,
    ids::{LoadBalancerId, PortId, SecurityGroupId, SubnetId},
};
use capo_openstack::{
    load_balancer::LoadBalancer,
    network::{Network, Router, Subnet},
};

/// The networking. A part that could not be read again keeps its last value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Networking {
    /// The external network.
    pub external: Lookup<Network>,
    /// The cluster's network.
    pub network: Lookup<NetworkState>,
    /// The subnet of machines and members.
    pub primary_subnet: Lookup<SubnetId>,
    /// The router.
    pub router: Lookup<Router>,
    /// The managed security groups.
    pub groups: Lookup<Groups>,
    /// The load balancer's own network; absent where it is in the cluster's.
    pub load_balancer_network: Lookup<NetworkState>,
}

/// A network with those of its subnets that the cluster uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkState {
    /// The network.
    pub network: Network,
    /// The subnets, of which the first one is the default for machines and load balancer members.
    pub subnets: Vec<Subnet>,
}

impl NetworkState {
    /// The subnets' ranges.
    pub(crate) fn ranges(&self) -> Vec<IpNet> {
        self.subnets
            .iter()
            .filter_map(|subnet| subnet.cidr)
            .collect()
    }
}

/// The managed security groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The group of the control-plane machines.
    pub control_plane: KnownGroup,
    /// The group of the workers.
    pub worker: KnownGroup,
    /// The group of the bastion. After the bastion is disabled, it stays until the bastion's server is deleted.
    pub bastion: Option<KnownGroup>,
}

/// The properties of a managed security group that the status and ports need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownGroup {
    /// Neutron's id.
    pub id: SecurityGroupId,
    /// Its name.
    pub name: String,
}

/// A load balancer that this process has read and found to be the cluster's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownLoadBalancer {
    /// Octavia's id.
    pub id: LoadBalancerId,
    /// Its name.
    pub name: String,
    /// The name of its Octavia provider; empty if Octavia shows none.
    pub provider: String,
    /// The address of its VIP.
    pub vip: Option<IpAddr>,
    /// The port of its VIP.
    pub vip_port: Option<PortId>,
    /// Its tags.
    pub tags: Vec<String>,
}

impl From<&LoadBalancer> for KnownLoadBalancer {
    fn from(lb: &LoadBalancer) -> Self {
        Self {
            id: lb.id.clone(),
            name: lb.name.clone(),
            provider: lb.provider.clone().unwrap_or_default(),
            vip: lb.vip_address,
            vip_port: lb.vip_port_id.clone(),
            tags: lb.tags.clone(),
        }
    }
}

/// The parts that hardly ever change. One of them is read per pass, so each is read in every fourth pass. The other
/// reads show if one of these objects vanished: a network is deleted only after its subnets, and a router only after
/// its interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RotatingRead {
    /// The external network.
    #[default]
    ExternalNetwork,
    /// The cluster's network and the load balancer's own.
    Network,
    /// The router with its gateway.
    Router,
    /// The availability zones.
    Zones,
}

impl RotatingRead {
    /// The part that is read after this one.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::ExternalNetwork => Self::Network,
            Self::Network => Self::Router,
            Self::Router => Self::Zones,
            Self::Zones => Self::ExternalNetwork,
        }
    }
}

/// What the lists of the project showed of the networking when a pass found nothing to change in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SettledNetworking {
    /// The generation of the object in that pass.
    pub generation: i64,
    /// A hash of the cluster's objects in these lists.
    pub hash: u64,
    /// The beginning of the last pass that read the cluster's objects themselves and found nothing to change.
    pub verified_at: Instant,
}

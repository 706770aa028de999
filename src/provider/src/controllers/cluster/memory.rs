//! What this process has seen of a cluster. All of it can be read again; none of it comes from a status.

use std::time::Instant;

use super::{
    load_balancer::{KnownLoadBalancer, Replacements},
    network::NetworkState,
    security_groups::Groups,
};
use crate::controllers::health::Track;
use capo_core::Lookup;
use capo_openstack::{
    Cloud,
    network::{FloatingIp, Network, Router},
};

/// What this process has seen of one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The load balancer, by the last lookup in the cluster's project.
    pub load_balancer: Lookup<KnownLoadBalancer>,
    /// The cloud whose project was found to be the cluster's. Other credentials for the same object are verified before
    /// anything is done with them.
    pub verified_cloud: Option<Cloud>,
    /// Load balancers in ERROR that were replaced.
    pub replacements: Replacements,
    /// Since when the Cluster's `RemoteConnectionProbe` is True without a break.
    pub remote_connection: Track,
    /// The cluster's CA, and when it was read.
    pub authority: Option<(String, Instant)>,
    /// Network and all that goes with it, and when it was read, for which generation.
    pub networking: Option<(NetworkingState, i64, Instant)>,
    /// Nova's availability zones, and when they were read.
    pub zones: Option<(Vec<String>, Instant)>,
    /// The API server's floating IP, and when it was read.
    pub floating_ip: Option<(FloatingIp, Instant)>,
}

/// Network and all that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkingState {
    /// The external network.
    pub external: Option<Network>,
    /// The cluster's network.
    pub network: NetworkState,
    /// The router.
    pub router: Option<Router>,
    /// The managed security groups.
    pub groups: Option<Groups>,
    /// The load balancer's network, which is the cluster's unless said otherwise.
    pub load_balancer_network: Option<NetworkState>,
    /// The subnet of machines and members.
    pub primary_subnet: String,
}

impl Seen {
    /// Whether these credentials were found to lead to the cluster's project.
    pub(crate) fn is_verified(&self, cloud: &Cloud) -> bool {
        self.verified_cloud.as_ref() == Some(cloud)
    }
}

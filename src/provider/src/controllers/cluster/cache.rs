//! What this process has seen of a cluster. All of it can be read again; none of it comes from a status.

use super::{
    bastion::observation::SeenBastion,
    delete::progress::DeletionProgress,
    endpoint::name::EndpointName,
    load_balancer::plan::Replacements,
    machine_floating_ip::observation::SeenCarriers,
    observation::{KnownLoadBalancer, Networking, SettledNetworking, Turn},
};
use crate::controllers::health::Track;
use crate::reconcile::ReadAt;
use capo_core::{Lookup, ids::ProjectId};
use capo_openstack::{ApiVersion, Cloud, network::FloatingIp};

/// What this process has seen of one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedCluster {
    /// The load balancer, by the last lookup in the cluster's project.
    pub load_balancer: Lookup<KnownLoadBalancer>,
    /// The cloud whose project was found to be the cluster's. Other credentials for the same object are verified before
    /// anything is done with them.
    pub verified_cloud: Option<Cloud>,
    /// The project that these credentials lead to.
    pub project: Option<ProjectId>,
    /// The newest version of Octavia's API, where the spec needs what older ones lack.
    pub octavia_version: Option<ApiVersion>,
    /// Load balancers in ERROR that were replaced.
    pub replacements: Option<Replacements>,
    /// Since when the Cluster's `RemoteConnectionProbe` is True without a break.
    pub remote_connection: Track,
    /// The cluster's CA, as PEM.
    pub authority: Lookup<ReadAt<String>>,
    /// The networking, each part as it was last read.
    pub networking: Networking,
    /// The generation for which all of the networking was read without an error.
    pub networking_read: Option<ReadAt<i64>>,
    /// What the lists of the project showed of the networking when a pass found nothing to change in it.
    pub settled_networking: Option<SettledNetworking>,
    /// Which of the objects that hardly ever change is read next.
    pub turn: Turn,
    /// The names of Nova's availability zones.
    pub zones: Option<ReadAt<Vec<String>>>,
    /// The bastion, while its server runs.
    pub bastion: Option<SeenBastion>,
    /// The API server's floating IP.
    pub floating_ip: Option<ReadAt<FloatingIp>>,
    /// The name of the endpoint, while the floating IP behind it is looked for.
    pub endpoint_name: EndpointName,
    /// The control-plane machines that the floating IP may be on.
    pub carriers: SeenCarriers,
    /// How far the deletion is.
    pub deletion: DeletionProgress,
}

impl CachedCluster {
    /// Whether these credentials were found to lead to the cluster's project.
    pub(crate) fn is_verified(&self, cloud: &Cloud) -> bool {
        self.verified_cloud.as_ref() == Some(cloud)
    }
}

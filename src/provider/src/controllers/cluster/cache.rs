//! What this process has read of a cluster. It can be read again at any time, and none of it comes from a status.

use super::{
    bastion::observation::SeenBastion,
    delete::progress::DeletionProgress,
    endpoint::name::EndpointName,
    load_balancer::plan::Replacements,
    machine_floating_ip::observation::SeenMachineFloatingIp,
    observation::{KnownLoadBalancer, Networking, RotatingRead, SettledNetworking},
};
use crate::controllers::health::Track;
use crate::reconcile::ReadAt;
use capo_core::{Lookup, ids::ProjectId};
use capo_openstack::{ApiVersion, Cloud, network::FloatingIp};

/// What this process has read of one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedCluster {
    /// The load balancer that the last lookup found in the cluster's project.
    pub load_balancer: Lookup<KnownLoadBalancer>,
    /// The cloud whose credentials lead to the cluster's project. If the object's credentials change, they are verified
    /// before they are used for anything else.
    pub verified_cloud: Option<Cloud>,
    /// The project that these credentials lead to.
    pub project: Option<ProjectId>,
    /// The newest version that Octavia's API offers. It is read only if the spec restricts which addresses may connect.
    pub octavia_version: Option<ApiVersion>,
    /// The replacements of load balancers in ERROR.
    pub replacements: Option<Replacements>,
    /// The time since which the Cluster's condition `RemoteConnectionProbe` has been True without interruption.
    pub remote_connection: Track,
    /// The cluster's CA, as PEM.
    pub authority: Lookup<ReadAt<String>>,
    /// The networking; each part has the value that was last read.
    pub networking: Networking,
    /// The generation for which all of the networking was read without an error.
    pub networking_read: Option<ReadAt<i64>>,
    /// What the lists of the project showed of the networking when a pass found nothing to change.
    pub settled_networking: Option<SettledNetworking>,
    /// The part of the networking that is read next; the parts that rarely change take turns.
    pub turn: RotatingRead,
    /// The names of the availability zones that Nova shows as available.
    pub zones: Option<ReadAt<Vec<String>>>,
    /// The bastion, while its server runs.
    pub bastion: Option<SeenBastion>,
    /// The API server's floating IP.
    pub floating_ip: Option<ReadAt<FloatingIp>>,
    /// The state of the DNS lookups of the endpoint's name, while the floating IP behind that name is looked for.
    pub endpoint_name: EndpointName,
    /// The control-plane machines on which the API server's floating IP may be.
    pub machine_floating_ip: SeenMachineFloatingIp,
    /// How far the deletion has come.
    pub deletion: DeletionProgress,
}

impl CachedCluster {
    /// Whether an earlier pass found that these credentials lead to the cluster's project.
    pub(crate) fn is_verified(&self, cloud: &Cloud) -> bool {
        self.verified_cloud.as_ref() == Some(cloud)
    }
}

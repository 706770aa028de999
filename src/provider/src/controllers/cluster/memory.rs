//! What this process has seen of a cluster. All of it can be read again; none of it comes from a status.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use kube::api::ApiResource;

use super::{
    load_balancer::{KnownLoadBalancer, Replacements},
    network::NetworkState,
    security_groups::Groups,
};
use crate::controllers::health::Track;
use capo_core::ObjectName;
use capo_openstack::network::{FloatingIp, Network, Router};

/// What this process has seen, by `OpenStackCluster`.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    clusters: Mutex<HashMap<ObjectName, Seen>>,
    kinds: Mutex<HashMap<(String, String), ApiResource>>,
}

/// What this process has seen of one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The object it was seen for; another object of the same name starts anew.
    pub uid: String,
    /// The load balancer that was found to be ours.
    pub load_balancer: Option<KnownLoadBalancer>,
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

impl Memory {
    /// What was seen of the object with this name and uid.
    pub(crate) fn recall(&self, name: &ObjectName, uid: &str) -> Seen {
        let seen = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name)
            .filter(|seen| seen.uid == uid)
            .cloned()
            .unwrap_or_else(|| Seen {
                uid: uid.to_owned(),
                ..Seen::default()
            })
    }

    /// Keeps what was seen. There is only ever one pass over an object, so nothing is lost.
    pub(crate) fn keep(&self, name: &ObjectName, seen: Seen) {
        self.clusters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone(), seen);
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, name: &ObjectName) {
        self.clusters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Where objects of a group and kind are found, once it was learnt.
    pub(crate) fn kind(&self, kind: &(String, String)) -> Option<ApiResource> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).cloned()
    }

    /// Learns where objects of a group and kind are found.
    pub(crate) fn learn_kind(&self, kind: (String, String), resource: ApiResource) {
        self.kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(kind, resource);
    }
}

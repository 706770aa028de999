//! The reads that the handles of one cloud share. This module stores values and coordinates callers;
//! [`crate::SharedReads`] makes the calls.

pub(crate) mod aged;
mod batch;
mod batched;

use std::{collections::HashMap, hash::Hash, sync::Arc};

use capo_core::ids::{FlavorId, ImageId, LoadBalancerId, MonitorId, PortId, ServerId};
use parking_lot::Mutex;

use crate::{
    compute::{AvailabilityZone, Flavor, Server, ServerGroup},
    image::{Image, ImageFilter},
    load_balancer::{HealthMonitor, Listener, Pool},
    network::{
        Network, NetworkFilter, Port, ProjectNetworking, SecurityGroup, SecurityGroupFilter,
        Subnet, SubnetFilter,
    },
};
use aged::Aged;

pub use batch::Read;
pub(crate) use batched::Batched;

/// The reads of one cloud and project.
#[derive(Debug)]
pub(crate) struct ReadCache {
    pub(crate) servers: Batched<ServerId, Server>,
    pub(crate) server_ids: Batched<String, Vec<ServerId>>,
    pub(crate) ports: Batched<PortId, Port>,
    pub(crate) ports_by_name: Batched<String, Vec<Port>>,
    pub(crate) listeners: Batched<LoadBalancerId, Vec<Listener>>,
    pub(crate) pools: Batched<LoadBalancerId, Vec<Pool>>,
    pub(crate) monitors: Batched<MonitorId, HealthMonitor>,
    pub(crate) flavors: Aged<Arc<Vec<Flavor>>>,
    pub(crate) zones: Aged<Arc<Vec<AvailabilityZone>>>,
    pub(crate) groups: Aged<Arc<Vec<ServerGroup>>>,
    pub(crate) flavor: ByKey<FlavorId, Flavor>,
    pub(crate) image: ByKey<ImageId, Image>,
    pub(crate) images: ByKey<ImageFilter, Vec<Image>>,
    pub(crate) networks: ByKey<NetworkFilter, Vec<Network>>,
    pub(crate) subnets: ByKey<SubnetFilter, Vec<Subnet>>,
    pub(crate) security_groups: ByKey<SecurityGroupFilter, Vec<SecurityGroup>>,
    pub(crate) project_networking: Aged<Arc<ProjectNetworking>>,
}

impl Default for ReadCache {
    fn default() -> Self {
        Self {
            servers: Batched::by_id(),
            server_ids: Batched::by_name(),
            ports: Batched::by_id(),
            ports_by_name: Batched::by_name(),
            listeners: Batched::by_id(),
            pools: Batched::by_id(),
            monitors: Batched::by_id(),
            flavors: Aged::default(),
            zones: Aged::default(),
            groups: Aged::default(),
            flavor: ByKey::default(),
            image: ByKey::default(),
            images: ByKey::default(),
            networks: ByKey::default(),
            subnets: ByKey::default(),
            security_groups: ByKey::default(),
            project_networking: Aged::default(),
        }
    }
}

/// The largest number of keys of one kind. When it is exceeded, all values are removed and read again.
const MOST_REMEMBERED: usize = 256;

/// One aged value for each key.
#[derive(Debug)]
pub(crate) struct ByKey<K, V>(Mutex<HashMap<K, Arc<Aged<V>>>>);

impl<K, V> Default for ByKey<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> ByKey<K, V> {
    /// The value of `key`, which may not have been read yet.
    pub(crate) fn of(&self, key: &K) -> Arc<Aged<V>> {
        let mut known = self.0.lock();
        if known.len() >= MOST_REMEMBERED && !known.contains_key(key) {
            known.clear();
        }
        Arc::clone(known.entry(key.clone()).or_default())
    }
}

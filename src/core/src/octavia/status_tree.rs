//! The status tree: one consistent snapshot of a load balancer and all parts attached to it.
//!
//! The tree has no pools without a listener, and no weights, admin states, tags and subnets. Octavia nests pools under
//! listeners, so it shows a shared pool twice; here every pool is listed once.

use std::{collections::BTreeSet, net::IpAddr};

use serde::Deserialize;

use super::{MonitorType, OperatingStatus, ProvisioningStatus};
use crate::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId};
use crate::wire::{null_as_default, parsed};

/// A load balancer with its listeners and the pools they use, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "WireStatuses")]
pub struct StatusTree {
    /// The load balancer's id.
    pub id: LoadBalancerId,
    /// Its name.
    pub name: String,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    pub operating_status: OperatingStatus,
    /// Its listeners, in Octavia's order.
    pub listeners: Vec<TreeListener>,
    /// Every pool that a listener uses, once, in the order of the tree.
    pub pools: Vec<TreePool>,
}

/// A listener in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeListener {
    /// Octavia's id.
    pub id: ListenerId,
    /// Its name.
    pub name: String,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    pub operating_status: OperatingStatus,
    /// The pools it uses.
    pub pools: Vec<PoolId>,
}

/// A pool in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreePool {
    /// Octavia's id.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    pub operating_status: OperatingStatus,
    /// Its health monitor.
    pub health_monitor: Option<TreeMonitor>,
    /// Its members.
    pub members: Vec<TreeMember>,
}

/// A health monitor in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct TreeMonitor {
    /// Octavia's id.
    pub id: MonitorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// How it checks.
    #[serde(default, rename = "type")]
    pub monitor_type: MonitorType,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
}

/// A member in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct TreeMember {
    /// Octavia's id.
    pub id: MemberId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its address; `None` where Octavia's text is no IP address.
    #[serde(default, deserialize_with = "parsed")]
    pub address: Option<IpAddr>,
    /// Its port.
    pub protocol_port: u16,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the object in the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
}

/// `{"loadbalancer": …}` inside `statuses`.
#[derive(Deserialize)]
struct WireStatuses {
    loadbalancer: WireLoadBalancer,
}

#[derive(Deserialize)]
struct WireLoadBalancer {
    id: LoadBalancerId,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    provisioning_status: ProvisioningStatus,
    #[serde(default)]
    operating_status: OperatingStatus,
    #[serde(default, deserialize_with = "null_as_default")]
    listeners: Vec<WireListener>,
    /// The API reference shows this key only in its sample. It is read in case the proxy of a provider sends it.
    #[serde(default, deserialize_with = "null_as_default")]
    pools: Vec<WirePool>,
}

#[derive(Deserialize)]
struct WireListener {
    id: ListenerId,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    provisioning_status: ProvisioningStatus,
    #[serde(default)]
    operating_status: OperatingStatus,
    #[serde(default, deserialize_with = "null_as_default")]
    pools: Vec<WirePool>,
}

#[derive(Deserialize)]
struct WirePool {
    id: PoolId,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    provisioning_status: ProvisioningStatus,
    #[serde(default)]
    operating_status: OperatingStatus,
    /// Octavia sends `health_monitor`, in some releases with an empty object for a pool without a monitor. Its API
    /// reference calls the key `healthmonitor`.
    #[serde(default, alias = "healthmonitor")]
    health_monitor: Option<WireMonitor>,
    #[serde(default, deserialize_with = "null_as_default")]
    members: Vec<TreeMember>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WireMonitor {
    Present(TreeMonitor),
    Absent {},
}

impl From<WireStatuses> for StatusTree {
    fn from(wire: WireStatuses) -> Self {
        let wire = wire.loadbalancer;
        let mut seen = BTreeSet::new();
        let mut pools = Vec::new();
        let mut keep = |pool: WirePool| -> PoolId {
            let id = pool.id.clone();
            if seen.insert(id.clone()) {
                pools.push(pool.into());
            }
            id
        };
        let listeners = wire
            .listeners
            .into_iter()
            .map(|listener| TreeListener {
                id: listener.id,
                name: listener.name,
                provisioning_status: listener.provisioning_status,
                operating_status: listener.operating_status,
                pools: listener.pools.into_iter().map(&mut keep).collect(),
            })
            .collect();
        for pool in wire.pools {
            keep(pool);
        }
        Self {
            id: wire.id,
            name: wire.name,
            provisioning_status: wire.provisioning_status,
            operating_status: wire.operating_status,
            listeners,
            pools,
        }
    }
}

impl From<WirePool> for TreePool {
    fn from(wire: WirePool) -> Self {
        Self {
            id: wire.id,
            name: wire.name,
            provisioning_status: wire.provisioning_status,
            operating_status: wire.operating_status,
            health_monitor: match wire.health_monitor {
                Some(WireMonitor::Present(monitor)) => Some(monitor),
                Some(WireMonitor::Absent {}) | None => None,
            },
            members: wire.members,
        }
    }
}

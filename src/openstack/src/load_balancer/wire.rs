//! Octavia's objects as they are read and written. Only what we use; everything else is ignored.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::types::{LbAlgorithm, ListenerProtocol, MonitorType, PoolProtocol};
use crate::wire::{Reference, TagFilter, null_as_default, parsed, parsed_list};
use capo_core::ids::{
    ListenerId, LoadBalancerFlavorId, LoadBalancerId, MemberId, MonitorId, NetworkId, PoolId,
    PortId, ProjectId, SubnetId,
};
use capo_core::{OperatingStatus, ProvisioningStatus};

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LoadBalancer {
    /// Octavia's id.
    pub id: LoadBalancerId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// How far the last change is. While PENDING, every write to anything in it answers 409.
    pub provisioning_status: ProvisioningStatus,
    /// How the data path is.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// The provider's name; null is shown by Octavia as its default.
    #[serde(default)]
    pub provider: Option<String>,
    /// The virtual address.
    #[serde(default, deserialize_with = "parsed")]
    pub vip_address: Option<IpAddr>,
    /// The Neutron port that holds it.
    #[serde(default)]
    pub vip_port_id: Option<PortId>,
    /// Its subnet.
    #[serde(default)]
    pub vip_subnet_id: Option<SubnetId>,
    /// Its network.
    #[serde(default)]
    pub vip_network_id: Option<NetworkId>,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Octavia's flavor id.
    #[serde(default)]
    pub flavor_id: Option<LoadBalancerFlavorId>,
    /// Octavia's availability zone.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Its listeners.
    #[serde(default, deserialize_with = "null_as_default")]
    pub listeners: Vec<Reference<ListenerId>>,
    /// Its pools, unattached ones too.
    #[serde(default, deserialize_with = "null_as_default")]
    pub pools: Vec<Reference<PoolId>>,
    /// Time of the last change, whole seconds, as sent. Compare for inequality only.
    #[serde(default)]
    pub updated_at: Option<String>,
}

/// Which load balancers to list. Everything given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadBalancerFilter {
    /// The exact name.
    pub name: Option<String>,
    /// The project; a credential with wider rights sees those of others too.
    pub project_id: Option<ProjectId>,
    /// By tags.
    pub tags: TagFilter,
}

/// A load balancer to create. One of network, subnet is needed for its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewLoadBalancer {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The address it shall have; else Octavia picks one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_address: Option<IpAddr>,
    /// The network of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_network_id: Option<NetworkId>,
    /// The subnet of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_subnet_id: Option<SubnetId>,
    /// The provider; else Octavia's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Octavia's flavor id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor_id: Option<LoadBalancerFlavorId>,
    /// Octavia's availability zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A listener: one port of a load balancer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Listener {
    /// Octavia's id.
    pub id: ListenerId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// How far the last change is.
    pub provisioning_status: ProvisioningStatus,
    /// How the data path is.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// What it speaks.
    #[serde(default)]
    pub protocol: ListenerProtocol,
    /// The port.
    pub protocol_port: u16,
    /// Where its connections go.
    #[serde(default)]
    pub default_pool_id: Option<PoolId>,
    /// Source ranges that may connect; empty means all.
    #[serde(default, deserialize_with = "parsed_list")]
    pub allowed_cidrs: Vec<IpNet>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Takes connections.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
}

/// A listener to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewListener {
    /// The load balancer.
    pub loadbalancer_id: LoadBalancerId,
    /// Its name.
    pub name: String,
    /// What it speaks.
    pub protocol: ListenerProtocol,
    /// The port.
    pub protocol_port: u16,
    /// Source ranges that may connect (API 2.12, not with the OVN provider).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What to change of a listener. Empty: a write of its own values, which makes Octavia push it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct ListenerUpdate {
    /// Where its connections go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_pool_id: Option<PoolId>,
    /// Source ranges that may connect; an empty list lets all in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cidrs: Option<Vec<IpNet>>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Pool {
    /// Octavia's id.
    pub id: PoolId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// How far the last change is. While not ACTIVE, member writes answer 409.
    pub provisioning_status: ProvisioningStatus,
    /// How the data path is.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// What it speaks.
    #[serde(default)]
    pub protocol: PoolProtocol,
    /// How it chooses a member.
    #[serde(default)]
    pub lb_algorithm: LbAlgorithm,
    /// Its health monitor.
    #[serde(default)]
    pub healthmonitor_id: Option<MonitorId>,
    /// Listeners that use it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub listeners: Vec<Reference<ListenerId>>,
    /// Its members.
    #[serde(default, deserialize_with = "null_as_default")]
    pub members: Vec<Reference<MemberId>>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Is in use.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
}

/// A pool to create, under a listener or under the load balancer alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// What it speaks.
    pub protocol: PoolProtocol,
    /// How it chooses a member.
    pub lb_algorithm: LbAlgorithm,
    /// The listener whose default pool it becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_id: Option<ListenerId>,
    /// The load balancer, where no listener is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loadbalancer_id: Option<LoadBalancerId>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What to change of a pool. Empty (`{}`) is legal and pushes it again; it is the one write that Octavia
/// takes while the pool itself is PENDING under an ACTIVE load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct PoolUpdate {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How it chooses a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lb_algorithm: Option<LbAlgorithm>,
}

/// A health monitor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HealthMonitor {
    /// Octavia's id.
    pub id: MonitorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// How it checks.
    #[serde(default, rename = "type")]
    pub monitor_type: MonitorType,
    /// Seconds between two checks.
    pub delay: u32,
    /// Seconds until a check counts as failed.
    pub timeout: u32,
    /// Good checks until a member is up.
    pub max_retries: u32,
    /// Failed checks until a member is down.
    #[serde(default = "three")]
    pub max_retries_down: u32,
    /// How far the last change is.
    pub provisioning_status: ProvisioningStatus,
    /// How the data path is.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// The pools it belongs to (one).
    #[serde(default, deserialize_with = "null_as_default")]
    pub pools: Vec<Reference<PoolId>>,
    /// It checks.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
}

/// Which health monitors to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthMonitorFilter {
    /// The exact name.
    pub name: Option<String>,
    /// The pool.
    pub pool_id: Option<PoolId>,
    /// The project.
    pub project_id: Option<ProjectId>,
}

/// A health monitor to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewHealthMonitor {
    /// The pool.
    pub pool_id: PoolId,
    /// Its name.
    pub name: String,
    /// How it checks.
    #[serde(rename = "type")]
    pub monitor_type: MonitorType,
    /// Seconds between two checks.
    pub delay: u32,
    /// Seconds until a check counts as failed; Octavia wants it smaller than or equal to the delay.
    pub timeout: u32,
    /// Good checks until a member is up.
    pub max_retries: u32,
    /// Failed checks until a member is down.
    pub max_retries_down: u32,
}

/// What to change of a health monitor. Empty: a write of its own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct HealthMonitorUpdate {
    /// Seconds between two checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<u32>,
    /// Seconds until a check counts as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// Good checks until a member is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Failed checks until a member is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries_down: Option<u32>,
}

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Member {
    /// Octavia's id.
    pub id: MemberId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its address; `None` if it is none that we can read.
    #[serde(default, deserialize_with = "parsed")]
    pub address: Option<IpAddr>,
    /// Its port.
    pub protocol_port: u16,
    /// Its share of connections, 0 to 256; 0 drains it (not with the OVN provider).
    #[serde(default = "one")]
    pub weight: u32,
    /// Gets connections only when all others are down.
    #[serde(default, deserialize_with = "null_as_default")]
    pub backup: bool,
    /// Gets connections at all.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    /// The subnet it is in, where given.
    #[serde(default)]
    pub subnet_id: Option<SubnetId>,
    /// How far the last change is.
    pub provisioning_status: ProvisioningStatus,
    /// How the data path sees it.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Another address to check.
    #[serde(default, deserialize_with = "parsed")]
    pub monitor_address: Option<IpAddr>,
    /// Another port to check.
    #[serde(default)]
    pub monitor_port: Option<u16>,
    /// Time of creation, whole seconds, UTC, as sent.
    #[serde(default)]
    pub created_at: Option<String>,
    /// Time of the last change; null until the first.
    #[serde(default)]
    pub updated_at: Option<String>,
}

/// A member to create. Within a pool, address and port are unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewMember {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub protocol_port: u16,
    /// The subnet to reach it through, where it is not the VIP's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<SubnetId>,
    /// Its share of connections; Octavia's default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Gets connections from the start.
    pub admin_state_up: bool,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What to change of a member. Empty: a write of its own values, which pushes the pool again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct MemberUpdate {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its share of connections, 0 to drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Gets connections at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_state_up: Option<bool>,
    /// All its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

/// A provider that is enabled in this cloud.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Provider {
    /// Its name: `amphora`, `ovn`, …
    pub name: String,
}

/// An Octavia flavor.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadBalancerFlavor {
    /// Octavia's id.
    pub id: LoadBalancerFlavorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Can be used.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

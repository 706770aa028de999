//! Pools.

use serde::{Deserialize, Serialize};

use super::{LbAlgorithm, OperatingStatus, PoolProtocol, ProvisioningStatus};
use crate::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId};
use crate::wire::{Reference, null_as_default, yes};

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Pool {
    /// Octavia's id.
    pub id: PoolId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The progress of the last change. While it is not ACTIVE, Octavia answers 409 to writes of members.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// Its protocol.
    #[serde(default)]
    pub protocol: PoolProtocol,
    /// How it chooses the member for a connection.
    #[serde(default)]
    pub lb_algorithm: LbAlgorithm,
    /// Its health monitor.
    #[serde(default)]
    pub healthmonitor_id: Option<MonitorId>,
    /// The load balancer to which it belongs. Octavia sends a list of one.
    #[serde(default, deserialize_with = "null_as_default")]
    pub loadbalancers: Vec<Reference<LoadBalancerId>>,
    /// The listeners that use it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub listeners: Vec<Reference<ListenerId>>,
    /// Its members.
    #[serde(default, deserialize_with = "null_as_default")]
    pub members: Vec<Reference<MemberId>>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Whether it is in use.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
}

/// A pool to create, either as the default pool of a listener or without a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: PoolProtocol,
    /// How it chooses the member for a connection.
    pub lb_algorithm: LbAlgorithm,
    /// The listener whose default pool it becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_id: Option<ListenerId>,
    /// The load balancer, if no listener is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loadbalancer_id: Option<LoadBalancerId>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The changes of a pool. Without any, Octavia writes the existing configuration to the data path again. This is the
/// only write of a pool that Octavia accepts while the pool itself is PENDING under an ACTIVE load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct PoolUpdate {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How it chooses the member for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lb_algorithm: Option<LbAlgorithm>,
}

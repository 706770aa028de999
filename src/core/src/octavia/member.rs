//! Members of pools.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{OperatingStatus, ProvisioningStatus};
use crate::ids::{MemberId, SubnetId};
use crate::wire::{null_as_default, parsed, yes};

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Member {
    /// Octavia's id.
    pub id: MemberId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its address; `None` where what Octavia sent is no IP address.
    #[serde(default, deserialize_with = "parsed")]
    pub address: Option<IpAddr>,
    /// Its port.
    pub protocol_port: u16,
    /// Its share of connections, from 0 to 256. 0 drains it, except with the OVN provider.
    #[serde(default = "one")]
    pub weight: u32,
    /// Whether it gets connections only while all other members are down.
    #[serde(default, deserialize_with = "null_as_default")]
    pub backup: bool,
    /// Whether it gets connections.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    /// The subnet of its address, where one was given.
    #[serde(default)]
    pub subnet_id: Option<SubnetId>,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the member in the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// The address that the monitor checks, if it is not `address`.
    #[serde(default, deserialize_with = "parsed")]
    pub monitor_address: Option<IpAddr>,
    /// The port that the monitor checks, if it is not `protocol_port`.
    #[serde(default)]
    pub monitor_port: Option<u16>,
    /// The time of creation in whole seconds and UTC, as Octavia sent it.
    #[serde(default)]
    pub created_at: Option<String>,
    /// The time of the last change; null before the first one.
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
    /// The subnet through which the load balancer reaches it, if it is not the subnet of the VIP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<SubnetId>,
    /// Its share of connections; Octavia's default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether it gets connections from the start.
    pub admin_state_up: bool,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The changes of a member. Without any, Octavia writes the existing configuration of the pool to the data path again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct MemberUpdate {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its share of connections; 0 drains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether it gets connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_state_up: Option<bool>,
    /// All its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

fn one() -> u32 {
    1
}

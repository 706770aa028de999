//! Listeners.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{ListenerProtocol, OperatingStatus, ProvisioningStatus};
use crate::ids::{ListenerId, LoadBalancerId, PoolId};
use crate::wire::{Reference, null_as_default, parsed_list, yes};

/// A listener: one port of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Listener {
    /// Octavia's id.
    pub id: ListenerId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// Its protocol.
    #[serde(default)]
    pub protocol: ListenerProtocol,
    /// The port.
    pub protocol_port: u16,
    /// The pool that gets its connections.
    #[serde(default)]
    pub default_pool_id: Option<PoolId>,
    /// Source ranges that may connect; empty means all.
    #[serde(default, deserialize_with = "parsed_list")]
    pub allowed_cidrs: Vec<IpNet>,
    /// The load balancer to which it belongs. Octavia sends a list of one.
    #[serde(default, deserialize_with = "null_as_default")]
    pub loadbalancers: Vec<Reference<LoadBalancerId>>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Whether it accepts connections.
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
    /// Its protocol.
    pub protocol: ListenerProtocol,
    /// The port.
    pub protocol_port: u16,
    /// Source ranges that may connect (API 2.12, not with the OVN provider). An empty list, which means all, is not
    /// sent: some providers refuse the attribute whatever it contains.
    #[serde(skip_serializing_if = "means_all")]
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The changes of a listener. Without any, Octavia writes the existing configuration to the data path again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct ListenerUpdate {
    /// The pool that gets its connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_pool_id: Option<PoolId>,
    /// Source ranges that may connect; an empty list means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cidrs: Option<Vec<IpNet>>,
}

/// Whether a list of source ranges restricts nothing.
#[expect(
    clippy::ref_option,
    reason = "serde calls it with a reference to the field"
)]
fn means_all(ranges: &Option<Vec<IpNet>>) -> bool {
    ranges.as_ref().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_listener_without_a_restriction_is_created_without_the_attribute() {
        let sent = |allowed_cidrs| {
            let listener = NewListener {
                loadbalancer_id: "lb".into(),
                name: "l".to_owned(),
                protocol: ListenerProtocol::Tcp,
                protocol_port: 6443,
                allowed_cidrs,
                tags: Vec::new(),
            };
            serde_json::to_value(listener).unwrap()["allowed_cidrs"].clone()
        };
        assert!(sent(None).is_null());
        assert!(sent(Some(Vec::new())).is_null());
        let range = "192.0.2.0/24".parse().unwrap();
        assert_eq!(sent(Some(vec![range])), serde_json::json!(["192.0.2.0/24"]));
    }
}

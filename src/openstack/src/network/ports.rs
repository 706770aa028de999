//! Ports.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Cloud, Error, Service,
    request::{Call, calls},
    wire::{FixedIp, TagFilter, null_as_default},
};
use capo_core::ids::{NetworkId, PortId, ProjectId, SecurityGroupId};
use capo_core::wire_enum;
use capo_core::{FailureClass, Priority};

const NEUTRON: Service = Service::Network;

wire_enum! {
    /// A port's status.
    pub enum PortStatus {
        /// Bound and up.
        Active = "ACTIVE",
        /// Not up.
        Down = "DOWN",
        /// Being set up.
        Build = "BUILD",
        /// In ERROR.
        Error = "ERROR",
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Port {
    /// Neutron's id.
    pub id: PortId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// Its network.
    pub network_id: NetworkId,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Its status.
    #[serde(default)]
    pub status: PortStatus,
    /// Whether it forwards traffic.
    #[serde(default, deserialize_with = "null_as_default")]
    pub admin_state_up: bool,
    /// Its MAC address.
    #[serde(default, deserialize_with = "null_as_default")]
    pub mac_address: String,
    /// Its addresses.
    #[serde(default, deserialize_with = "null_as_default")]
    pub fixed_ips: Vec<FixedIp>,
    /// Its security groups.
    #[serde(default, deserialize_with = "null_as_default")]
    pub security_groups: Vec<SecurityGroupId>,
    /// The id of the server or router that uses it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub device_id: String,
    /// The kind of its user: `compute:nova`, `network:router_interface`, …
    #[serde(default, deserialize_with = "null_as_default")]
    pub device_owner: String,
    /// Further addresses from which it may send.
    #[serde(default, deserialize_with = "null_as_default")]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// Whether security groups apply to it; absent in a cloud without the extension.
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

/// A further address that a port may send from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPair {
    /// An address or a range.
    #[serde(default, deserialize_with = "null_as_default")]
    pub ip_address: String,
    /// Another MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

/// The ports to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortFilter {
    /// Any of these ids.
    pub ids: Vec<PortId>,
    /// The exact name.
    pub name: Option<String>,
    /// The exact description.
    pub description: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// The network.
    pub network_id: Option<NetworkId>,
    /// The id of the server or router that uses it.
    pub device_id: Option<String>,
    /// Any of these kinds of its user: `compute:nova`, `network:router_interface`, …
    pub device_owners: Vec<String>,
    /// Has this address.
    pub ip_address: Option<IpAddr>,
    /// Conditions on its tags.
    pub tags: TagFilter,
}

/// A port to create.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct NewPort {
    /// Its name.
    pub name: String,
    /// Its network.
    pub network_id: NetworkId,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it forwards traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_state_up: Option<bool>,
    /// Its MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Its addresses. Neutron chooses them where none are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixed_ips: Vec<FixedIp>,
    /// Its security groups. With `None` it gets the project's default group, with an empty list it gets none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroupId>>,
    /// Further addresses from which it may send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// The host it is bound to.
    #[serde(rename = "binding:host_id", skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// `normal`, `direct`, …
    #[serde(rename = "binding:vnic_type", skip_serializing_if = "Option::is_none")]
    pub vnic_type: Option<String>,
    /// Details for the network driver.
    #[serde(rename = "binding:profile", skip_serializing_if = "BTreeMap::is_empty")]
    pub binding_profile: BTreeMap<String, Value>,
    /// Whether security groups apply to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_security_enabled: Option<bool>,
    /// Whether it goes down with the uplink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagate_uplink_status: Option<bool>,
    /// Whether the port is trusted (extension `port-trusted-vif`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// Further attributes, as the user gave them.
    #[serde(flatten)]
    pub value_specs: BTreeMap<String, String>,
}

/// The changes of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct PortUpdate {
    /// All its security groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroupId>>,
    /// All further addresses from which the port may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_address_pairs: Option<Vec<AddressPair>>,
    /// The id of the server or other device that the port belongs to. An empty text detaches the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The kind of device, such as `compute:nova`. An empty text goes together with an empty `device_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_owner: Option<String>,
}

calls! {
    /// Ports that match.
    fn ports(filter: &PortFilter) -> Vec<Port> = list(
        Call::get(NEUTRON, "port_list", ["ports"])
            .each("id", &filter.ids)
            .each("name", &filter.name)
            .each("description", &filter.description)
            .each("project_id", &filter.project_id)
            .each("network_id", &filter.network_id)
            .each("device_id", &filter.device_id)
            .each("device_owner", &filter.device_owners)
            .each("fixed_ips", filter.ip_address.map(|address| format!("ip_address={address}")))
            .tags(&filter.tags),
        "ports"
    );

    /// One port.
    fn port(id: &PortId) -> Port =
        one(Call::get(NEUTRON, "port_get", ["ports", id.as_str()]), "port");

    /// Creates a port.
    fn create_port(new: &NewPort) -> Port =
        one(Call::post(NEUTRON, "port_create", ["ports"]).json("port", new), "port");

    /// Changes a port.
    fn update_port(id: &PortId, update: &PortUpdate) -> Port =
        one(Call::put(NEUTRON, "port_update", ["ports", id.as_str()]).json("port", update), "port");

    /// Deletes a port.
    fn delete_port(id: &PortId) -> () =
        done(Call::delete(NEUTRON, "port_delete", ["ports", id.as_str()]));
}

impl Cloud {
    /// Deletes a port whose server is gone or was deleted softly. Neutron's policy (`delete_port`, since 2026.2 at the
    /// latest) does not allow members of a project to delete a port that is on a server, but allows them to detach it
    /// first.
    pub async fn delete_abandoned_port(
        &self,
        port: &Port,
        priority: Priority,
    ) -> Result<(), Error> {
        match self.delete_port(&port.id, priority).await {
            Err(error) if error.is(FailureClass::Denied) && !port.device_id.is_empty() => {}
            ended => return ended,
        }
        let on_no_device = PortUpdate {
            device_id: Some(String::new()),
            device_owner: Some(String::new()),
            ..PortUpdate::default()
        };
        self.update_port(&port.id, &on_no_device, priority).await?;
        self.delete_port(&port.id, priority).await
    }
}

//! Floating IPs.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    Service,
    request::{Call, calls},
    wire::{TagFilter, null_as_default, parsed},
};
use capo_core::ids::{FloatingIpId, NetworkId, PortId, ProjectId, RouterId};

const NEUTRON: Service = Service::Network;

/// A floating IP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FloatingIp {
    /// Neutron's id.
    pub id: FloatingIpId,
    /// The external address.
    #[serde(default, deserialize_with = "parsed")]
    pub floating_ip_address: Option<IpAddr>,
    /// The internal address.
    #[serde(default, deserialize_with = "parsed")]
    pub fixed_ip_address: Option<IpAddr>,
    /// The port with which it is associated.
    #[serde(default)]
    pub port_id: Option<PortId>,
    /// The router that forwards its traffic.
    #[serde(default)]
    pub router_id: Option<RouterId>,
    /// The external network.
    #[serde(default, deserialize_with = "null_as_default")]
    pub floating_network_id: NetworkId,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

impl FloatingIp {
    /// The external address, or the id if there is no address. Messages name the floating IP by it.
    pub fn address_or_id(&self) -> String {
        self.floating_ip_address
            .map_or_else(|| self.id.to_string(), |address| address.to_string())
    }
}

/// The floating IPs to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FloatingIpFilter {
    /// The external address.
    pub floating_ip_address: Option<IpAddr>,
    /// Any of these external addresses.
    pub floating_ip_addresses: Vec<IpAddr>,
    /// The port with which it is associated.
    pub port_id: Option<PortId>,
    /// The external network.
    pub floating_network_id: Option<NetworkId>,
    /// The exact description.
    pub description: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// Conditions on its tags.
    pub tags: TagFilter,
}

/// A floating IP to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewFloatingIp {
    /// The external network.
    pub floating_network_id: NetworkId,
    /// Its address, which usually only an admin may choose. Neutron chooses one where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floating_ip_address: Option<IpAddr>,
    /// The port to associate it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_id: Option<PortId>,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

calls! {
    /// Floating IPs that match.
    fn floating_ips(filter: &FloatingIpFilter) -> Vec<FloatingIp> = list(
        Call::get(NEUTRON, "floating_ip_list", ["floatingips"])
            .each("floating_ip_address", filter.floating_ip_address)
            .each("floating_ip_address", &filter.floating_ip_addresses)
            .each("port_id", &filter.port_id)
            .each("floating_network_id", &filter.floating_network_id)
            .each("description", &filter.description)
            .each("project_id", &filter.project_id)
            .tags(&filter.tags),
        "floatingips"
    );

    /// One floating IP.
    fn floating_ip(id: &FloatingIpId) -> FloatingIp =
        one(Call::get(NEUTRON, "floating_ip_get", ["floatingips", id.as_str()]), "floatingip");

    /// Allocates a floating IP.
    fn create_floating_ip(new: &NewFloatingIp) -> FloatingIp = one(
        Call::post(NEUTRON, "floating_ip_create", ["floatingips"]).json("floatingip", new),
        "floatingip"
    );

    /// Associates a floating IP with a port; `None` removes it from its port.
    fn associate_floating_ip(id: &FloatingIpId, port_id: Option<&PortId>) -> FloatingIp = one(
        Call::put(NEUTRON, "floating_ip_update", ["floatingips", id.as_str()])
            .json("floatingip", &BTreeMap::from([("port_id", port_id)])),
        "floatingip"
    );

    /// Releases a floating IP.
    fn delete_floating_ip(id: &FloatingIpId) -> () =
        done(Call::delete(NEUTRON, "floating_ip_delete", ["floatingips", id.as_str()]));
}

//! Floating IPs.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    Cloud, Error, Service,
    request::Call,
    wire::{TagFilter, null_as_default, parsed, push_some},
};
use capo_core::Priority;
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
    /// By tags.
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

impl Cloud {
    /// Floating IPs that match.
    pub async fn floating_ips(
        &self,
        filter: &FloatingIpFilter,
        priority: Priority,
    ) -> Result<Vec<FloatingIp>, Error> {
        let mut call = Call::get(NEUTRON, "floating_ip_list", ["floatingips"]).at(priority);
        let query = &mut call.query;
        push_some(
            query,
            "floating_ip_address",
            filter.floating_ip_address.as_ref(),
        );
        // Neutron reads a repeated key as a list of alternatives.
        for address in &filter.floating_ip_addresses {
            push_some(query, "floating_ip_address", Some(address));
        }
        push_some(query, "port_id", filter.port_id.as_ref());
        push_some(
            query,
            "floating_network_id",
            filter.floating_network_id.as_ref(),
        );
        push_some(query, "description", filter.description.as_ref());
        push_some(query, "project_id", filter.project_id.as_ref());
        filter.tags.query(query);
        self.list(call, "floatingips").await
    }

    /// One floating IP.
    pub async fn floating_ip(
        &self,
        id: &FloatingIpId,
        priority: Priority,
    ) -> Result<FloatingIp, Error> {
        let call = Call::get(NEUTRON, "floating_ip_get", ["floatingips", id.as_str()]).at(priority);
        self.one(call, "floatingip").await
    }

    /// Allocates a floating IP.
    pub async fn create_floating_ip(
        &self,
        new: &NewFloatingIp,
        priority: Priority,
    ) -> Result<FloatingIp, Error> {
        let call = Call::post(NEUTRON, "floating_ip_create", ["floatingips"])
            .json("floatingip", new)
            .at(priority);
        self.one(call, "floatingip").await
    }

    /// Associates a floating IP with a port; `None` removes it from its port.
    pub async fn associate_floating_ip(
        &self,
        id: &FloatingIpId,
        port_id: Option<&PortId>,
        priority: Priority,
    ) -> Result<FloatingIp, Error> {
        let call = Call::put(NEUTRON, "floating_ip_update", ["floatingips", id.as_str()])
            .json("floatingip", &BTreeMap::from([("port_id", port_id)]))
            .at(priority);
        self.one(call, "floatingip").await
    }

    /// Releases a floating IP.
    pub async fn delete_floating_ip(
        &self,
        id: &FloatingIpId,
        priority: Priority,
    ) -> Result<(), Error> {
        let call =
            Call::delete(NEUTRON, "floating_ip_delete", ["floatingips", id.as_str()]).at(priority);
        self.done(call).await
    }
}

//! Networks and subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    Cloud, Error, Service,
    request::Call,
    wire::{TagFilter, null_as_default, parsed, parsed_list, push_some},
};
use capo_core::Priority;
use capo_core::ids::{NetworkId, ProjectId, SubnetId};

const NEUTRON: Service = Service::Network;

/// A network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// Neutron's id.
    pub id: NetworkId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Its subnets.
    #[serde(default, deserialize_with = "null_as_default")]
    pub subnets: Vec<SubnetId>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Whether routers can have their gateway in it.
    #[serde(
        default,
        rename = "router:external",
        deserialize_with = "null_as_default"
    )]
    pub external: bool,
    /// The largest packet in bytes.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Whether security groups apply to ports that do not set their own value.
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
}

/// The networks to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NetworkFilter {
    /// The id.
    pub id: Option<NetworkId>,
    /// The exact name.
    pub name: Option<String>,
    /// The exact description.
    pub description: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// Whether it is external.
    pub external: Option<bool>,
    /// By tags.
    pub tags: TagFilter,
}

/// A network to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewNetwork {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The largest packet in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Whether security groups apply to ports that do not set their own value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_security_enabled: Option<bool>,
}

/// A subnet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// Neutron's id.
    pub id: SubnetId,
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
    /// Its range.
    #[serde(default, deserialize_with = "parsed")]
    pub cidr: Option<IpNet>,
    /// 4 or 6.
    #[serde(default)]
    pub ip_version: u8,
    /// Its gateway.
    #[serde(default, deserialize_with = "parsed")]
    pub gateway_ip: Option<IpAddr>,
    /// The name servers of its hosts.
    #[serde(default, deserialize_with = "parsed_list")]
    pub dns_nameservers: Vec<IpAddr>,
    /// Ranges from which addresses are allocated.
    #[serde(default, deserialize_with = "null_as_default")]
    pub allocation_pools: Vec<AllocationPool>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationPool {
    /// The first.
    pub start: String,
    /// The last.
    pub end: String,
}

/// The subnets to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SubnetFilter {
    /// The id.
    pub id: Option<SubnetId>,
    /// The network.
    pub network_id: Option<NetworkId>,
    /// The exact name.
    pub name: Option<String>,
    /// The exact description.
    pub description: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// 4 or 6.
    pub ip_version: Option<u8>,
    /// The gateway.
    pub gateway_ip: Option<IpAddr>,
    /// The range, as Neutron writes it.
    pub cidr: Option<IpNet>,
    /// Neutron's address mode.
    pub ipv6_address_mode: Option<String>,
    /// Neutron's router advertisement mode.
    pub ipv6_ra_mode: Option<String>,
    /// By tags.
    pub tags: TagFilter,
}

/// A subnet to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewSubnet {
    /// Its network.
    pub network_id: NetworkId,
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its range.
    pub cidr: IpNet,
    /// The IP version of the range, 4 or 6.
    pub ip_version: u8,
    /// The name servers of its hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_nameservers: Vec<String>,
    /// Ranges from which addresses are allocated; the whole range where none are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_pools: Vec<AllocationPool>,
    /// How hosts get their IPv6 addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_address_mode: Option<Ipv6Mode>,
    /// What the router announces about IPv6 addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_ra_mode: Option<Ipv6Mode>,
}

/// Where the IPv6 addresses of a subnet come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipv6Mode {
    /// Each host makes its own address, from the prefix and its MAC address.
    Slaac,
    /// DHCPv6 tells each host the address of its port.
    Dhcpv6Stateful,
    /// Each host makes its own address; DHCPv6 tells the rest.
    Dhcpv6Stateless,
}

/// The changes of a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct SubnetUpdate {
    /// All name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_nameservers: Option<Vec<String>>,
}

impl Cloud {
    /// Networks that match.
    pub async fn networks(
        &self,
        filter: &NetworkFilter,
        priority: Priority,
    ) -> Result<Vec<Network>, Error> {
        let mut call = Call::get(NEUTRON, "network_list", ["networks"]).at(priority);
        push_some(&mut call.query, "id", filter.id.as_ref());
        push_some(&mut call.query, "name", filter.name.as_ref());
        push_some(&mut call.query, "description", filter.description.as_ref());
        push_some(&mut call.query, "project_id", filter.project_id.as_ref());
        push_some(&mut call.query, "router:external", filter.external.as_ref());
        filter.tags.query(&mut call.query);
        self.list(call, "networks").await
    }

    /// One network.
    pub async fn network(&self, id: &NetworkId, priority: Priority) -> Result<Network, Error> {
        let call = Call::get(NEUTRON, "network_get", ["networks", id.as_str()]).at(priority);
        self.one(call, "network").await
    }

    /// Creates a network.
    pub async fn create_network(
        &self,
        new: &NewNetwork,
        priority: Priority,
    ) -> Result<Network, Error> {
        let call = Call::post(NEUTRON, "network_create", ["networks"])
            .json("network", new)
            .at(priority);
        self.one(call, "network").await
    }

    /// Deletes a network and its subnets. While it has ports, Neutron answers 409.
    pub async fn delete_network(&self, id: &NetworkId, priority: Priority) -> Result<(), Error> {
        let call = Call::delete(NEUTRON, "network_delete", ["networks", id.as_str()]).at(priority);
        self.done(call).await
    }

    /// Subnets that match.
    pub async fn subnets(
        &self,
        filter: &SubnetFilter,
        priority: Priority,
    ) -> Result<Vec<Subnet>, Error> {
        let mut call = Call::get(NEUTRON, "subnet_list", ["subnets"]).at(priority);
        let query = &mut call.query;
        push_some(query, "id", filter.id.as_ref());
        push_some(query, "network_id", filter.network_id.as_ref());
        push_some(query, "name", filter.name.as_ref());
        push_some(query, "description", filter.description.as_ref());
        push_some(query, "project_id", filter.project_id.as_ref());
        push_some(query, "ip_version", filter.ip_version.as_ref());
        push_some(query, "gateway_ip", filter.gateway_ip.as_ref());
        push_some(query, "cidr", filter.cidr.as_ref());
        push_some(
            query,
            "ipv6_address_mode",
            filter.ipv6_address_mode.as_ref(),
        );
        push_some(query, "ipv6_ra_mode", filter.ipv6_ra_mode.as_ref());
        filter.tags.query(query);
        self.list(call, "subnets").await
    }

    /// One subnet.
    pub async fn subnet(&self, id: &SubnetId, priority: Priority) -> Result<Subnet, Error> {
        let call = Call::get(NEUTRON, "subnet_get", ["subnets", id.as_str()]).at(priority);
        self.one(call, "subnet").await
    }

    /// Creates a subnet.
    pub async fn create_subnet(
        &self,
        new: &NewSubnet,
        priority: Priority,
    ) -> Result<Subnet, Error> {
        let call = Call::post(NEUTRON, "subnet_create", ["subnets"])
            .json("subnet", new)
            .at(priority);
        self.one(call, "subnet").await
    }

    /// Changes a subnet.
    pub async fn update_subnet(
        &self,
        id: &SubnetId,
        update: &SubnetUpdate,
        priority: Priority,
    ) -> Result<Subnet, Error> {
        let call = Call::put(NEUTRON, "subnet_update", ["subnets", id.as_str()])
            .json("subnet", update)
            .at(priority);
        self.one(call, "subnet").await
    }
}

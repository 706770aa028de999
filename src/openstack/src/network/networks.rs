//! Networks and subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    Service,
    request::{Call, calls},
    wire::{TagFilter, null_as_default, parsed, parsed_list},
};
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
    /// Conditions on its tags.
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
    /// The first address.
    pub start: String,
    /// The last address.
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
    /// Conditions on its tags.
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
    /// Ranges from which addresses are allocated. If there are none, addresses come from the whole subnet.
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
    /// Each host gets the address of its port by DHCPv6.
    Dhcpv6Stateful,
    /// Each host makes its own address, and gets its other settings by DHCPv6.
    Dhcpv6Stateless,
}

/// The changes of a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct SubnetUpdate {
    /// All name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_nameservers: Option<Vec<String>>,
}

calls! {
    /// Networks that match.
    fn networks(filter: &NetworkFilter) -> Vec<Network> = list(
        Call::get(NEUTRON, "network_list", ["networks"])
            .each("id", &filter.id)
            .each("name", &filter.name)
            .each("description", &filter.description)
            .each("project_id", &filter.project_id)
            .each("router:external", filter.external)
            .tags(&filter.tags),
        "networks"
    );

    /// One network.
    fn network(id: &NetworkId) -> Network =
        one(Call::get(NEUTRON, "network_get", ["networks", id.as_str()]), "network");

    /// Creates a network.
    fn create_network(new: &NewNetwork) -> Network =
        one(Call::post(NEUTRON, "network_create", ["networks"]).json("network", new), "network");

    /// Deletes a network and its subnets. While it has ports, Neutron answers 409.
    fn delete_network(id: &NetworkId) -> () =
        done(Call::delete(NEUTRON, "network_delete", ["networks", id.as_str()]));

    /// Subnets that match.
    fn subnets(filter: &SubnetFilter) -> Vec<Subnet> = list(
        Call::get(NEUTRON, "subnet_list", ["subnets"])
            .each("id", &filter.id)
            .each("network_id", &filter.network_id)
            .each("name", &filter.name)
            .each("description", &filter.description)
            .each("project_id", &filter.project_id)
            .each("ip_version", filter.ip_version)
            .each("gateway_ip", filter.gateway_ip)
            .each("cidr", filter.cidr)
            .each("ipv6_address_mode", &filter.ipv6_address_mode)
            .each("ipv6_ra_mode", &filter.ipv6_ra_mode)
            .tags(&filter.tags),
        "subnets"
    );

    /// One subnet.
    fn subnet(id: &SubnetId) -> Subnet =
        one(Call::get(NEUTRON, "subnet_get", ["subnets", id.as_str()]), "subnet");

    /// Creates a subnet.
    fn create_subnet(new: &NewSubnet) -> Subnet =
        one(Call::post(NEUTRON, "subnet_create", ["subnets"]).json("subnet", new), "subnet");

    /// Changes a subnet.
    fn update_subnet(id: &SubnetId, update: &SubnetUpdate) -> Subnet = one(
        Call::put(NEUTRON, "subnet_update", ["subnets", id.as_str()]).json("subnet", update),
        "subnet"
    );
}

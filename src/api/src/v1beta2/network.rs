//! How an object points at Neutron networks, subnets, routers and security groups: by id, or by a filter
//! that must match exactly one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A Neutron network: either its id or a filter that matches exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct NetworkParam {
    /// ID of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::uuid)]
    pub id: Option<String>,
    /// Properties that only the wanted network has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<NetworkFilter>,
}

/// Properties a network must have. All that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct NetworkFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Exact description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// ID of the project that owns it.
    #[serde(rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Tags it must all have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags: Vec<String>,
    /// Tags of which it must have at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags_any: Vec<String>,
    /// Tags it must not all have at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags: Vec<String>,
    /// Tags of which it must have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags_any: Vec<String>,
}

/// A Neutron subnet: either its id or a filter that matches exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct SubnetParam {
    /// ID of the subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::uuid)]
    pub id: Option<String>,
    /// Properties that only the wanted subnet has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<SubnetFilter>,
}

/// Properties a subnet must have. All that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct SubnetFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Exact description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// ID of the project that owns it.
    #[serde(rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// IP version, 4 or 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::since_v1beta2(schema::int32))]
    pub ip_version: Option<i64>,
    /// Address of its gateway.
    #[serde(rename = "gatewayIP", skip_serializing_if = "Option::is_none")]
    pub gateway_ip: Option<String>,
    /// Its address range in CIDR notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// How instances get IPv6 addresses: slaac, dhcpv6-stateful or dhcpv6-stateless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_address_mode: Option<String>,
    /// Who sends IPv6 router advertisements: slaac, dhcpv6-stateful or dhcpv6-stateless.
    #[serde(rename = "ipv6RAMode", skip_serializing_if = "Option::is_none")]
    pub ipv6_ra_mode: Option<String>,
    /// Tags it must all have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags: Vec<String>,
    /// Tags of which it must have at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags_any: Vec<String>,
    /// Tags it must not all have at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags: Vec<String>,
    /// Tags of which it must have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags_any: Vec<String>,
}

/// A Neutron router: either its id or a filter that matches exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct RouterParam {
    /// ID of the router.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::uuid)]
    pub id: Option<String>,
    /// Properties that only the wanted router has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<RouterFilter>,
}

/// Properties a router must have. All that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct RouterFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Exact description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// ID of the project that owns it.
    #[serde(rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Tags it must all have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags: Vec<String>,
    /// Tags of which it must have at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags_any: Vec<String>,
    /// Tags it must not all have at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags: Vec<String>,
    /// Tags of which it must have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags_any: Vec<String>,
}

/// A Neutron security group: either its id or a filter. A filter may match several groups; all of
/// them are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct SecurityGroupParam {
    /// ID of the security group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::uuid)]
    pub id: Option<String>,
    /// Properties the wanted groups have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<SecurityGroupFilter>,
}

/// Properties a security group must have. All that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct SecurityGroupFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Exact description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// ID of the project that owns it.
    #[serde(rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Tags it must all have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags: Vec<String>,
    /// Tags of which it must have at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub tags_any: Vec<String>,
    /// Tags it must not all have at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags: Vec<String>,
    /// Tags of which it must have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::tags)]
    pub not_tags_any: Vec<String>,
}

/// A subnet that is created and owned by the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SubnetSpec {
    /// Address range of the subnet in CIDR notation. The subnet is recognised by it, so it can't be
    /// changed.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub cidr: String,
    /// DNS servers of the instances. May be changed at any time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub dns_nameservers: Vec<String>,
    /// Ranges from which addresses are allocated. The default is the whole subnet except its gateway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub allocation_pools: Vec<AllocationPool>,
}

/// A range of addresses, both ends included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocationPool {
    /// First address.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub start: String,
    /// Last address.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub end: String,
}

/// Properties of the network that is created for the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "has(self.mtu) || has(self.enablePortSecurity)",
    "at least one of mtu and enablePortSecurity must be set",
))]
pub struct ManagedNetwork {
    /// Largest packet in bytes. Without it, the cloud chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::int32)]
    pub mtu: Option<i64>,
    /// Whether security groups apply to ports of the network that do not set their own value. Without it, the cloud
    /// chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_port_security: Option<bool>,
}

/// Properties of the router that is created for the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "has(self.externalIPs)",
    "externalIPs must be set",
))]
pub struct ManagedRouter {
    /// Addresses the router takes on the external network, instead of one that the cloud chooses.
    #[serde(rename = "externalIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1), transform = schema::atomic)]
    pub external_ips: Vec<ExternalRouterIp>,
}

/// An address of the router on the external network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalRouterIp {
    /// The address. The default is any free address of the subnet.
    #[serde(rename = "fixedIP", skip_serializing_if = "Option::is_none")]
    pub fixed_ip: Option<String>,
    /// The subnet of the external network the address belongs to.
    pub subnet: SubnetParam,
}

/// Where clients reach the API server of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::since_v1beta2(schema::at_least_one))]
pub struct ApiEndpoint {
    /// Host name or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), transform = schema::since_v1beta2(schema::non_empty))]
    pub host: Option<String>,
    /// TCP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::since_v1beta2(schema::port))]
    pub port: Option<i32>,
}

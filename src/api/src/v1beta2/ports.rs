//! The ports of a server: as desired and as resolved to ids.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NetworkParam, SecurityGroupParam, SubnetParam};
use crate::schema;

/// A port of the server. Fields that are not set take the cluster's values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PortOpts {
    /// Network of the port. The default is the network of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkParam>,
    /// Description of the port. The default names the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Suffix of the name of the port, which starts with the name of the server. The default is the index of the
    /// port in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_suffix: Option<String>,
    /// Subnets and addresses of the port. The default is one address of each IP version on the network.
    #[serde(rename = "fixedIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub fixed_ips: Vec<FixedIp>,
    /// Security groups of the port. The default is the managed groups of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub security_groups: Vec<SecurityGroupParam>,
    /// Tags of the port, beside those of the machine and the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub tags: Vec<String>,
    /// Whether a trunk is created with this port as its parent. Without it, the machine's setting applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk: Option<bool>,
    /// Whether the port forwards packets. Without it, the port forwards them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_state_up: Option<bool>,
    /// MAC address. Without it, the cloud chooses one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Addresses besides its own from which the port may send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// Compute host the port is bound to.
    #[serde(rename = "hostID", skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// How the port is attached: normal, direct, direct-physical, macvtap, baremetal, virtio-
    /// forwarder and others the cloud knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnic_type: Option<String>,
    /// Hints to the network driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<BindingProfile>,
    /// Whether security groups apply to the port. Without it, the network's setting applies. With false the port can't
    /// have security groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_port_security: Option<bool>,
    /// Whether the state of the physical link shows in the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagate_uplink_status: Option<bool>,
    /// Further attributes sent to Neutron as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub value_specs: Vec<ValueSpec>,
}

/// An address of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FixedIp {
    /// Subnet the address is taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<SubnetParam>,
    /// The address. The default is any free address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
}

/// An address from which a port may send besides its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AddressPair {
    /// Address, or range in CIDR notation.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub ip_address: String,
    /// MAC address. The default is that of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

/// Hints to the network driver about a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BindingProfile {
    /// Whether packets are switched by the network card.
    #[serde(rename = "ovsHWOffload", skip_serializing_if = "Option::is_none")]
    pub ovs_hw_offload: Option<bool>,
    /// Whether the virtual function may change its MAC address and see all traffic.
    #[serde(rename = "trustedVF", skip_serializing_if = "Option::is_none")]
    pub trusted_vf: Option<bool>,
}

/// An attribute sent to Neutron as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ValueSpec {
    /// Name of this entry. It is not sent to Neutron.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
    /// Name of the attribute.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub key: String,
    /// Value of the attribute.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub value: String,
}

/// A port with every reference resolved to an id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ResolvedPortSpec {
    /// Name of the port.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
    /// Description of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// ID of its network.
    #[serde(rename = "networkID")]
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub network_id: String,
    /// Its subnets and addresses.
    #[serde(rename = "fixedIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub fixed_ips: Vec<ResolvedFixedIp>,
    /// IDs of its security groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub security_groups: Vec<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub tags: Vec<String>,
    /// Whether it is the parent of a trunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk: Option<bool>,
    /// Whether it forwards packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_state_up: Option<bool>,
    /// Its MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Addresses besides its own from which it may send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// Compute host it is bound to.
    #[serde(rename = "hostID", skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// How it is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnic_type: Option<String>,
    /// Hints to the network driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<BindingProfile>,
    /// Whether security groups apply to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_port_security: Option<bool>,
    /// Whether the state of the physical link shows in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagate_uplink_status: Option<bool>,
    /// Further attributes sent to Neutron as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub value_specs: Vec<ValueSpec>,
}

/// An address of a port, its subnet resolved to an id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ResolvedFixedIp {
    /// ID of the subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The address. The default is any free address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
}

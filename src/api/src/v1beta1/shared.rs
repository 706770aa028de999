//! The parts of v1beta1 that differ from v1beta2 and are shared by several kinds.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AddressPair, BindingProfile, FixedIp, MachineResources, NetworkParam, ResolvedFixedIp,
    SecurityGroupParam, SecurityGroupRuleSpec, ValueSpec,
};
use crate::schema;

/// A condition in the form of Cluster API v1beta1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Severity where status is False: Error, Warning or Info.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub severity: Option<String>,
    /// When status last changed.
    pub last_transition_time: Time,
    /// Reason of the status in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,
    /// Message about the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,
    /// Generation of the object the condition was set for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

impl Default for Condition {
    fn default() -> Self {
        Self {
            type_: String::new(),
            status: String::new(),
            severity: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            reason: None,
            message: None,
            observed_generation: None,
        }
    }
}

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
    /// Whether security groups are turned off for the port. Without it, the network's setting applies. With true the
    /// port can't have security groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_port_security: Option<bool>,
    /// Whether the state of the physical link shows in the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagate_uplink_status: Option<bool>,
    /// Further attributes sent to Neutron as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub value_specs: Vec<ValueSpec>,
}

/// A port with every reference resolved to an id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ResolvedPortSpec {
    /// Name of the port.
    pub name: String,
    /// Description of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// ID of its network.
    #[serde(rename = "networkID")]
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
    /// Whether security groups are turned off for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_port_security: Option<bool>,
    /// Whether the state of the physical link shows in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagate_uplink_status: Option<bool>,
    /// Further attributes sent to Neutron as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub value_specs: Vec<ValueSpec>,
}

/// The references of the spec, resolved to ids. They are resolved once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ResolvedMachineSpec {
    /// ID of the server group.
    #[serde(rename = "serverGroupID", skip_serializing_if = "Option::is_none")]
    pub server_group_id: Option<String>,
    /// ID of the image.
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// ID of the flavor.
    #[serde(rename = "flavorID", skip_serializing_if = "Option::is_none")]
    pub flavor_id: Option<String>,
    /// The ports, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ResolvedPortSpec>,
}

/// The bastion as last read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BastionStatus {
    /// ID of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the SSH key it was created with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,
    /// Status of the server in Nova.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its address on the cluster network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Its floating IP.
    #[serde(rename = "floatingIP", skip_serializing_if = "Option::is_none")]
    pub floating_ip: Option<String>,
    /// The references of its spec, resolved to ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedMachineSpec>,
    /// What was created for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
}

/// Security groups that are created for the machines of the cluster, and rules to add to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedSecurityGroups {
    /// Rules for every machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub all_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
    /// Rules for control-plane machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub control_plane_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
    /// Rules for workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub worker_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
    /// Whether all traffic between the machines of the cluster is allowed. Otherwise only the traffic that Kubernetes
    /// needs is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::default_to(false))]
    pub allow_all_in_cluster_traffic: Option<bool>,
}

//! `OpenStackMachine` as CAPO up to 0.14 stores it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AdditionalBlockDevice, Condition, IdentityRef, ImageParam, Initialization, MachineResources,
    ManagedServerGroup, NodeAddress, PortOpts, ResolvedMachineSpec, RootVolume, SchedulerHint,
    SecurityGroupParam, ServerGroupParam, ServerMetadata, TypedLocalObjectReference,
};
use crate::{resource::custom_resource, schema};

custom_resource! {
    /// One server in OpenStack that becomes a node of the cluster.
    OpenStackMachine, version "v1beta1", plural "openstackmachines", Namespaced,
    spec OpenStackMachineSpec, status OpenStackMachineStatus
}

/// The properties of the server. Only providerID, identityRef and the allowedAddressPairs of ports can be changed
/// later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "has(self.flavor) || has(self.flavorID)",
    "at least one of flavor and flavorID must be set",
))]
pub struct OpenStackMachineSpec {
    /// Identifier of the server in Kubernetes, openstack://region/id. The provider sets it.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Name of the flavor. Not used where flavorID is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub flavor: Option<String>,
    /// ID of the flavor.
    #[serde(rename = "flavorID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub flavor_id: Option<String>,
    /// Image the server boots from.
    pub image: ImageParam,
    /// Name of a Nova key pair whose key is installed on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,
    /// Ports of the server. The default is one port on the network of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortOpts>,
    /// Security groups of every port, beside the port's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroupParam>,
    /// Whether a trunk is created for every port that does not set its own value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk: Option<bool>,
    /// Tags of the server and everything that is created for it, beside those of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub tags: Vec<String>,
    /// Metadata of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("key"))]
    pub server_metadata: Vec<ServerMetadata>,
    /// Whether the server gets its user data on a config drive. Without it, the cloud chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<bool>,
    /// Volume to boot from. Without it, the server boots from local disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<RootVolume>,
    /// Disks besides the one it boots from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub additional_block_devices: Vec<AdditionalBlockDevice>,
    /// Server group the server joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_group: Option<ServerGroupParam>,
    /// Server group that is created for the machines of one control plane or MachineDeployment and deleted with the
    /// last of them. It can't be combined with serverGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_server_group: Option<ManagedServerGroup>,
    /// The credentials for OpenStack. The default is those of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
    /// Pool from which the server gets a floating IP.
    #[serde(rename = "floatingIPPoolRef", skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_map)]
    pub floating_ip_pool_ref: Option<TypedLocalObjectReference>,
    /// Hints to the Nova scheduler.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub scheduler_hint_additional_properties: Vec<SchedulerHint>,
}

/// The state of the machine in OpenStack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// Whether the machine is ready, as its Ready condition reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether the machine is provisioned. For a control-plane machine the provider sets it after its members of the
    /// load balancer are provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// ID of the server.
    #[serde(rename = "instanceID", skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Status of the server in Nova.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_state: Option<String>,
    /// Addresses of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// Availability zone the server is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// Number of load balancer members of a control-plane machine that Octavia has provisioned, out of those expected,
    /// such as 2/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_members: Option<String>,
    /// The references of the spec, resolved to ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedMachineSpec>,
    /// What was created for the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// A failure that CAPO regarded as terminal. It is not set any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The message of that failure. It is not set any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The conditions of the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

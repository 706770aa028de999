//! `OpenStackServer`: the server of a machine or of a bastion, and everything that is created for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stored::{ports, with_disable_port_security};
use crate::{
    resource::custom_resource,
    schema,
    v1beta2::{
        AdditionalBlockDevice, IdentityRef, ImageParam, MachineResources, NodeAddress, PortOpts,
        ResolvedPortSpec, RootVolume, SchedulerHint, SecurityGroupParam, ServerGroupParam,
        ServerGroupPolicy, ServerMetadata, TypedLocalObjectReference,
    },
};

custom_resource! {
    /// The server of a machine or of a bastion, and everything that is created for it. The provider creates it.
    OpenStackServer, version "v1alpha1", plural "openstackservers", Namespaced,
    spec OpenStackServerSpec, status OpenStackServerStatus
}

/// The properties of the server. Only identityRef can be changed later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "has(self.flavor) || has(self.flavorID)",
    "at least one of flavor and flavorID must be set",
))]
pub struct OpenStackServerSpec {
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
    /// Name of a Nova key pair whose key is installed on the server. Empty: none.
    pub ssh_key_name: String,
    /// Ports of the server.
    #[serde(deserialize_with = "ports")]
    #[schemars(transform = with_disable_port_security)]
    pub ports: Vec<PortOpts>,
    /// Security groups of every port, beside the port's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroupParam>,
    /// Whether a trunk is created for every port that does not set its own value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk: Option<bool>,
    /// Tags of the server and of everything that is created for it.
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
    /// Server group that is created with the first server that names it, and deleted with the last one. It can't be
    /// combined with serverGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_server_group: Option<NamedServerGroup>,
    /// Availability zone of the server. Without it, the cloud chooses one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The credentials for OpenStack.
    pub identity_ref: IdentityRef,
    /// Pool from which the server gets a floating IP.
    #[serde(rename = "floatingIPPoolRef", skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_map)]
    pub floating_ip_pool_ref: Option<TypedLocalObjectReference>,
    /// Secret in the same namespace whose key value is the user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_map)]
    pub user_data_ref: Option<LocalObjectReference>,
    /// Hints to the Nova scheduler.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub scheduler_hint_additional_properties: Vec<SchedulerHint>,
}

/// A Nova server group that the servers of one namespace share that name it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NamedServerGroup {
    /// Name of the group in Nova.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// How Nova distributes the servers of the group over its hosts.
    #[schemars(transform = schema::default_to("soft-anti-affinity"))]
    pub policy: ServerGroupPolicy,
}

/// An object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LocalObjectReference {
    /// Its name.
    #[schemars(transform = schema::default_to(""))]
    pub name: String,
}

/// The state of the server in OpenStack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackServerStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// Whether the server is ACTIVE.
    #[schemars(transform = schema::default_to(false))]
    pub ready: bool,
    /// ID of the server.
    #[serde(rename = "instanceID", skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Status of the server in Nova.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_state: Option<String>,
    /// Addresses of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// The references of the spec, resolved to ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedServerSpec>,
    /// What was created for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// The conditions of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_of_either_form")]
    pub conditions: Vec<Condition>,
}

/// The references of the spec, resolved to ids. They are resolved once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ResolvedServerSpec {
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
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "ports")]
    #[schemars(transform = with_disable_port_security)]
    pub ports: Vec<ResolvedPortSpec>,
}

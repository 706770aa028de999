//! The properties of a server: image, flavor, server group, metadata, scheduler hints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResolvedPortSpec;
use crate::{schema, wire::wire_enum};

wire_enum! {
    /// Type of a scheduler hint.
    pub enum SchedulerHintType {
        /// True or false.
        Bool = "Bool",
        /// A text.
        String = "String",
        /// A whole number.
        Number = "Number",
    }
}

/// A Glance image: its id, a filter that matches exactly one, or an Image object of OpenStack
/// Resource Controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct ImageParam {
    /// ID of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::uuid)]
    pub id: Option<String>,
    /// Properties that only the wanted image has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<ImageFilter>,
    /// Image object of OpenStack Resource Controller in the same namespace. The server waits until
    /// it is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ResourceReference>,
}

/// Properties an image must have. All that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct ImageFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tags it must all have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub tags: Vec<String>,
}

/// An object of OpenStack Resource Controller in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceReference {
    /// Name of the object.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
}

/// A Nova flavor: its id or its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct FlavorParam {
    /// ID of the flavor. It need not be a UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Properties that only the wanted flavor has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<FlavorFilter>,
}

/// Properties a flavor must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct FlavorFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A Nova server group: either its id or a filter that matches exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::one_choice)]
pub struct ServerGroupParam {
    /// ID of the server group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::uuid)]
    pub id: Option<String>,
    /// Properties that only the wanted server group has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<ServerGroupFilter>,
}

/// Properties a server group must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct ServerGroupFilter {
    /// Exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

wire_enum! {
    /// How Nova distributes the servers of a managed server group.
    pub enum ServerGroupPolicy, default SoftAntiAffinity {
        /// Each on a host of its own. Where no host is left, the server is not created.
        AntiAffinity = "anti-affinity",
        /// Each on a host of its own as long as there are hosts enough.
        SoftAntiAffinity = "soft-anti-affinity",
    }
}

/// A Nova server group that is created with the first machine of a control plane or MachineDeployment, and deleted with
/// the last one. CAPO does not have this field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedServerGroup {
    /// How Nova distributes the servers of the group over its hosts.
    #[schemars(transform = schema::default_to("soft-anti-affinity"))]
    pub policy: ServerGroupPolicy,
}

/// A key and its value in the metadata of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerMetadata {
    /// The key.
    #[schemars(length(max = 255), transform = schema::since_v1beta2(schema::non_empty))]
    pub key: String,
    /// The value.
    #[schemars(length(max = 255), transform = schema::since_v1beta2(schema::non_empty))]
    pub value: String,
}

/// A hint to the Nova scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulerHint {
    /// Name of the hint.
    #[schemars(transform = schema::non_empty)]
    pub name: String,
    /// Value of the hint.
    pub value: SchedulerHintValue,
}

/// Value of a scheduler hint: exactly the field named by type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "has(self.bool) == (self.type == 'Bool')",
    "bool is required when type is Bool and must not be set otherwise",
))]
#[schemars(transform = schema::rule(
    "has(self.number) == (self.type == 'Number')",
    "number is required when type is Number and must not be set otherwise",
))]
#[schemars(transform = schema::rule(
    "has(self.string) == (self.type == 'String')",
    "string is required when type is String and must not be set otherwise",
))]
pub struct SchedulerHintValue {
    /// Which of the fields holds the value.
    pub type_: SchedulerHintType,
    /// Value of type Bool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bool: Option<bool>,
    /// Value of type Number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::since_v1beta2(schema::int32))]
    pub number: Option<i64>,
    /// Value of type String.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub string: Option<String>,
}

/// An object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TypedLocalObjectReference {
    /// Group of its API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// An address of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAddress {
    /// Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.
    pub type_: String,
    /// The address or name.
    pub address: String,
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
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub ports: Vec<ResolvedPortSpec>,
}

/// What was created in OpenStack for the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineResources {
    /// The ports, in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub ports: Vec<PortStatus>,
}

/// A port that was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PortStatus {
    /// ID of the port.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub id: String,
}

//! Root volume and further block devices of a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, wire::wire_enum};

wire_enum! {
    /// Where the availability zone of a volume comes from.
    pub enum VolumeAvailabilityZoneSource, default Name {
        /// From the `name` beside it.
        Name = "Name",
        /// From the machine the volume belongs to.
        Machine = "Machine",
    }
}

wire_enum! {
    /// The kinds of additional block devices.
    pub enum BlockDeviceType {
        /// Disk of the compute host, lost with the server.
        Local = "Local",
        /// A Cinder volume.
        Volume = "Volume",
    }
}

/// A Cinder volume made from the image, from which the server boots instead of from local disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RootVolume {
    /// Size in GiB.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 1), transform = schema::since_v1beta2(schema::int32))]
    pub size_gib: i64,
    /// Volume type. The default is the cloud's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Availability zone of the volume. The default is the cloud's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<VolumeAvailabilityZone>,
}

/// The availability zone of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "!has(self.from) || self.from == 'Name' ? has(self.name) : !has(self.name)",
    "name is required when from is Name and must not be set otherwise",
))]
pub struct VolumeAvailabilityZone {
    /// Name: the zone given in name. Machine: the zone of the machine.
    #[schemars(transform = schema::default_to("Name"))]
    pub from: VolumeAvailabilityZoneSource,
    /// Name of the zone. It can be set only together with from: Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), regex(pattern = "^[^ ]+$"))]
    pub name: Option<String>,
}

/// A disk the server gets besides the one it boots from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AdditionalBlockDevice {
    /// Name of the device, also the tag by which the server finds it. The name root is taken.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
    /// Size in GiB.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 1), transform = schema::since_v1beta2(schema::int32))]
    pub size_gib: i64,
    /// The kind and the properties of the device.
    pub storage: BlockDeviceStorage,
}

/// The properties of a block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockDeviceStorage {
    /// Local: disk of the compute host, lost with the server. Volume: a Cinder volume.
    #[schemars(with = "String", transform = schema::since_v1beta2(schema::one_of(&["Local", "Volume"])))]
    pub type_: BlockDeviceType,
    /// Properties of the Cinder volume. They can be set only together with type: Volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<BlockDeviceVolume>,
}

/// Properties of a Cinder volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockDeviceVolume {
    /// Volume type. The default is the cloud's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Availability zone of the volume. The default is the cloud's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<VolumeAvailabilityZone>,
}

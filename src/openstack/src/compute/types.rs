//! Nova's objects as they are read and written. Only the fields that capo-rs uses are declared; others are ignored.

use std::{collections::BTreeMap, net::IpAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret, SecretSlice};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::wire::{null_as_default, parsed};
use capo_core::ids::{FlavorId, ImageId, PortId, ProjectId, ServerGroupId, ServerId};
use capo_core::wire_enum;

wire_enum! {
    /// A server's status.
    pub enum ServerStatus {
        /// Running.
        Active = "ACTIVE",
        /// Being built.
        Build = "BUILD",
        /// The last operation failed; see the fault.
        Error = "ERROR",
        /// Powered off.
        Shutoff = "SHUTOFF",
        /// Deleted.
        Deleted = "DELETED",
        /// Deleted, but it may be restored.
        SoftDeleted = "SOFT_DELETED",
        /// Restarting.
        Reboot = "REBOOT",
        /// Restarting without a clean shutdown of the guest.
        HardReboot = "HARD_REBOOT",
        /// Suspended.
        Suspended = "SUSPENDED",
        /// Paused.
        Paused = "PAUSED",
        /// Shelved.
        Shelved = "SHELVED",
        /// Shelved and removed from its host.
        ShelvedOffloaded = "SHELVED_OFFLOADED",
    }
}

wire_enum! {
    /// The task that Nova carries out on a server.
    pub enum TaskState {
        /// The server is being deleted.
        Deleting = "deleting",
        /// The server is being deleted so that it may be restored.
        SoftDeleting = "soft-deleting",
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Server {
    /// Nova's id.
    pub id: ServerId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its status.
    pub status: ServerStatus,
    /// The project.
    #[serde(default, rename = "tenant_id")]
    pub project_id: Option<ProjectId>,
    /// Its addresses by the names of their networks.
    #[serde(default, deserialize_with = "null_as_default")]
    pub addresses: BTreeMap<String, Vec<ServerAddress>>,
    /// The fault, where it is in ERROR.
    #[serde(default)]
    pub fault: Option<ServerFault>,
    /// Its metadata.
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: BTreeMap<String, String>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Its zone.
    #[serde(
        default,
        rename = "OS-EXT-AZ:availability_zone",
        deserialize_with = "null_as_default"
    )]
    pub availability_zone: String,
    /// The task that Nova carries out on it.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task_state: Option<TaskState>,
    /// Its key pair.
    #[serde(default)]
    pub key_name: Option<String>,
    /// The time of creation, as Nova sent it.
    #[serde(default)]
    pub created: Option<String>,
}

wire_enum! {
    /// The kind of a server's address.
    pub enum AddressKind {
        /// The address of a port.
        Fixed = "fixed",
        /// A floating IP.
        Floating = "floating",
    }
}

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerAddress {
    /// The address.
    #[serde(default, rename = "addr", deserialize_with = "parsed")]
    pub address: Option<IpAddr>,
    /// Its kind.
    #[serde(default, rename = "OS-EXT-IPS:type")]
    pub kind: AddressKind,
    /// The port's MAC address.
    #[serde(
        default,
        rename = "OS-EXT-IPS-MAC:mac_addr",
        deserialize_with = "null_as_default"
    )]
    pub mac_address: String,
}

/// The fault of a server in ERROR.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerFault {
    /// An HTTP-like code.
    #[serde(default)]
    pub code: u16,
    /// Nova's message.
    #[serde(default, deserialize_with = "null_as_default")]
    pub message: String,
}

/// The servers to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerFilter {
    /// The exact name. Nova's own filter is a regular expression, so the name is quoted and compared again.
    pub name: Option<String>,
    /// Has all of these tags.
    pub tags: Vec<String>,
}

/// A server to create, on ports that exist.
#[derive(Debug, Clone, Default)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Glance's id of the image; `None` where the server boots from a volume.
    pub image_id: Option<ImageId>,
    /// Nova's id of the flavor.
    pub flavor_id: FlavorId,
    /// The key pair's name.
    pub key_name: Option<String>,
    /// The ports, in order.
    pub port_ids: Vec<PortId>,
    /// The availability zone; the scheduler chooses one where none is given.
    pub availability_zone: Option<String>,
    /// User data, not yet encoded.
    pub user_data: Option<SecretSlice<u8>>,
    /// Metadata.
    pub metadata: BTreeMap<String, String>,
    /// Whether it gets a config drive.
    pub config_drive: Option<bool>,
    /// Tags.
    pub tags: Vec<String>,
    /// Block devices.
    pub block_devices: Vec<BlockDevice>,
    /// Whether one of the volumes is of a multiattach type.
    pub multiattach: bool,
    /// The server group's id.
    pub server_group_id: Option<ServerGroupId>,
    /// Further scheduler hints.
    pub scheduler_hints: BTreeMap<String, Value>,
}

/// A block device of a new server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockDevice {
    /// Its source: `image`, `volume` or `blank`.
    pub source_type: &'static str,
    /// Its destination: `local` or `volume`.
    pub destination_type: &'static str,
    /// The image's or volume's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The boot order: 0 boots first, -1 never.
    pub boot_index: i32,
    /// Whether it is deleted with the server.
    pub delete_on_termination: bool,
    /// Its size in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<u32>,
    /// The tag that the guest can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

#[derive(Serialize)]
pub(super) struct WireServer<'a> {
    pub(super) name: &'a str,
    #[serde(rename = "imageRef")]
    pub(super) image: &'a str,
    #[serde(rename = "flavorRef")]
    pub(super) flavor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_name: Option<&'a str>,
    pub(super) networks: Vec<BTreeMap<&'static str, &'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) availability_zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_data: Option<Encoded<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config_drive: Option<bool>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) tags: &'a [String],
    #[serde(skip_serializing_if = "<[BlockDevice]>::is_empty")]
    pub(super) block_device_mapping_v2: &'a [BlockDevice],
    pub(super) min_count: u8,
    pub(super) max_count: u8,
}

/// Encodes user data in base64, as Nova requires.
pub(super) struct Encoded<'a>(pub(super) &'a SecretSlice<u8>);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0.expose_secret()))
    }
}

#[derive(Serialize)]
pub(super) struct WireNewServer<'a> {
    pub(super) server: WireServer<'a>,
    #[serde(
        rename = "os:scheduler_hints",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) hints: BTreeMap<&'a str, Value>,
}

/// A flavor.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Flavor {
    /// Nova's id.
    pub id: FlavorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Virtual CPUs.
    #[serde(default)]
    pub vcpus: u32,
    /// MiB of memory.
    #[serde(default)]
    pub ram: u64,
    /// GiB of root disk.
    #[serde(default)]
    pub disk: u64,
    /// GiB of ephemeral disk.
    #[serde(default, rename = "OS-FLV-EXT-DATA:ephemeral")]
    pub ephemeral: u64,
}

/// An availability zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailabilityZone {
    /// Its name.
    pub name: String,
    /// Whether Nova can place servers in it.
    pub available: bool,
}

#[derive(Deserialize)]
pub(super) struct WireZone {
    #[serde(rename = "zoneName")]
    pub(super) name: String,
    #[serde(rename = "zoneState")]
    pub(super) state: WireZoneState,
}

#[derive(Deserialize)]
pub(super) struct WireZoneState {
    #[serde(default)]
    pub(super) available: bool,
}

/// A server group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerGroup {
    /// Nova's id.
    pub id: ServerGroupId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its policy, as the only entry of a list.
    #[serde(default, deserialize_with = "null_as_default")]
    pub policies: Vec<String>,
    /// The servers in it that are not deleted.
    #[serde(default, deserialize_with = "null_as_default")]
    pub members: Vec<ServerId>,
}

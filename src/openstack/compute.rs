//! Nova: servers, flavors, availability zones, server groups.

use std::{collections::BTreeMap, net::IpAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret, SecretSlice};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{
    ApiVersion, Cloud, Error, Priority, Service,
    request::Call,
    wire::{null_as_default, parsed, wire_enum},
};

const NOVA: Service = Service::Compute;

/// What we need at least: the fields as we read them. CAPO asks for the same.
pub(crate) const BASE: ApiVersion = ApiVersion::new(2, 38);
/// Tags at creation (2.52), tagged block devices and trustworthy reading of them.
pub(crate) const TAGS: ApiVersion = ApiVersion::new(2, 53);
/// Volumes of a multiattach type.
pub(crate) const MULTIATTACH: ApiVersion = ApiVersion::new(2, 60);

wire_enum! {
    /// A server's status.
    ServerStatus {
        /// Running.
        Active = "ACTIVE",
        /// Being built.
        Build = "BUILD",
        /// The last operation failed; see the fault.
        Error = "ERROR",
        /// Powered off.
        Shutoff = "SHUTOFF",
        /// Gone.
        Deleted = "DELETED",
        /// Gone, but may be restored.
        SoftDeleted = "SOFT_DELETED",
        /// Restarting.
        Reboot = "REBOOT",
        /// Restarting hard.
        HardReboot = "HARD_REBOOT",
        /// Suspended.
        Suspended = "SUSPENDED",
        /// Paused.
        Paused = "PAUSED",
        /// Shelved.
        Shelved = "SHELVED",
        /// Shelved, off its host.
        ShelvedOffloaded = "SHELVED_OFFLOADED",
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Server {
    /// Nova's id.
    pub id: String,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its status.
    pub status: ServerStatus,
    /// The project.
    #[serde(default, rename = "tenant_id")]
    pub project_id: Option<String>,
    /// Its addresses by network name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub addresses: BTreeMap<String, Vec<ServerAddress>>,
    /// Why it is in ERROR.
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
    /// What Nova is doing with it.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task_state: Option<String>,
    /// Its key pair.
    #[serde(default)]
    pub key_name: Option<String>,
    /// Time of creation, as sent.
    #[serde(default)]
    pub created: Option<String>,
    /// Its volumes.
    #[serde(
        default,
        rename = "os-extended-volumes:volumes_attached",
        deserialize_with = "null_as_default"
    )]
    pub volumes_attached: Vec<AttachedVolume>,
}

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerAddress {
    /// The address.
    #[serde(default, rename = "addr", deserialize_with = "parsed")]
    pub address: Option<IpAddr>,
    /// `fixed` or `floating`.
    #[serde(
        default,
        rename = "OS-EXT-IPS:type",
        deserialize_with = "null_as_default"
    )]
    pub kind: String,
    /// The port's MAC address.
    #[serde(
        default,
        rename = "OS-EXT-IPS-MAC:mac_addr",
        deserialize_with = "null_as_default"
    )]
    pub mac_address: String,
}

/// Why a server is in ERROR.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerFault {
    /// An HTTP-like code.
    #[serde(default)]
    pub code: u16,
    /// Nova's words.
    #[serde(default, deserialize_with = "null_as_default")]
    pub message: String,
}

/// A volume of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AttachedVolume {
    /// Cinder's id.
    pub id: String,
    /// Goes with the server.
    #[serde(default)]
    pub delete_on_termination: bool,
}

/// Which servers to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerFilter {
    /// The exact name (Nova's own filter is a regular expression; it is quoted and checked again).
    pub name: Option<String>,
    /// Has all of these tags.
    pub tags: Vec<String>,
}

/// A server to create, on ports that exist.
#[derive(Debug, Clone, Default)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Glance's id of the image; `None` when it boots from a volume.
    pub image_id: Option<String>,
    /// Nova's id of the flavor.
    pub flavor_id: String,
    /// The key pair's name.
    pub key_name: Option<String>,
    /// The ports, in order.
    pub port_ids: Vec<String>,
    /// The zone; else the scheduler picks one.
    pub availability_zone: Option<String>,
    /// User data, not yet encoded.
    pub user_data: Option<SecretSlice<u8>>,
    /// Metadata.
    pub metadata: BTreeMap<String, String>,
    /// Gets a configuration drive.
    pub config_drive: Option<bool>,
    /// Tags.
    pub tags: Vec<String>,
    /// Block devices.
    pub block_devices: Vec<BlockDevice>,
    /// One of the volumes is of a multiattach type.
    pub multiattach: bool,
    /// The server group's id.
    pub server_group_id: Option<String>,
    /// Further scheduler hints.
    pub scheduler_hints: BTreeMap<String, Value>,
}

/// A block device of a new server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockDevice {
    /// What it is made of: `image`, `volume`, `blank`.
    pub source_type: &'static str,
    /// Where it lives: `local` or `volume`.
    pub destination_type: &'static str,
    /// The image's or volume's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// 0 boots first, -1 never.
    pub boot_index: i32,
    /// Goes with the server.
    pub delete_on_termination: bool,
    /// In GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<u32>,
    /// Shown to the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

#[derive(Serialize)]
struct WireServer<'a> {
    name: &'a str,
    #[serde(rename = "imageRef")]
    image: &'a str,
    #[serde(rename = "flavorRef")]
    flavor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_name: Option<&'a str>,
    networks: Vec<BTreeMap<&'static str, &'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    availability_zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<Encoded<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_drive: Option<bool>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "<[BlockDevice]>::is_empty")]
    block_device_mapping_v2: &'a [BlockDevice],
    min_count: u8,
    max_count: u8,
}

/// User data as Nova wants it, in base64.
struct Encoded<'a>(&'a SecretSlice<u8>);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0.expose_secret()))
    }
}

#[derive(Serialize)]
struct WireNewServer<'a> {
    server: WireServer<'a>,
    #[serde(
        rename = "os:scheduler_hints",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    hints: BTreeMap<&'a str, Value>,
}

/// A flavor.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Flavor {
    /// Nova's id.
    pub id: String,
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
    /// Nova can put servers there.
    pub available: bool,
}

#[derive(Deserialize)]
struct WireZone {
    #[serde(rename = "zoneName")]
    name: String,
    #[serde(rename = "zoneState")]
    state: WireZoneState,
}

#[derive(Deserialize)]
struct WireZoneState {
    #[serde(default)]
    available: bool,
}

/// A server group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerGroup {
    /// Nova's id.
    pub id: String,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
}

impl Cloud {
    /// Servers that match, of this project only.
    pub async fn servers(
        &self,
        filter: &ServerFilter,
        priority: Priority,
    ) -> Result<Vec<Server>, Error> {
        let mut call = Call::get(NOVA, "server_list", ["servers", "detail"])
            .version(BASE)
            .at(priority);
        if let Some(name) = &filter.name {
            call = call.query("name", format!("^{}$", quoted(name)));
        }
        if !filter.tags.is_empty() {
            call = call.query("tags", filter.tags.join(","));
        }
        let mut servers: Vec<Server> = self.list(call, "servers").await?;
        if let Some(name) = &filter.name {
            servers.retain(|server| &server.name == name);
        }
        Ok(servers)
    }

    /// One server.
    pub async fn server(&self, id: &str, priority: Priority) -> Result<Server, Error> {
        let call = Call::get(NOVA, "server_get", ["servers", id])
            .version(BASE)
            .at(priority);
        self.one(call, "server").await
    }

    /// Asks for a server and returns its id; it is in BUILD.
    pub async fn create_server(
        &self,
        new: &NewServer,
        priority: Priority,
    ) -> Result<String, Error> {
        let mut hints: BTreeMap<&str, Value> = new
            .scheduler_hints
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        if let Some(group) = &new.server_group_id {
            hints.insert("group", Value::String(group.clone()));
        }
        let tagged = !new.tags.is_empty() || new.block_devices.iter().any(|d| d.tag.is_some());
        let body = WireNewServer {
            server: WireServer {
                name: &new.name,
                image: new.image_id.as_deref().unwrap_or_default(),
                flavor: &new.flavor_id,
                key_name: new.key_name.as_deref(),
                networks: new
                    .port_ids
                    .iter()
                    .map(|id| BTreeMap::from([("port", id.as_str())]))
                    .collect(),
                availability_zone: new.availability_zone.as_deref(),
                user_data: new.user_data.as_ref().map(Encoded),
                metadata: &new.metadata,
                config_drive: new.config_drive,
                tags: &new.tags,
                block_device_mapping_v2: &new.block_devices,
                min_count: 1,
                max_count: 1,
            },
            hints,
        };
        let call = Call::post(NOVA, "server_create", ["servers"])
            .body(&body)
            .version(match (new.multiattach, tagged) {
                (true, _) => MULTIATTACH,
                (false, true) => TAGS,
                (false, false) => BASE,
            })
            .at(priority);
        let created: super::wire::Reference = self.one(call, "server").await?;
        Ok(created.id)
    }

    /// Asks for the end of a server. It is gone when it answers 404.
    pub async fn delete_server(&self, id: &str, priority: Priority) -> Result<(), Error> {
        let call = Call::delete(NOVA, "server_delete", ["servers", id])
            .version(BASE)
            .at(priority);
        self.done(call).await
    }

    /// All flavors this project may use.
    pub async fn flavors(&self, priority: Priority) -> Result<Vec<Flavor>, Error> {
        let call = Call::get(NOVA, "flavor_list", ["flavors", "detail"])
            .version(BASE)
            .at(priority);
        self.list(call, "flavors").await
    }

    /// One flavor by id.
    pub async fn flavor(&self, id: &str, priority: Priority) -> Result<Flavor, Error> {
        let call = Call::get(NOVA, "flavor_get", ["flavors", id])
            .version(BASE)
            .at(priority);
        self.one(call, "flavor").await
    }

    /// The availability zones.
    pub async fn availability_zones(
        &self,
        priority: Priority,
    ) -> Result<Vec<AvailabilityZone>, Error> {
        let call = Call::get(NOVA, "availability_zone_list", ["os-availability-zone"])
            .version(BASE)
            .at(priority);
        let zones: Vec<WireZone> = self.one(call, "availabilityZoneInfo").await?;
        Ok(zones
            .into_iter()
            .map(|zone| AvailabilityZone {
                name: zone.name,
                available: zone.state.available,
            })
            .collect())
    }

    /// The project's server groups.
    pub async fn server_groups(&self, priority: Priority) -> Result<Vec<ServerGroup>, Error> {
        let call = Call::get(NOVA, "server_group_list", ["os-server-groups"])
            .version(BASE)
            .at(priority);
        self.list_by_offset(call, "server_groups").await
    }
}

/// `text` as a regular expression that matches just it, in the syntax of MySQL and PostgreSQL.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_alphanumeric() && !matches!(character, '-' | '_' | ' ') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

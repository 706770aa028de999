//! Nova's calls. All lists are complete, because the client follows their pages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::types::{
    AvailabilityZone, Encoded, Flavor, NewServer, Server, ServerFilter, ServerGroup, WireNewServer,
    WireServer, WireZone,
};
use crate::{
    ApiVersion, Cloud, Error, Service,
    request::{Call, calls},
    wire::Reference,
};
use capo_core::Priority;
use capo_core::ids::{FlavorId, ImageId, ServerGroupId, ServerId};

const NOVA: Service = Service::Compute;

/// The lowest microversion that has all fields which are read here. CAPO uses the same one.
const BASE: ApiVersion = ApiVersion::new(2, 38);
/// The microversion with tags at creation (2.52) and with tagged block devices that are reported correctly (2.53).
const TAGS: ApiVersion = ApiVersion::new(2, 53);
/// The first microversion that accepts volumes of a multiattach type.
const MULTIATTACH: ApiVersion = ApiVersion::new(2, 60);

calls! {
    /// One server.
    fn server(id: &ServerId) -> Server =
        one(Call::get(NOVA, "server_get", ["servers", id.as_str()]).version(BASE), "server");

    /// Requests the deletion of a server. The server is gone when Nova answers 404.
    fn delete_server(id: &ServerId) -> () =
        done(Call::delete(NOVA, "server_delete", ["servers", id.as_str()]).version(BASE));

    /// All flavors this project may use.
    fn flavors() -> Vec<Flavor> =
        list(Call::get(NOVA, "flavor_list", ["flavors", "detail"]).version(BASE), "flavors");

    /// One flavor by id.
    fn flavor(id: &FlavorId) -> Flavor =
        one(Call::get(NOVA, "flavor_get", ["flavors", id.as_str()]).version(BASE), "flavor");

    /// The project's server groups.
    fn server_groups() -> Vec<ServerGroup> = list_by_offset(
        Call::get(NOVA, "server_group_list", ["os-server-groups"]).version(BASE),
        "server_groups"
    );

    /// Creates a server group with one policy, such as `soft-anti-affinity`.
    fn create_server_group(name: &str, policy: &str) -> ServerGroup = one(
        // From microversion 2.64 on, the policy is not a list any more.
        Call::post(NOVA, "server_group_create", ["os-server-groups"])
            .body(&json!({"server_group": {"name": name, "policies": [policy]}}))
            .version(BASE),
        "server_group"
    );

    /// Deletes a server group. Nova also deletes a group that has servers.
    fn delete_server_group(id: &ServerGroupId) -> () = done(
        Call::delete(NOVA, "server_group_delete", ["os-server-groups", id.as_str()]).version(BASE)
    );
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

    /// Requests the creation of a server and returns its id. The server is then in BUILD.
    pub async fn create_server(
        &self,
        new: &NewServer,
        priority: Priority,
    ) -> Result<ServerId, Error> {
        let mut hints: BTreeMap<&str, Value> = new
            .scheduler_hints
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        if let Some(group) = &new.server_group_id {
            hints.insert("group", Value::String(group.to_string()));
        }
        let tagged = !new.tags.is_empty() || new.block_devices.iter().any(|d| d.tag.is_some());
        let body = WireNewServer {
            server: WireServer {
                name: &new.name,
                image: new
                    .image_id
                    .as_ref()
                    .map(ImageId::as_str)
                    .unwrap_or_default(),
                flavor: new.flavor_id.as_str(),
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
        let created: Reference<ServerId> = self.one(call, "server").await?;
        Ok(created.id)
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
}

/// `text` as a regular expression that matches only `text`, in the syntax of MySQL and PostgreSQL.
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

//! Servers as Nova returns them.

use serde_json::{Map, Value, json};

use super::Server;
use crate::{
    network::Kind,
    wire::{Request, text},
    world::World,
};

impl World {
    pub(super) fn server_links(request: &Request, id: &str) -> Value {
        json!([{ "rel": "self", "href": format!("{}/compute/v2.1/servers/{id}", request.base) },
            { "rel": "bookmark", "href": format!("{}/compute/servers/{id}", request.base) }])
    }

    fn server_addresses(&self, server: &Server) -> Map<String, Value> {
        let mut addresses: Map<String, Value> = Map::new();
        for id in &server.ports {
            let Some(port) = self.network.get(Kind::Port, id) else {
                continue;
            };
            let network = self
                .network
                .get(Kind::Network, text(port, "network_id"))
                .map_or("", |network| text(network, "name"));
            let entry = addresses
                .entry(network.to_owned())
                .or_insert_with(|| json!([]));
            let Some(list) = entry.as_array_mut() else {
                continue;
            };
            let mut add = |address: &str, kind: &str| {
                list.push(json!({
                    "version": if address.contains(':') { 6 } else { 4 }, "addr": address, "OS-EXT-IPS:type": kind,
                    "OS-EXT-IPS-MAC:mac_addr": text(port, "mac_address"),
                }));
            };
            for ip in port
                .get("fixed_ips")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                add(
                    ip.get("ip_address")
                        .and_then(Value::as_str)
                        .unwrap_or_default(),
                    "fixed",
                );
            }
            for address in self.floating_addresses(id) {
                add(&address, "floating");
            }
        }
        addresses
    }

    /// A server as Nova returns it under this microversion.
    pub(super) fn shown_server(&self, server: &Server, request: &Request, minor: u32) -> Value {
        let bookmark = |kind: &str, id: &str| json!([{ "rel": "bookmark", "href": format!("{}/compute/{kind}/{id}", request.base) }]);
        let placed = !matches!(server.status.as_str(), "BUILD");
        let flavor = if minor >= 47 {
            let row = self
                .compute
                .flavors
                .get(&server.flavor)
                .cloned()
                .unwrap_or_default();
            json!({ "vcpus": row.get("vcpus"), "ram": row.get("ram"), "disk": row.get("disk"), "ephemeral": 0, "swap": 0,
                "original_name": row.get("name"), "extra_specs": {} })
        } else {
            json!({ "id": server.flavor, "links": bookmark("flavors", &server.flavor) })
        };
        let image = if server.image.is_empty() {
            json!("")
        } else {
            json!({ "id": server.image, "links": bookmark("images", &server.image) })
        };
        let (vm_state, power) = match server.status.as_str() {
            "BUILD" => ("building", 0),
            "SHUTOFF" => ("stopped", 4),
            "ERROR" => ("error", 0),
            "DELETED" => ("deleted", 0),
            _ => ("active", 1),
        };
        let volumes: Vec<Value> = server
            .volumes
            .iter()
            .map(|(id, goes)| {
                if minor >= 3 {
                    json!({ "id": id, "delete_on_termination": goes })
                } else {
                    json!({ "id": id })
                }
            })
            .collect();
        let mut shown = json!({
            "id": server.id, "name": server.name, "status": server.status, "tenant_id": server.project, "user_id": server.user,
            "created": server.created, "updated": server.updated, "metadata": server.metadata, "flavor": flavor, "image": image,
            "links": Self::server_links(request, &server.id), "accessIPv4": "", "accessIPv6": "",
            "addresses": if placed { self.server_addresses(server) } else { Map::new() },
            "hostId": if placed { "08c98460bfdb0ecd8f0ef19b4117935a6734af80deff49576fdb0af2" } else { "" },
            "OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": if placed { server.zone.as_str() } else { "" },
            "config_drive": if server.config_drive { "True" } else { "" }, "key_name": server.key_name,
            "OS-SRV-USG:launched_at": server.launched, "OS-SRV-USG:terminated_at": null,
            "OS-EXT-STS:task_state": server.task, "OS-EXT-STS:vm_state": vm_state, "OS-EXT-STS:power_state": power,
            "os-extended-volumes:volumes_attached": volumes,
        });
        let Some(object) = shown.as_object_mut() else {
            return shown;
        };
        if matches!(server.status.as_str(), "BUILD" | "ACTIVE") {
            object.insert("progress".into(), json!(0));
        }
        if placed {
            object.insert(
                "security_groups".into(),
                json!(self.server_groups_of(server)),
            );
        }
        if minor >= 9 {
            object.insert("locked".into(), json!(false));
        }
        if minor >= 19 {
            object.insert("description".into(), json!(server.description));
        }
        if minor >= 26 {
            object.insert("tags".into(), json!(server.tags));
        }
        if minor >= 63 {
            object.insert("trusted_image_certificates".into(), Value::Null);
        }
        if minor >= 71 {
            object.insert(
                "server_groups".into(),
                json!(server.group.iter().collect::<Vec<_>>()),
            );
        }
        if let Some(fault) = &server.fault {
            object.insert(
                "fault".into(),
                json!({ "code": 500, "created": server.updated, "message": fault }),
            );
        }
        shown
    }

    fn server_groups_of(&self, server: &Server) -> Vec<Value> {
        let mut names: Vec<String> = server
            .ports
            .iter()
            .filter_map(|port| self.network.get(Kind::Port, port))
            .flat_map(|port| crate::wire::strings(port, "security_groups"))
            .filter_map(|group| {
                self.network
                    .get(Kind::SecurityGroup, &group)
                    .map(|row| text(row, "name").to_owned())
            })
            .collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .map(|name| json!({ "name": name }))
            .collect()
    }
}

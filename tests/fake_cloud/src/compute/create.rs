//! POST of a server: the checks that Nova makes before it answers 202.

use serde_json::{Value, json};

use super::{Server, nova_error};
use crate::{
    network::Kind,
    settings::seconds,
    wire::{Answer, Reply, Request, Row, given, strings, text},
    world::{Effect, World},
};

impl World {
    pub(super) fn create_server(&mut self, request: &Request, minor: u32) -> Answer {
        let body = request.object("server");
        let project = request.caller.project.clone();
        let name = text(&body, "name").to_owned();
        if name.is_empty() {
            return Err(nova_error(
                400,
                "Invalid input for field/attribute name. Value: . '' should be non-empty",
            ));
        }
        if minor < 52 && body.contains_key("tags") {
            return Err(nova_error(
                400,
                "Invalid input for field/attribute server. Additional properties are not allowed ('tags' was unexpected)",
            ));
        }
        let flavor = text(&body, "flavorRef")
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if !self.compute.flavors.contains_key(&flavor) {
            return Err(nova_error(
                400,
                format!("Flavor {flavor} could not be found."),
            ));
        }
        let image = text(&body, "imageRef").to_owned();
        let devices: Vec<Row> = body
            .get("block_device_mapping_v2")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|device| device.as_object().cloned())
            .collect();
        if image.is_empty() && devices.is_empty() {
            return Err(nova_error(400, "Invalid imageRef provided."));
        }
        if !image.is_empty() && !self.images.contains_key(&image) {
            return Err(nova_error(400, "Can not find requested image"));
        }
        let zone = text(&body, "availability_zone")
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned();
        if !zone.is_empty() && !self.compute.zones.contains(&zone) {
            return Err(nova_error(
                400,
                "The requested availability zone is not available",
            ));
        }
        if let Some(key) = given(&body, "key_name")
            && !self.compute.keypairs.contains_key(key)
        {
            return Err(nova_error(400, "Invalid key_name provided."));
        }
        let group = ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"]
            .iter()
            .find_map(|hints| {
                request
                    .body
                    .get(*hints)?
                    .get("group")?
                    .as_str()
                    .map(str::to_owned)
            });
        if let Some(group) = &group
            && !self.compute.groups.contains_key(group)
        {
            return Err(nova_error(
                400,
                format!("Instance group {group} could not be found."),
            ));
        }
        self.server_quota(&project)?;
        let (ports, own_ports) = self.server_ports(&body, &project)?;
        let id = self.new_id();
        let volumes = self.server_volumes(&devices, &id, request)?;
        for port in &ports {
            self.bind_port(port, &id, false);
        }
        if let Some(members) = group.as_ref().and_then(|group| {
            self.compute
                .groups
                .get_mut(group)?
                .get_mut("members")?
                .as_array_mut()
        }) {
            members.push(json!(id));
        }
        let server = Server {
            id: id.clone(),
            name: name.clone(),
            status: "BUILD".into(),
            task: Some("scheduling".into()),
            project,
            user: request.caller.user.clone(),
            created: self.now.zulu(),
            updated: self.now.zulu(),
            launched: None,
            flavor,
            image,
            ports,
            own_ports,
            metadata: body
                .get("metadata")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            tags: strings(&body, "tags"),
            zone: if zone.is_empty() {
                self.compute.zones.first().cloned().unwrap_or_default()
            } else {
                zone
            },
            key_name: given(&body, "key_name").map(str::to_owned),
            config_drive: body
                .get("config_drive")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            description: given(&body, "description").map(str::to_owned),
            user_data: given(&body, "user_data").map(str::to_owned),
            volumes,
            group,
            fault: None,
        };
        self.compute.servers.insert(id.clone(), server);
        let rule = self.take_server_rule(&name);
        let build = rule.build.unwrap_or(self.durations.server_build);
        self.after_duration(
            seconds(build),
            Effect::ServerBuilt {
                id: id.clone(),
                fail: rule.fail,
            },
        );
        let reply = json!({ "server": {
            "id": id, "OS-DCF:diskConfig": "MANUAL", "adminPass": "fakeAdminPass", "security_groups": [{ "name": "default" }],
            "links": [{ "rel": "self", "href": format!("{}/compute/v2.1/servers/{id}", request.base) },
                { "rel": "bookmark", "href": format!("{}/compute/servers/{id}", request.base) }],
        } });
        Ok(Reply::json(202, reply).with(
            "Location",
            format!("{}/compute/v2.1/servers/{id}", request.base),
        ))
    }

    fn server_ports(
        &mut self,
        body: &Row,
        project: &str,
    ) -> Result<(Vec<String>, Vec<String>), Reply> {
        let mut wanted: Vec<Row> = body
            .get("networks")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|network| network.as_object().cloned())
            .collect();
        let automatic = match body.get("networks") {
            None => true,
            Some(Value::String(how)) => how == "auto",
            Some(_) => false,
        };
        if automatic {
            let own = self
                .network
                .table(Kind::Network)
                .find("project_id", project)
                .next();
            let own = own.map(|network| text(network, "id").to_owned());
            wanted.extend(own.map(|id| Row::from_iter([("uuid".to_owned(), json!(id))])));
        }
        for port in wanted.iter().filter_map(|network| given(network, "port")) {
            let row = self
                .network
                .get(Kind::Port, port)
                .ok_or_else(|| nova_error(400, format!("Port {port} could not be found.")))?;
            if !text(row, "device_id").is_empty() {
                return Err(nova_error(409, format!("Port {port} is still in use.")));
            }
        }
        let mut ports = Vec::new();
        let mut own = Vec::new();
        for network in &wanted {
            if let Some(port) = given(network, "port") {
                ports.push(port.to_owned());
                continue;
            }
            let id = text(network, "uuid");
            if self.network.get(Kind::Network, id).is_none() {
                return Err(nova_error(400, format!("Network {id} could not be found.")));
            }
            let mut wish = Row::from_iter([("network_id".to_owned(), json!(id))]);
            if let Some(address) = given(network, "fixed_ip") {
                wish.insert("fixed_ips".into(), json!([{ "ip_address": address }]));
            }
            let port = self
                .create_port(&wish, project)
                .map_err(|_| nova_error(400, "Fixed IP address is already in use."))?;
            ports.push(text(&port, "id").to_owned());
            own.push(text(&port, "id").to_owned());
        }
        Ok((ports, own))
    }

    fn server_volumes(
        &mut self,
        devices: &[Row],
        server: &str,
        request: &Request,
    ) -> Result<Vec<(String, bool)>, Reply> {
        let mut volumes = Vec::new();
        for device in devices {
            let goes = device
                .get("delete_on_termination")
                .and_then(Value::as_bool)
                .unwrap_or(false);
            let source = text(device, "source_type");
            if text(device, "destination_type") == "local" {
                continue;
            }
            let id = if source == "volume" {
                let id = text(device, "uuid").to_owned();
                let row = self.volumes.get(&id).ok_or_else(|| {
                    nova_error(
                        400,
                        format!("Block Device Mapping is Invalid: failed to get volume {id}."),
                    )
                })?;
                if text(row, "status") != "available" {
                    return Err(nova_error(
                        400,
                        format!(
                            "Invalid volume: volume {id} status must be 'available'. Currently in '{}'",
                            text(row, "status")
                        ),
                    ));
                }
                id
            } else {
                let size = device
                    .get("volume_size")
                    .and_then(Value::as_u64)
                    .unwrap_or(1);
                let row = self.put_volume(
                    &Row::new(),
                    size,
                    &request.caller.project,
                    &request.caller.user,
                );
                text(&row, "id").to_owned()
            };
            self.set_volume(&id, "in-use", Some(server));
            volumes.push((id, goes));
        }
        Ok(volumes)
    }
}

//! Reading and changing servers.

use serde_json::{Value, json};

use super::{Server, nova_error};
use crate::{
    listing::encode,
    network::Kind,
    wire::{Answer, Reply, Request, Row, given, text, truthy},
    world::World,
};

/// A name filter is a regular expression in Nova. Only anchors and quoted characters are supported, because clients
/// send no others.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, start) = pattern
        .strip_prefix('^')
        .map_or((pattern, false), |rest| (rest, true));
    let (pattern, end) = pattern
        .strip_suffix('$')
        .map_or((pattern, false), |rest| (rest, true));
    let plain = pattern.replace('\\', "");
    match (start, end) {
        (true, true) => name == plain,
        (true, false) => name.starts_with(&plain),
        (false, true) => name.ends_with(&plain),
        (false, false) => name.contains(&plain),
    }
}

impl World {
    pub(super) fn list_servers(&self, request: &Request, minor: u32, detail: bool) -> Answer {
        let everything =
            request.caller.is_admin() && request.param("all_tenants").is_some_and(truthy);
        let tags = |key: &str| {
            request
                .param(key)
                .map(|tags| tags.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let (all_tags, any_tags, not_tags, not_any) = (
            tags("tags"),
            tags("tags-any"),
            tags("not-tags"),
            tags("not-tags-any"),
        );
        let fits = |server: &&Server| {
            let has = |tag: &String| server.tags.contains(tag);
            (everything || server.project == request.caller.project)
                && request
                    .param("name")
                    .is_none_or(|name| name_matches(name, &server.name))
                && request
                    .param("status")
                    .is_none_or(|status| status.eq_ignore_ascii_case(&server.status))
                && request
                    .param("flavor")
                    .is_none_or(|flavor| flavor == server.flavor)
                && request
                    .param("image")
                    .is_none_or(|image| image == server.image)
                && request.param("uuid").is_none_or(|id| id == server.id)
                && (minor < 26
                    || (all_tags.as_ref().is_none_or(|tags| tags.iter().all(has))
                        && any_tags.as_ref().is_none_or(|tags| tags.iter().any(has))
                        && not_tags.as_ref().is_none_or(|tags| !tags.iter().all(has))
                        && not_any.as_ref().is_none_or(|tags| !tags.iter().any(has))))
        };
        let mut rows: Vec<&Server> = self.compute.servers.values().filter(fits).collect();
        rows.sort_by(|left, right| {
            right
                .created
                .cmp(&left.created)
                .then(left.id.cmp(&right.id))
        });
        if let Some(marker) = request.param("marker") {
            let place = rows.iter().position(|server| server.id == marker);
            let place =
                place.ok_or_else(|| nova_error(400, format!("marker [{marker}] not found")))?;
            rows.drain(..=place);
        }
        let limit = match request.param("limit").map(str::parse::<usize>) {
            None => 1000,
            Some(Ok(limit)) => limit.min(1000),
            Some(Err(_)) => {
                return Err(nova_error(400, "Invalid input for query parameters limit."));
            }
        };
        let more = rows.len() > limit
            || (rows.len() == limit && request.param("limit").is_some() && limit > 0);
        rows.truncate(limit);
        let last = rows.last().map(|server| server.id.clone());
        let shown: Vec<Value> = rows
            .into_iter()
            .map(|server| {
                if detail {
                    self.shown_server(server, request, minor)
                } else {
                    json!({ "id": server.id, "name": server.name, "links": Self::server_links(request, &server.id) })
                }
            })
            .collect();
        let mut body = json!({ "servers": shown });
        if let (true, Some(last), Some(object)) = (more, last, body.as_object_mut()) {
            let path = if detail { "servers/detail" } else { "servers" };
            let kept: Vec<String> = request
                .query
                .iter()
                .filter(|(key, _)| key != "marker")
                .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
                .chain([format!("marker={last}")])
                .collect();
            let href = format!("{}/compute/v2.1/{path}?{}", request.base, kept.join("&"));
            object.insert(
                "servers_links".into(),
                json!([{ "rel": "next", "href": href }]),
            );
        }
        Ok(Reply::json(200, body))
    }

    pub(super) fn server_call(
        &mut self,
        request: &Request,
        minor: u32,
        method: &str,
        id: &str,
        tail: &[&str],
    ) -> Answer {
        let missing = || nova_error(404, format!("Instance {id} could not be found."));
        let server = self
            .compute
            .servers
            .get(id)
            .filter(|server| server.project == request.caller.project || request.caller.is_admin())
            .cloned()
            .ok_or_else(missing)?;
        match (method, tail) {
            ("GET", []) => Ok(Reply::json(
                200,
                json!({ "server": self.shown_server(&server, request, minor) }),
            )),
            ("DELETE", []) => {
                self.start_server_deletion(id);
                Ok(Reply::empty(204))
            }
            ("PUT", []) => {
                let body = request.object("server");
                if let Some(server) = self.compute.servers.get_mut(id)
                    && let Some(name) = given(&body, "name")
                {
                    name.clone_into(&mut server.name);
                }
                let server = self.compute.servers.get(id).cloned().ok_or_else(missing)?;
                Ok(Reply::json(
                    200,
                    json!({ "server": self.shown_server(&server, request, minor) }),
                ))
            }
            ("POST", ["action"]) => self.server_action(request, &server),
            ("GET", ["metadata"]) => Ok(Reply::json(200, json!({ "metadata": server.metadata }))),
            ("POST" | "PUT", ["metadata"]) => {
                let new = request.object("metadata");
                let server = self.compute.servers.get_mut(id).ok_or_else(missing)?;
                if method == "PUT" {
                    server.metadata.clear();
                }
                server.metadata.extend(new);
                Ok(Reply::json(200, json!({ "metadata": server.metadata })))
            }
            ("GET", ["tags"]) => Ok(Reply::json(200, json!({ "tags": server.tags }))),
            ("PUT", ["tags"]) => {
                let tags = crate::wire::strings(
                    &request.body.as_object().cloned().unwrap_or_default(),
                    "tags",
                );
                let server = self.compute.servers.get_mut(id).ok_or_else(missing)?;
                server.tags.clone_from(&tags);
                Ok(Reply::json(200, json!({ "tags": tags })))
            }
            ("GET", ["os-volume_attachments"]) => {
                let list: Vec<Value> = server
                    .volumes
                    .iter()
                    .map(|(volume, _)| json!({ "id": volume, "volumeId": volume, "serverId": id, "device": "/dev/vda" }))
                    .collect();
                Ok(Reply::json(200, json!({ "volumeAttachments": list })))
            }
            ("GET", ["os-interface"]) => {
                let list: Vec<Value> = server
                    .ports
                    .iter()
                    .filter_map(|port| self.network.get(Kind::Port, port))
                    .map(Self::interface_body)
                    .collect();
                Ok(Reply::json(200, json!({ "interfaceAttachments": list })))
            }
            ("POST", ["os-interface"]) => {
                let port = text(&request.object("interfaceAttachment"), "port_id").to_owned();
                let row = self
                    .network
                    .get(Kind::Port, &port)
                    .ok_or_else(|| nova_error(400, format!("Port {port} could not be found.")))?;
                let shown = Self::interface_body(row);
                self.bind_port(&port, id, server.status == "ACTIVE");
                if let Some(server) = self.compute.servers.get_mut(id) {
                    server.ports.push(port);
                }
                Ok(Reply::json(200, json!({ "interfaceAttachment": shown })))
            }
            ("DELETE", ["os-interface", port]) => {
                if !server.ports.iter().any(|have| have == port) {
                    return Err(nova_error(
                        404,
                        format!("Instance {id} does not have a port with id {port}."),
                    ));
                }
                self.bind_port(port, "", false);
                if let Some(server) = self.compute.servers.get_mut(id) {
                    server.ports.retain(|have| have != port);
                }
                Ok(Reply::empty(202))
            }
            _ => Err(nova_error(404, "The resource could not be found.")),
        }
    }

    fn interface_body(port: &Row) -> Value {
        json!({
            "net_id": port.get("network_id"), "port_id": port.get("id"), "mac_addr": port.get("mac_address"),
            "port_state": port.get("status"), "fixed_ips": port.get("fixed_ips"),
        })
    }

    fn server_action(&mut self, request: &Request, server: &Server) -> Answer {
        let action = request
            .body
            .as_object()
            .and_then(|body| body.keys().next().cloned())
            .unwrap_or_default();
        let (from, to) = match action.as_str() {
            "os-stop" => ("ACTIVE", "SHUTOFF"),
            "os-start" => ("SHUTOFF", "ACTIVE"),
            "reboot" => ("ACTIVE", "ACTIVE"),
            "os-getConsoleOutput" => return Ok(Reply::json(200, json!({ "output": "" }))),
            _ => {
                return Err(nova_error(
                    400,
                    format!("There is no such action: {action}"),
                ));
            }
        };
        if server.status != from {
            let verb = action.trim_start_matches("os-");
            let state = if server.status == "SHUTOFF" {
                "stopped"
            } else {
                "active"
            };
            return Err(nova_error(
                409,
                format!(
                    "Cannot '{verb}' instance {} while it is in vm_state {state}",
                    server.id
                ),
            ));
        }
        self.set_server(&server.id, to, None);
        Ok(Reply::empty(202))
    }
}

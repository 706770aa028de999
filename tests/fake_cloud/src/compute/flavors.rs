//! Flavors, server groups and key pairs.

use serde_json::{Value, json};

use super::nova_error;
use crate::{
    wire::{Answer, Reply, Request, Row, Service, given, text},
    world::World,
};

impl World {
    /// Adds a flavor.
    pub(crate) fn put_flavor(&mut self, name: &str, vcpus: u64, ram: u64, disk: u64) {
        let id = self.new_id();
        let row = json!({
            "id": id, "name": name, "ram": ram, "disk": disk, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0,
            "OS-FLV-DISABLED:disabled": false, "vcpus": vcpus, "os-flavor-access:is_public": true, "rxtx_factor": 1.0,
        });
        self.compute
            .flavors
            .insert(id, row.as_object().cloned().unwrap_or_default());
    }

    fn shown_flavor(row: &Row, request: &Request, minor: u32) -> Value {
        let mut row = row.clone();
        let id = text(&row, "id").to_owned();
        row.insert(
            "links".into(),
            json!([{ "rel": "self", "href": format!("{}/compute/v2.1/flavors/{id}", request.base) },
                { "rel": "bookmark", "href": format!("{}/compute/flavors/{id}", request.base) }]),
        );
        if minor >= 55 {
            row.insert("description".into(), Value::Null);
        }
        if minor >= 61 {
            row.insert("extra_specs".into(), json!({}));
        }
        Value::Object(row)
    }

    pub(super) fn flavors(&mut self, request: &Request, minor: u32, tail: &[&str]) -> Answer {
        let missing = |id: &str| nova_error(404, format!("Flavor {id} could not be found."));
        match tail {
            [] | ["detail"] => {
                let mut rows: Vec<&Row> = self.compute.flavors.values().collect();
                rows.sort_by_key(|row| text(row, "id").to_owned());
                if let Some(marker) = request.param("marker") {
                    let place = rows.iter().position(|row| text(row, "id") == marker);
                    let place = place
                        .ok_or_else(|| nova_error(400, format!("marker [{marker}] not found")))?;
                    rows.drain(..=place);
                }
                let limit = request
                    .param("limit")
                    .and_then(|limit| limit.parse().ok())
                    .unwrap_or(1000);
                let more = rows.len() > limit;
                rows.truncate(limit);
                let last = rows.last().map(|row| text(row, "id").to_owned());
                let shown: Vec<Value> = rows
                    .into_iter()
                    .map(|row| {
                        let full = Self::shown_flavor(row, request, minor);
                        if tail.is_empty() {
                            json!({ "id": full.get("id"), "name": full.get("name"), "links": full.get("links") })
                        } else {
                            full
                        }
                    })
                    .collect();
                let mut body = json!({ "flavors": shown });
                if let (true, Some(last), Some(object)) = (more, last, body.as_object_mut()) {
                    let path = if tail.is_empty() {
                        "flavors"
                    } else {
                        "flavors/detail"
                    };
                    let href = format!(
                        "{}/compute/v2.1/{path}?limit={limit}&marker={last}",
                        request.base
                    );
                    object.insert(
                        "flavors_links".into(),
                        json!([{ "rel": "next", "href": href }]),
                    );
                }
                Ok(Reply::json(200, body))
            }
            [id] => self
                .compute
                .flavors
                .get(*id)
                .map(|row| {
                    Reply::json(
                        200,
                        json!({ "flavor": Self::shown_flavor(row, request, minor) }),
                    )
                })
                .ok_or_else(|| missing(id)),
            [id, "os-extra_specs"] if self.compute.flavors.contains_key(*id) => {
                Ok(Reply::json(200, json!({ "extra_specs": {} })))
            }
            [id, ..] => Err(missing(id)),
        }
    }

    pub(super) fn server_groups(
        &mut self,
        request: &Request,
        minor: u32,
        method: &str,
        tail: &[&str],
    ) -> Answer {
        let missing =
            |id: &str| nova_error(404, format!("Instance group {id} could not be found."));
        let show = |row: &Row| {
            let mut row = row.clone();
            let policy = row.remove("policy").unwrap_or_default();
            if minor >= 64 {
                row.insert("policy".into(), policy);
                row.insert("rules".into(), json!({}));
                row.remove("metadata");
            } else {
                row.insert("policies".into(), json!([policy]));
                row.insert("metadata".into(), json!({}));
            }
            if minor < 13 {
                row.remove("project_id");
                row.remove("user_id");
            }
            Value::Object(row)
        };
        match (method, tail) {
            ("GET", []) => {
                let list: Vec<Value> = self
                    .compute
                    .groups
                    .values()
                    .filter(|row| text(row, "project_id") == request.caller.project)
                    .map(show)
                    .collect();
                Ok(Reply::json(200, json!({ "server_groups": list })))
            }
            ("POST", []) => {
                let body = request.object("server_group");
                let policy = given(&body, "policy").map(str::to_owned).or_else(|| {
                    body.get("policies").and_then(|policies| {
                        policies.as_array()?.first()?.as_str().map(str::to_owned)
                    })
                });
                let Some(policy) = policy else {
                    return Err(nova_error(
                        400,
                        "Invalid input for field/attribute server_group.",
                    ));
                };
                let row = json!({
                    "id": self.new_id(), "name": text(&body, "name"), "policy": policy, "members": [],
                    "project_id": request.caller.project, "user_id": request.caller.user,
                });
                let row = row.as_object().cloned().unwrap_or_default();
                let shown = show(&row);
                self.compute.groups.insert(text(&row, "id").to_owned(), row);
                Ok(Reply::json(200, json!({ "server_group": shown })))
            }
            ("GET", [id]) => self
                .compute
                .groups
                .get(*id)
                .map(|row| Reply::json(200, json!({ "server_group": show(row) })))
                .ok_or_else(|| missing(id)),
            ("DELETE", [id]) => match self.compute.groups.remove(*id) {
                Some(_) => Ok(Reply::empty(204)),
                None => Err(missing(id)),
            },
            _ => Err(nova_error(404, "The resource could not be found.")),
        }
    }

    pub(super) fn keypairs(&mut self, request: &Request, method: &str, tail: &[&str]) -> Answer {
        match (method, tail) {
            ("GET", []) => {
                let list: Vec<Value> = self
                    .compute
                    .keypairs
                    .values()
                    .map(|row| json!({ "keypair": row }))
                    .collect();
                Ok(Reply::json(200, json!({ "keypairs": list })))
            }
            ("POST", []) => {
                let body = request.object("keypair");
                let name = text(&body, "name").to_owned();
                let row = json!({
                    "name": name, "public_key": body.get("public_key").cloned().unwrap_or(json!("ssh-ed25519 AAAA fake")),
                    "fingerprint": "00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00", "user_id": request.caller.user, "type": "ssh",
                });
                let row = row.as_object().cloned().unwrap_or_default();
                self.compute.keypairs.insert(name, row.clone());
                Ok(Reply::json(201, json!({ "keypair": row })))
            }
            ("GET", [name]) => self
                .compute
                .keypairs
                .get(*name)
                .map(|row| Reply::json(200, json!({ "keypair": row })))
                .ok_or_else(|| {
                    nova_error(
                        404,
                        format!("Keypair {name} not found for user {}", request.caller.user),
                    )
                }),
            ("DELETE", [name]) => match self.compute.keypairs.remove(*name) {
                Some(_) => Ok(Reply::empty(204)),
                None => Err(nova_error(
                    404,
                    format!("Keypair {name} not found for user {}", request.caller.user),
                )),
            },
            _ => Err(nova_error(404, "The resource could not be found.")),
        }
    }

    /// Fails if one more server would exceed the project's quota.
    pub(super) fn server_quota(&self, project: &str) -> Result<(), Reply> {
        let Some(limit) = self.limits.quota(Service::Compute, project, "instances") else {
            return Ok(());
        };
        let used = self
            .compute
            .servers
            .values()
            .filter(|server| server.project == project)
            .count();
        if used < limit {
            return Ok(());
        }
        Err(nova_error(
            403,
            format!(
                "Quota exceeded for instances: Requested 1, but already used {used} of {limit} instances"
            ),
        ))
    }
}

//! Tags of Neutron resources.

use serde_json::{Value, json};

use super::{Kind, Network, neutron_error};
use crate::{
    wire::{Answer, Reply, Request, strings},
    world::World,
};

impl World {
    pub(super) fn network_tags(
        &mut self,
        request: &Request,
        kind: Kind,
        id: &str,
        method: &str,
        tail: &[&str],
    ) -> Answer {
        let mut tags = self
            .network
            .get(kind, id)
            .map(|row| strings(row, "tags"))
            .unwrap_or_default();
        let missing =
            |tag: &str| neutron_error(404, "TagNotFound", format!("Tag {tag} could not be found."));
        let reply = match (method, tail) {
            ("GET", []) => return Ok(Reply::json(200, json!({ "tags": tags }))),
            ("GET", [tag]) if tags.iter().any(|have| have == tag) => return Ok(Reply::empty(204)),
            ("GET", [tag]) => return Err(missing(tag)),
            ("PUT", []) => {
                let Some(wanted) = request.body.get("tags").and_then(Value::as_array) else {
                    return Err(neutron_error(400, "HTTPBadRequest", "Invalid tags body"));
                };
                tags = wanted
                    .iter()
                    .filter_map(|tag| tag.as_str().map(str::to_owned))
                    .collect();
                tags.sort();
                tags.dedup();
                Reply::json(200, json!({ "tags": tags }))
            }
            ("PUT", [tag]) => {
                if !tags.iter().any(|have| have == tag) {
                    tags.push((*tag).to_owned());
                }
                Reply::json(201, Value::Null)
            }
            ("DELETE", []) => {
                tags.clear();
                Reply::empty(204)
            }
            ("DELETE", [tag]) => {
                if !tags.iter().any(|have| have == tag) {
                    return Err(missing(tag));
                }
                tags.retain(|have| have != tag);
                Reply::empty(204)
            }
            _ => {
                return Err(neutron_error(
                    404,
                    "HTTPNotFound",
                    "The resource could not be found.",
                ));
            }
        };
        let now = self.now;
        self.network.table_mut(kind).change(id, |row| {
            row.insert("tags".into(), json!(tags));
            Network::touch(row, now);
        });
        Ok(reply)
    }
}

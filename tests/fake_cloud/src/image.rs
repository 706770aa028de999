//! Glance: images by name, tag and id.

use serde_json::{Value, json};

use crate::{
    listing::{AUXILIARY, compare, encode, equals, tags_match},
    wire::{Answer, Reply, Request, Row, given, text},
    world::World,
};

fn not_found(id: &str) -> Reply {
    Reply::text(
        404,
        "text/html; charset=UTF-8",
        format!(
            "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  No image found with ID {id}<br /><br />\n\n\n\n </body>\n</html>"
        ),
    )
}

impl World {
    /// One call to Glance below `/image`.
    pub(crate) fn image_call(&mut self, request: &Request) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let rest = match segments.split_first() {
            None | Some((&"versions", _)) => {
                let versions: Vec<Value> = ["v2.15", "v2.13", "v2.9", "v2.7", "v2.5", "v2.4", "v2.3", "v2.2", "v2.1", "v2.0"]
                    .iter()
                    .enumerate()
                    .map(|(place, id)| {
                        json!({ "id": id, "status": if place == 0 { "CURRENT" } else { "SUPPORTED" },
                            "links": [{ "rel": "self", "href": format!("{}/image/v2/", request.base) }] })
                    })
                    .collect();
                return Ok(Reply::json(
                    if segments.is_empty() { 300 } else { 200 },
                    json!({ "versions": versions }),
                ));
            }
            Some((&"v2", rest)) => rest,
            Some(_) => {
                return Err(Reply::text(
                    404,
                    "text/html; charset=UTF-8",
                    "404 Not Found",
                ));
            }
        };
        match (request.method.as_str(), rest) {
            ("GET", ["images"]) => self.list_images(request),
            ("POST", ["images"]) => {
                let body = request.body.as_object().cloned().unwrap_or_default();
                let row = self.put_image(&body, &request.caller.project);
                Ok(Reply::json(201, Value::Object(row)))
            }
            ("GET", ["images", id]) => self
                .images
                .get(*id)
                .map(|row| Reply::json(200, Value::Object(row.clone())))
                .ok_or_else(|| not_found(id)),
            ("PUT", ["images", id, "file"]) => match self.images.get_mut(*id) {
                Some(row) => {
                    row.insert("status".into(), json!("active"));
                    row.insert("size".into(), json!(1024));
                    Ok(Reply::empty(204))
                }
                None => Err(not_found(id)),
            },
            ("PUT", ["images", id, "tags", tag]) => match self.images.get_mut(*id) {
                Some(row) => {
                    if let Some(tags) = row.get_mut("tags").and_then(Value::as_array_mut) {
                        tags.push(json!(tag));
                    }
                    Ok(Reply::empty(204))
                }
                None => Err(not_found(id)),
            },
            ("DELETE", ["images", id]) => match self.images.remove(*id) {
                Some(_) => Ok(Reply::empty(204)),
                None => Err(not_found(id)),
            },
            ("GET", ["schemas", _]) => Ok(Reply::json(
                200,
                json!({ "name": "image", "properties": {} }),
            )),
            _ => Err(Reply::text(
                404,
                "text/html; charset=UTF-8",
                "404 Not Found",
            )),
        }
    }

    fn list_images(&self, request: &Request) -> Answer {
        let fits = |row: &Row| {
            request
                .query
                .iter()
                .all(|(key, wanted)| match key.as_str() {
                    key if AUXILIARY.contains(&key) || key == "member_status" => true,
                    "tag" => tags_match(row, "tags", wanted).unwrap_or(false),
                    "visibility" if wanted == "all" => true,
                    key => match (row.get(key), wanted.strip_prefix("in:")) {
                        (Some(found), Some(list)) => list
                            .split(',')
                            .any(|wanted| equals(found, wanted.trim_matches('"'))),
                        (Some(found), None) => equals(found, wanted),
                        (None, _) => false,
                    },
                })
        };
        let may_see = |row: &Row| {
            request.caller.is_admin()
                || ["public", "community"].contains(&text(row, "visibility"))
                || text(row, "owner") == request.caller.project
        };
        let mut rows: Vec<&Row> = self
            .images
            .values()
            .filter(|row| may_see(row) && fits(row))
            .collect();
        // Newest first, as in Glance, and then by id, so that the order is total.
        rows.sort_by(|left, right| {
            compare(right.get("created_at"), left.get("created_at"))
                .then(compare(left.get("id"), right.get("id")))
        });
        if let Some(marker) = request.param("marker") {
            let place = rows
                .iter()
                .position(|row| text(row, "id") == marker)
                .ok_or_else(|| not_found(marker))?;
            rows.drain(..=place);
        }
        let limit = request
            .param("limit")
            .and_then(|limit| limit.parse().ok())
            .unwrap_or(25);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let mut body =
            json!({ "images": rows, "first": "/v2/images", "schema": "/v2/schemas/images" });
        if let (true, Some(last), Some(object)) = (more, rows.last(), body.as_object_mut()) {
            let kept: Vec<String> = request
                .query
                .iter()
                .filter(|(key, _)| key != "marker")
                .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
                .collect();
            let next = format!("/v2/images?{}&marker={}", kept.join("&"), text(last, "id"));
            object.insert("next".into(), json!(next));
        }
        Ok(Reply::json(200, body))
    }

    /// Adds an image. Fields that the body leaves out get Glance's defaults.
    pub(crate) fn put_image(&mut self, body: &Row, owner: &str) -> Row {
        let id = given(body, "id").map_or_else(|| self.new_id(), str::to_owned);
        let mut row = json!({
            "id": id, "name": null, "status": "queued", "visibility": "shared", "owner": owner, "size": null,
            "virtual_size": null, "disk_format": null, "container_format": null, "min_disk": 0, "min_ram": 0,
            "protected": false, "checksum": null, "os_hidden": false, "os_hash_algo": null, "os_hash_value": null,
            "tags": [], "created_at": self.now.zulu(), "updated_at": self.now.zulu(),
            "self": format!("/v2/images/{id}"), "file": format!("/v2/images/{id}/file"), "schema": "/v2/schemas/image",
        })
        .as_object()
        .cloned()
        .unwrap_or_default();
        row.extend(body.clone());
        row.insert("id".into(), json!(id));
        self.images.insert(id, row.clone());
        row
    }
}

//! Cinder: volumes.

use serde_json::{Value, json};

use crate::{
    listing::{AUXILIARY, equals},
    wire::{Answer, Reply, Request, Row, Service, given, text},
    world::{Effect, World},
};

fn not_found(id: &str) -> Reply {
    Reply::fault(
        404,
        "itemNotFound",
        format!("Volume {id} could not be found."),
    )
}

impl World {
    /// One call to Cinder below `/volume`.
    pub(crate) fn volume_call(&mut self, request: &Request) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let version = json!({
            "id": "v3.0", "status": "CURRENT", "version": "3.71", "min_version": "3.0", "updated": "2023-08-31T00:00:00Z",
            "links": [{ "rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/" },
                { "rel": "self", "href": format!("{}/volume/v3/", request.base) }],
            "media-types": [{ "base": "application/json", "type": "application/vnd.openstack.volume+json;version=3" }],
        });
        let rest = match segments.as_slice() {
            [] => return Ok(Reply::json(300, json!({ "versions": [version] }))),
            ["v3"] => return Ok(Reply::json(200, json!({ "versions": [version] }))),
            // The project in the path is optional in current releases.
            ["v3", first, rest @ ..]
                if !["volumes", "types", "os-availability-zone", "limits"].contains(first) =>
            {
                rest
            }
            ["v3", rest @ ..] => rest,
            _ => {
                return Err(Reply::fault(
                    404,
                    "itemNotFound",
                    "The resource could not be found.",
                ));
            }
        };
        match (request.method.as_str(), rest) {
            ("POST", ["volumes"]) => self.create_volume(request),
            ("GET", ["volumes"]) => Ok(self.list_volumes(request, false)),
            ("GET", ["volumes", "detail"]) => Ok(self.list_volumes(request, true)),
            ("GET", ["volumes", id]) => self
                .volumes
                .get(*id)
                .map(|row| Reply::json(200, json!({ "volume": row })))
                .ok_or_else(|| not_found(id)),
            ("DELETE", ["volumes", id]) => {
                let row = self.volumes.get(*id).ok_or_else(|| not_found(id))?;
                let status = text(row, "status");
                if !["available", "error", "error_deleting"].contains(&status) {
                    return Err(Reply::fault(
                        400,
                        "badRequest",
                        "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.",
                    ));
                }
                self.delete_volume(id);
                Ok(Reply::empty(202))
            }
            ("GET", ["types"]) => Ok(Reply::json(
                200,
                json!({ "volume_types": [
                { "id": "fake-type", "name": "fake", "is_public": true, "description": null, "extra_specs": {} } ] }),
            )),
            ("GET", ["limits"]) => {
                let project = &request.caller.project;
                let limit = self.limits.quota(Service::Volume, project, "volumes");
                let used = self
                    .volumes
                    .values()
                    .filter(|row| text(row, "os-vol-tenant-attr:tenant_id") == *project)
                    .count();
                Ok(Reply::json(
                    200,
                    json!({ "limits": { "rate": [], "absolute": {
                    "maxTotalVolumes": limit.map_or(json!(-1), |limit| json!(limit)),
                    "totalVolumesUsed": used } } }),
                ))
            }
            ("GET", ["os-availability-zone"]) => Ok(Reply::json(
                200,
                json!({ "availabilityZoneInfo": [
                { "zoneName": "nova", "zoneState": { "available": true } } ] }),
            )),
            _ => Err(Reply::fault(
                404,
                "itemNotFound",
                "The resource could not be found.",
            )),
        }
    }

    /// Starts the deletion of a volume.
    pub(crate) fn delete_volume(&mut self, id: &str) {
        if let Some(row) = self.volumes.get_mut(id) {
            row.insert("status".into(), json!("deleting"));
            self.after(
                self.durations.volume_create,
                Effect::VolumeGone(id.to_owned()),
            );
        }
    }

    fn create_volume(&mut self, request: &Request) -> Answer {
        let body = request.object("volume");
        let project = request.caller.project.clone();
        if let Some(limit) = self.limits.quota(Service::Volume, &project, "volumes") {
            let used = self
                .volumes
                .values()
                .filter(|row| text(row, "os-vol-tenant-attr:tenant_id") == project)
                .count();
            if used >= limit {
                let message = format!(
                    "VolumeLimitExceeded: Maximum number of volumes allowed ({limit}) exceeded for quota 'volumes'."
                );
                return Err(Reply::fault(413, "overLimit", message).with("Retry-After", "0"));
            }
        }
        let size = body
            .get("size")
            .and_then(Value::as_u64)
            .filter(|size| *size > 0);
        let Some(size) = size else {
            return Err(Reply::fault(
                400,
                "badRequest",
                "Invalid input received: Volume size must be an integer and greater than 0",
            ));
        };
        let row = self.put_volume(&body, size, &project, &request.caller.user);
        Ok(Reply::json(202, json!({ "volume": row })))
    }

    /// Adds a volume that becomes available after a while.
    pub(crate) fn put_volume(&mut self, body: &Row, size: u64, project: &str, user: &str) -> Row {
        let id = self.new_id();
        let row = json!({
            "id": id, "name": body.get("name").cloned().unwrap_or(Value::Null), "description": body.get("description"),
            "size": size, "status": "creating", "bootable": if given(body, "imageRef").is_some() { "true" } else { "false" },
            "availability_zone": given(body, "availability_zone").unwrap_or("nova"), "attachments": [], "metadata": body.get("metadata").cloned().unwrap_or(json!({})),
            "volume_type": given(body, "volume_type").unwrap_or("fake"), "multiattach": false, "encrypted": false,
            "created_at": format!("{}.000000", self.now.without_zone()), "updated_at": null, "user_id": user,
            "snapshot_id": null, "source_volid": null, "replication_status": null, "consistencygroup_id": null,
            "os-vol-tenant-attr:tenant_id": project, "links": [],
        });
        let row = row.as_object().cloned().unwrap_or_default();
        self.volumes.insert(id.clone(), row.clone());
        self.after(self.durations.volume_create, Effect::VolumeReady(id));
        row
    }

    fn list_volumes(&self, request: &Request, detail: bool) -> Reply {
        let everything = request.caller.is_admin() && request.param("all_tenants").is_some();
        let list: Vec<Value> = self
            .volumes
            .values()
            .filter(|row| {
                everything || text(row, "os-vol-tenant-attr:tenant_id") == request.caller.project
            })
            .filter(|row| {
                request
                    .query
                    .iter()
                    .filter(|(key, _)| !AUXILIARY.contains(&key.as_str()))
                    .all(|(key, wanted)| row.get(key).is_none_or(|found| equals(found, wanted)))
            })
            .map(|row| {
                if detail {
                    Value::Object(row.clone())
                } else {
                    json!({ "id": row.get("id"), "name": row.get("name"), "links": [] })
                }
            })
            .collect();
        Reply::json(200, json!({ "volumes": list }))
    }

    /// Sets a volume's status and attachments.
    pub(crate) fn set_volume(&mut self, id: &str, status: &str, server: Option<&str>) {
        if let Some(row) = self.volumes.get_mut(id) {
            row.insert("status".into(), json!(status));
            let attachments = server.map(|server| json!({ "server_id": server, "volume_id": id, "device": "/dev/vda", "id": id }));
            row.insert(
                "attachments".into(),
                json!(attachments.into_iter().collect::<Vec<_>>()),
            );
        }
    }
}

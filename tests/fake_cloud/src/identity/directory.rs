//! Reads of Keystone, and application credentials.

use serde_json::{Value, json};

use super::{ApplicationCredential, Caller, Project, User, keystone_error};
use crate::{
    wire::{Answer, Reply, Request, given, text},
    world::World,
};

fn project_body(project: &Project) -> Value {
    json!({
        "id": project.id, "name": project.name, "domain_id": "default", "enabled": true, "is_domain": false,
        "parent_id": "default", "description": "", "tags": [], "options": {}, "links": {},
    })
}

fn user_body(user: &User) -> Value {
    json!({ "id": user.id, "name": user.name, "domain_id": "default", "enabled": true, "options": {}, "links": {} })
}

fn credential_body(credential: &ApplicationCredential) -> Value {
    json!({
        "id": credential.id, "name": credential.name, "project_id": credential.project, "description": null,
        "unrestricted": false, "expires_at": null, "roles": [], "links": {},
    })
}

impl World {
    pub(super) fn identity_read(
        &mut self,
        caller: &Caller,
        request: &Request,
        rest: &[&str],
    ) -> Answer {
        let name = request.param("name");
        let fits = |candidate: &str| name.is_none_or(|name| name == candidate);
        match (request.method.as_str(), rest) {
            ("GET" | "HEAD", ["auth", "tokens"]) => self.show_token(request),
            ("DELETE", ["auth", "tokens"]) => Ok(self.drop_token(request)),
            ("GET", ["auth", "catalog"]) => Ok(Reply::json(
                200,
                json!({ "catalog": self.catalogue(&request.base, &caller.project), "links": {} }),
            )),
            ("GET", ["auth", "projects"] | ["users", _, "projects"]) => {
                let roles = self
                    .identity
                    .users
                    .get(&caller.user)
                    .map(|user| user.roles.clone())
                    .unwrap_or_default();
                let projects: Vec<Value> = self
                    .identity
                    .projects
                    .values()
                    .filter(|project| roles.contains_key(&project.id))
                    .map(project_body)
                    .collect();
                Ok(Reply::json(
                    200,
                    json!({ "projects": projects, "links": {} }),
                ))
            }
            ("GET", ["projects"]) => {
                let projects: Vec<Value> = self
                    .identity
                    .projects
                    .values()
                    .filter(|project| fits(&project.name))
                    .map(project_body)
                    .collect();
                Ok(Reply::json(
                    200,
                    json!({ "projects": projects, "links": {} }),
                ))
            }
            ("GET", ["projects", id]) => self
                .identity
                .projects
                .get(*id)
                .map(|project| Reply::json(200, json!({ "project": project_body(project) })))
                .ok_or_else(|| keystone_error(404, format!("Could not find project: {id}."))),
            ("GET", ["users"]) => {
                let users: Vec<Value> = self
                    .identity
                    .users
                    .values()
                    .filter(|user| fits(&user.name))
                    .map(user_body)
                    .collect();
                Ok(Reply::json(200, json!({ "users": users, "links": {} })))
            }
            ("GET", ["users", id]) => self
                .identity
                .users
                .get(*id)
                .map(|user| Reply::json(200, json!({ "user": user_body(user) })))
                .ok_or_else(|| keystone_error(404, format!("Could not find user: {id}."))),
            ("GET", ["domains"]) => Ok(Reply::json(
                200,
                json!({ "domains": [
                { "id": "default", "name": "Default", "enabled": true, "links": {} } ], "links": {} }),
            )),
            ("GET", ["domains", _]) => Ok(Reply::json(
                200,
                json!({ "domain":
                { "id": "default", "name": "Default", "enabled": true, "links": {} } }),
            )),
            ("GET", ["regions"]) => {
                let regions: Vec<Value> = self
                    .regions
                    .iter()
                    .map(|region| json!({ "id": region, "description": "", "parent_region_id": null }))
                    .collect();
                Ok(Reply::json(200, json!({ "regions": regions, "links": {} })))
            }
            (method, ["users", user, "application_credentials", tail @ ..]) => {
                if *user != caller.user && !caller.is_admin() {
                    return Err(keystone_error(
                        403,
                        "You are not authorized to perform the requested action.",
                    ));
                }
                self.application_credentials(caller, request, method, user, tail)
            }
            _ => Err(keystone_error(404, "The resource could not be found.")),
        }
    }

    fn application_credentials(
        &mut self,
        caller: &Caller,
        request: &Request,
        method: &str,
        user: &str,
        tail: &[&str],
    ) -> Answer {
        let missing =
            |id: &str| keystone_error(404, format!("Could not find Application Credential: {id}."));
        match (method, tail) {
            ("GET", []) => {
                let list: Vec<Value> = self
                    .identity
                    .credentials
                    .values()
                    .filter(|credential| credential.user == user)
                    .map(credential_body)
                    .collect();
                Ok(Reply::json(
                    200,
                    json!({ "application_credentials": list, "links": {} }),
                ))
            }
            ("POST", []) => {
                let body = request.object("application_credential");
                let credential = ApplicationCredential {
                    id: self.new_id().replace('-', ""),
                    name: text(&body, "name").to_owned(),
                    secret: given(&body, "secret").map_or_else(|| self.new_id(), str::to_owned),
                    user: user.to_owned(),
                    project: caller.project.clone(),
                };
                let mut shown = credential_body(&credential);
                if let Some(object) = shown.as_object_mut() {
                    object.insert("secret".into(), json!(credential.secret));
                }
                self.identity
                    .credentials
                    .insert(credential.id.clone(), credential);
                Ok(Reply::json(201, json!({ "application_credential": shown })))
            }
            ("GET", [id]) => self
                .identity
                .credentials
                .get(*id)
                .map(|credential| {
                    Reply::json(
                        200,
                        json!({ "application_credential": credential_body(credential) }),
                    )
                })
                .ok_or_else(|| missing(id)),
            ("DELETE", [id]) => match self.identity.credentials.remove(*id) {
                Some(credential) => {
                    // The credential's tokens end with it.
                    self.identity.revoke(Some(&credential.name));
                    Ok(Reply::empty(204))
                }
                None => Err(missing(id)),
            },
            _ => Err(keystone_error(404, "The resource could not be found.")),
        }
    }
}

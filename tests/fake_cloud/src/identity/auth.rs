//! Signing in, and tokens.

use serde_json::{Value, json};

use super::{Caller, Token, keystone_error};
use crate::{
    settings::seconds,
    wire::{Answer, Reply, Request},
    world::World,
};

/// The largest number of tokens. The oldest expired ones are removed first.
const TOKENS: usize = 20_000;

struct SignedIn {
    caller: Caller,
    methods: Vec<String>,
    application_credential: Option<String>,
}

fn refused() -> Reply {
    keystone_error(401, "The request you have made requires authentication.")
}

impl World {
    /// One call to Keystone below `/identity`.
    pub(crate) fn identity_call(&mut self, request: &Request) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let rest = match segments.split_first() {
            None => {
                let body = json!({ "versions": { "values": [Self::identity_version(request)] } });
                return Ok(Reply::json(300, body)
                    .with("Location", format!("{}/identity/v3/", request.base)));
            }
            Some((&"v3", rest)) => rest,
            Some(_) => {
                return Err(keystone_error(
                    404,
                    "(http://127.0.0.1/): The resource could not be found.",
                ));
            }
        };
        match (request.method.as_str(), rest) {
            ("GET", []) => Ok(Reply::json(
                200,
                json!({ "version": Self::identity_version(request) }),
            )),
            ("POST", ["auth", "tokens"]) => self.sign_in(request),
            _ => {
                let token = request.header("x-auth-token").unwrap_or_default();
                let caller = self
                    .identity
                    .caller(token, self.now.elapsed)
                    .ok_or_else(refused)?;
                self.identity_read(&caller, request, rest)
            }
        }
    }

    fn identity_version(request: &Request) -> Value {
        json!({
            "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
            "links": [{ "rel": "self", "href": format!("{}/identity/v3/", request.base) }],
            "media-types": [{ "base": "application/json", "type": "application/vnd.openstack.identity-v3+json" }],
        })
    }

    fn sign_in(&mut self, request: &Request) -> Answer {
        let Some(identity) = request.body.pointer("/auth/identity") else {
            return Err(keystone_error(
                400,
                "Expecting to find identity in auth. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
            ));
        };
        let methods: Vec<String> = identity
            .get("methods")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|method| method.as_str().map(str::to_owned))
            .collect();
        let scope = request.body.pointer("/auth/scope");
        let signed = match methods.first().map(String::as_str) {
            Some("password") => self.by_password(identity, scope)?,
            Some("token") => self.by_token(identity, scope)?,
            Some("application_credential") => self.by_application_credential(identity)?,
            _ => return Err(refused()),
        };
        let id = format!("gAAAAA{}", self.new_id().replace('-', ""));
        let expires = self.now.elapsed + seconds(self.token_life);
        let token = Token {
            caller: signed.caller,
            methods: signed.methods,
            application_credential: signed.application_credential,
            expires,
            issued_text: self.now.zulu_micro(),
            expires_text: self.now.at(expires).zulu_micro(),
        };
        if self.identity.tokens.len() >= TOKENS {
            let elapsed = self.now.elapsed;
            self.identity
                .tokens
                .retain(|_, token| token.expires > elapsed);
        }
        let body = self.token_body(&token, &request.base);
        self.identity.tokens.insert(id.clone(), token);
        Ok(Reply::json(201, body).with("X-Subject-Token", id))
    }

    fn by_password(&self, identity: &Value, scope: Option<&Value>) -> Result<SignedIn, Reply> {
        let user = identity.pointer("/password/user").ok_or_else(refused)?;
        let name = user.get("name").and_then(Value::as_str);
        let id = user.get("id").and_then(Value::as_str);
        let password = user
            .get("password")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let found = self
            .identity
            .users
            .values()
            .find(|user| Some(user.name.as_str()) == name || Some(user.id.as_str()) == id)
            .filter(|user| user.password == password)
            .ok_or_else(refused)?;
        let (project, roles) = self.scoped(&found.id, scope)?;
        Ok(SignedIn {
            caller: Caller {
                project,
                user: found.id.clone(),
                credential: found.name.clone(),
                roles,
            },
            methods: vec!["password".into()],
            application_credential: None,
        })
    }

    fn by_token(&self, identity: &Value, scope: Option<&Value>) -> Result<SignedIn, Reply> {
        let token = identity
            .pointer("/token/id")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let old = self
            .identity
            .caller(token, self.now.elapsed)
            .ok_or_else(|| keystone_error(404, "Failed to validate token"))?;
        let (project, roles) = if scope.is_some() {
            self.scoped(&old.user, scope)?
        } else {
            (old.project.clone(), old.roles.clone())
        };
        Ok(SignedIn {
            caller: Caller {
                project,
                roles,
                ..old
            },
            methods: vec!["token".into()],
            application_credential: None,
        })
    }

    fn by_application_credential(&self, identity: &Value) -> Result<SignedIn, Reply> {
        let wanted = identity.get("application_credential").ok_or_else(refused)?;
        let id = wanted.get("id").and_then(Value::as_str);
        let name = wanted.get("name").and_then(Value::as_str);
        let user = wanted.pointer("/user/name").and_then(Value::as_str);
        let user_id = wanted.pointer("/user/id").and_then(Value::as_str);
        let secret = wanted
            .get("secret")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let found = self.identity.credentials.values().find(|credential| {
            if let Some(id) = id {
                credential.id == id
            } else {
                let owner = self.identity.users.get(&credential.user);
                Some(credential.name.as_str()) == name
                    && owner.is_some_and(|owner| {
                        Some(owner.name.as_str()) == user || Some(owner.id.as_str()) == user_id
                    })
            }
        });
        let Some(found) = found else {
            let id = id.or(name).unwrap_or_default();
            return Err(keystone_error(
                404,
                format!("Could not find Application Credential: {id}."),
            ));
        };
        if found.secret != secret {
            return Err(refused());
        }
        let roles = self
            .identity
            .users
            .get(&found.user)
            .and_then(|user| user.roles.get(&found.project))
            .cloned()
            .ok_or_else(refused)?;
        Ok(SignedIn {
            caller: Caller {
                project: found.project.clone(),
                user: found.user.clone(),
                credential: found.name.clone(),
                roles,
            },
            methods: vec!["application_credential".into()],
            application_credential: Some(found.id.clone()),
        })
    }

    /// The project that a scope names, and the user's roles in it. Without a scope, it is the user's only project.
    fn scoped(&self, user: &str, scope: Option<&Value>) -> Result<(String, Vec<String>), Reply> {
        let user = self.identity.users.get(user).ok_or_else(refused)?;
        let wanted = scope
            .and_then(|scope| scope.get("project"))
            .and_then(|project| project.get("id").or_else(|| project.get("name")))
            .and_then(Value::as_str);
        let project = match wanted {
            Some(wanted) => self
                .identity
                .project(wanted)
                .map(|project| project.id.clone()),
            None if scope.is_some() => None,
            None => return Ok((String::new(), Vec::new())),
        };
        let project = project.ok_or_else(refused)?;
        let roles = user.roles.get(&project).cloned().ok_or_else(refused)?;
        Ok((project, roles))
    }

    fn token_body(&self, token: &Token, base: &str) -> Value {
        let domain = json!({ "id": "default", "name": "Default" });
        let user_name = self
            .identity
            .users
            .get(&token.caller.user)
            .map(|user| user.name.clone());
        let mut body = json!({
            "methods": token.methods, "issued_at": token.issued_text, "expires_at": token.expires_text,
            "audit_ids": ["qAxrD7TzTx2mYzYjCmFVhA"],
            "user": { "id": token.caller.user, "name": user_name, "domain": domain, "password_expires_at": null },
        });
        if let Some(object) = body.as_object_mut() {
            if !token.caller.project.is_empty() {
                let name = self
                    .identity
                    .projects
                    .get(&token.caller.project)
                    .map(|project| project.name.clone());
                object.insert(
                    "project".into(),
                    json!({ "id": token.caller.project, "name": name, "domain": domain }),
                );
                object.insert("is_domain".into(), json!(false));
                let roles: Vec<Value> = token
                    .caller
                    .roles
                    .iter()
                    .map(|role| json!({ "id": format!("role-{role}"), "name": role }))
                    .collect();
                object.insert("roles".into(), json!(roles));
                object.insert(
                    "catalog".into(),
                    self.catalogue(base, &token.caller.project),
                );
            }
            if let Some(id) = &token.application_credential {
                let name = self
                    .identity
                    .credentials
                    .get(id)
                    .map(|credential| credential.name.clone());
                object.insert(
                    "application_credential".into(),
                    json!({ "id": id, "name": name, "restricted": true }),
                );
            }
        }
        json!({ "token": body })
    }

    pub(super) fn show_token(&self, request: &Request) -> Answer {
        let subject = request.header("x-subject-token").unwrap_or_default();
        let token = self
            .identity
            .tokens
            .get(subject)
            .filter(|token| token.expires > self.now.elapsed)
            .ok_or_else(|| keystone_error(404, "Failed to validate token"))?;
        let mut body = self.token_body(token, &request.base);
        if let Some(token) = body.get_mut("token").and_then(Value::as_object_mut)
            && request.param("nocatalog").is_some()
        {
            token.remove("catalog");
        }
        Ok(Reply::json(200, body).with("X-Subject-Token", subject))
    }

    pub(super) fn drop_token(&mut self, request: &Request) -> Reply {
        let subject = request.header("x-subject-token").unwrap_or_default();
        self.identity.tokens.remove(subject);
        Reply::empty(204)
    }
}

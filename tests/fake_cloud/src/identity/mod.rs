//! Keystone: projects, users, application credentials, tokens and the catalogue.

mod auth;
mod catalogue;
mod directory;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use serde_json::{Value, json};

use crate::wire::Reply;

/// The caller that a token identifies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Project id of the token.
    pub project: String,
    /// User id.
    pub user: String,
    /// The credential of the sign-in: user name, or application credential name.
    pub credential: String,
    /// Role names.
    pub roles: Vec<String>,
}

impl Caller {
    /// Whether the token carries the role `admin`.
    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role == "admin")
    }
}

/// A project.
#[derive(Debug, Clone)]
pub struct Project {
    /// Id.
    pub id: String,
    /// Name, unique in the one domain.
    pub name: String,
}

/// A user with roles in projects.
#[derive(Debug, Clone)]
pub struct User {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Password.
    pub password: String,
    /// Roles by project id.
    pub roles: BTreeMap<String, Vec<String>>,
}

/// An application credential.
#[derive(Debug, Clone)]
pub struct ApplicationCredential {
    /// Id.
    pub id: String,
    /// Name, unique for its user.
    pub name: String,
    /// Secret.
    pub secret: String,
    /// The user it stands for.
    pub user: String,
    /// The project it is bound to.
    pub project: String,
}

#[derive(Debug, Clone)]
struct Token {
    caller: Caller,
    methods: Vec<String>,
    application_credential: Option<String>,
    expires: Duration,
    issued_text: String,
    expires_text: String,
}

/// The state of Keystone.
#[derive(Debug, Default)]
pub struct Identity {
    /// Projects by id.
    pub(crate) projects: BTreeMap<String, Project>,
    /// Users by id.
    pub(crate) users: BTreeMap<String, User>,
    /// Application credentials by id.
    pub(crate) credentials: BTreeMap<String, ApplicationCredential>,
    tokens: HashMap<String, Token>,
}

/// Keystone's error shape.
pub(crate) fn keystone_error(status: u16, message: impl Into<String>) -> Reply {
    let message: String = message.into();
    Reply::json(
        status,
        json!({ "error": { "code": status, "message": message, "title": crate::wire::reason_phrase(status) } }),
    )
}

impl Identity {
    /// Adds a project.
    pub fn add_project(&mut self, id: &str, name: &str) {
        let project = Project {
            id: id.to_owned(),
            name: name.to_owned(),
        };
        self.projects.insert(project.id.clone(), project);
    }

    /// Adds a user, or changes the password of an existing one and adds roles.
    pub fn add_user(
        &mut self,
        id: &str,
        name: &str,
        password: &str,
        project: &str,
        roles: &[&str],
    ) {
        let known = self
            .users
            .values()
            .find(|user| user.name == name)
            .map(|user| user.id.clone());
        let id = known.unwrap_or_else(|| id.to_owned());
        let user = self.users.entry(id.clone()).or_insert_with(|| User {
            id,
            name: name.to_owned(),
            password: String::new(),
            roles: BTreeMap::new(),
        });
        password.clone_into(&mut user.password);
        user.roles.insert(
            project.to_owned(),
            roles.iter().map(|role| (*role).to_owned()).collect(),
        );
    }

    /// A project by name or id.
    pub fn project(&self, name_or_id: &str) -> Option<&Project> {
        self.projects.get(name_or_id).or_else(|| {
            self.projects
                .values()
                .find(|project| project.name == name_or_id)
        })
    }

    /// The caller that a valid token belongs to.
    pub(crate) fn caller(&self, token: &str, elapsed: Duration) -> Option<Caller> {
        self.tokens
            .get(token)
            .filter(|token| token.expires > elapsed)
            .map(|token| token.caller.clone())
    }

    /// Ends every token, or those of one credential.
    pub fn revoke(&mut self, credential: Option<&str>) {
        self.tokens.retain(|_, token| {
            credential.is_some_and(|credential| token.caller.credential != credential)
        });
    }
}

/// 401 with the text of the services' token middleware.
pub(crate) fn unauthorized(base: &str) -> Reply {
    let body: Value = json!({ "error": {
        "code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication.",
    } });
    Reply::json(401, body).with(
        "WWW-Authenticate",
        format!("Keystone uri=\"{base}/identity/v3\""),
    )
}

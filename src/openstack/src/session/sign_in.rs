//! The request for a token of Keystone, and its answer.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};

use capo_core::ids::ProjectId;

use crate::{
    profile::credential::{ApplicationCredentialName, Credential, Domain, Named},
    session::catalogue::Catalogue,
    wire::null_as_default,
};

/// The body of `POST /v3/auth/tokens`. It holds secrets.
pub(crate) fn request_body(credential: &Credential) -> Value {
    match credential {
        Credential::Password {
            user,
            password,
            project,
        } => {
            let mut user = named(user);
            user["password"] = json!(password.expose_secret());
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": named(project)},
            }})
        }
        Credential::Token { token, project } => json!({"auth": {
            "identity": {"methods": ["token"], "token": {"id": token.expose_secret()}},
            "scope": {"project": named(project)},
        }}),
        Credential::Application { name, secret } => {
            let mut credential = match name {
                ApplicationCredentialName::Id(id) => json!({"id": id}),
                ApplicationCredentialName::OfUser { name, user } => {
                    json!({"name": name, "user": named(user)})
                }
            };
            credential["secret"] = json!(secret.expose_secret());
            json!({"auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": credential,
            }}})
        }
    }
}

fn named(object: &Named) -> Value {
    match object {
        Named::Id(id) => json!({"id": id}),
        Named::Name { name, domain } => {
            let domain = match domain {
                Domain::Id(id) => json!({"id": id}),
                Domain::Name(name) => json!({"name": name}),
            };
            json!({"name": name, "domain": domain})
        }
    }
}

/// The body of the answer.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) token: WireToken,
}

#[derive(Deserialize)]
pub(crate) struct WireToken {
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    issued_at: Option<String>,
    #[serde(default)]
    pub(crate) project: Option<WireProject>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) catalog: Catalogue,
}

#[derive(Deserialize)]
pub(crate) struct WireProject {
    pub(crate) id: ProjectId,
}

/// The assumed lifetime of a token whose times can't be read. It is short, so that the token is replaced before it is
/// refused.
const GUESSED_LIFE: Duration = Duration::from_mins(5);

impl WireToken {
    /// The token's lifetime by Keystone's own clock. Both times come from Keystone, so the clock of this host does not
    /// matter.
    pub(crate) fn life(&self) -> Duration {
        let time = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
        let (Some(issued), Some(expires)) = (time(&self.issued_at), time(&self.expires_at)) else {
            return GUESSED_LIFE;
        };
        Duration::try_from(expires.duration_since(issued)).unwrap_or_default()
    }
}

/// The age at which a token of this lifetime is replaced: when a fifth of the lifetime is left, but at least two and at
/// most thirty minutes before the end if the lifetime is that long.
pub(crate) fn renew_after(life: Duration) -> Duration {
    let ahead = (life / 5).clamp(Duration::from_mins(2), Duration::from_mins(30));
    if ahead >= life / 2 {
        life / 2
    } else {
        life.saturating_sub(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_is_relative() {
        let life = |issued: &str, expires: &str| {
            let text = format!(r#"{{"issued_at":{issued},"expires_at":{expires},"catalog":null}}"#);
            serde_json::from_str::<WireToken>(&text).unwrap().life()
        };
        let hour = Duration::from_hours(1);
        assert_eq!(
            life(
                r#""1999-01-01T00:00:00.000000Z""#,
                r#""1999-01-01T01:00:00.000000Z""#
            ),
            hour
        );
        assert_eq!(life("null", r#""1999-01-01T01:00:00Z""#), GUESSED_LIFE);
        assert_eq!(
            life(r#""1999-01-01T01:00:00Z""#, r#""1999-01-01T00:00:00Z""#),
            Duration::ZERO
        );
    }

    #[test]
    fn renewal_is_ahead_of_expiry() {
        let secs = Duration::from_secs;
        assert_eq!(renew_after(secs(3600)), secs(2880));
        assert_eq!(renew_after(secs(24 * 3600)), secs(24 * 3600 - 1800));
        assert_eq!(renew_after(secs(300)), secs(180));
        assert_eq!(renew_after(secs(60)), secs(30));
    }
}

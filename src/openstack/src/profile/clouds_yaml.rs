//! clouds.yaml as users write it. An error quotes only names, and the values of fields that hold no secret.

use std::{collections::BTreeMap, fmt};

use secrecy::SecretString;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use crate::{profile::error::ProfileError, send::error_text};

/// The largest clouds.yaml that is read, in bytes.
const LARGEST: usize = 256 * 1024;

#[derive(Deserialize, Default)]
struct CloudNames {
    #[serde(default)]
    clouds: BTreeMap<String, Option<IgnoredAny>>,
}

/// One entry under `clouds`. Ignored fields are read as well, so that a remark can name them.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawCloud {
    pub(super) auth: Option<RawAuth>,
    pub(super) auth_type: Option<String>,
    pub(super) region_name: Option<String>,
    pub(super) interface: Option<String>,
    pub(super) endpoint_type: Option<String>,
    pub(super) verify: Option<Flag>,
    pub(super) insecure: Option<Flag>,
    pub(super) cacert: Option<IgnoredAny>,
    pub(super) cert: Option<IgnoredAny>,
    pub(super) key: Option<IgnoredAny>,
    pub(super) profile: Option<IgnoredAny>,
    pub(super) cloud: Option<IgnoredAny>,
    pub(super) regions: Option<IgnoredAny>,
}

/// The `auth` part of an entry.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawAuth {
    pub(super) auth_url: Option<String>,
    pub(super) username: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) password: Option<SecretString>,
    pub(super) token: Option<SecretString>,
    pub(super) project_name: Option<String>,
    pub(super) project_id: Option<String>,
    pub(super) tenant_name: Option<String>,
    pub(super) tenant_id: Option<String>,
    pub(super) user_domain_name: Option<String>,
    pub(super) user_domain_id: Option<String>,
    pub(super) project_domain_name: Option<String>,
    pub(super) project_domain_id: Option<String>,
    pub(super) domain_name: Option<String>,
    pub(super) domain_id: Option<String>,
    pub(super) default_domain: Option<String>,
    pub(super) application_credential_id: Option<String>,
    pub(super) application_credential_name: Option<String>,
    pub(super) application_credential_secret: Option<SecretString>,
}

/// A boolean, which may also be written as a text.
#[derive(Clone, Copy)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Self(true)),
            "false" | "no" | "off" | "0" => Ok(Self(false)),
            _ => Err(serde::de::Error::custom("expected true or false")),
        }
    }
}

/// The names of the clouds in the text of a clouds.yaml.
pub(crate) fn names(yaml: &[u8]) -> Result<Vec<String>, ProfileError> {
    let text = text_of(yaml)?;
    let names: Option<CloudNames> =
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| malformed(&error))?;
    Ok(names.unwrap_or_default().clouds.into_keys().collect())
}

fn text_of(yaml: &[u8]) -> Result<&str, ProfileError> {
    if yaml.len() > LARGEST {
        return Err(ProfileError::TooLarge {
            key: "clouds.yaml",
            found: yaml.len(),
            limit: LARGEST,
        });
    }
    std::str::from_utf8(yaml).map_err(|_| ProfileError::NotText { key: "clouds.yaml" })
}

/// Reads the cloud `name` from the text of a clouds.yaml.
pub(crate) fn read(yaml: &[u8], name: &str) -> Result<RawCloud, ProfileError> {
    let found = names(yaml)?;
    if !found.iter().any(|known| known == name) {
        return Err(ProfileError::UnknownCloud {
            wanted: error_text::stable(name),
            found,
        });
    }
    let text = text_of(yaml)?;
    serde_saphyr::with_deserializer_from_str_with_options(text, options(), |yaml| {
        Clouds { name }.deserialize(yaml)
    })
    .map_err(|error| malformed(&error))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 50_000,
            max_nodes: 20_000,
            max_aliases: 100,
            max_anchors: 100,
            max_depth: 32,
            max_documents: 1,
        },
        with_snippet: false,
        emit_comments: false,
    }
}

/// An error that names only the place, because the parser's own message may quote a password.
fn malformed(error: &serde_saphyr::Error) -> ProfileError {
    let problem = match error.location() {
        Some(place) => format!(
            "line {}, column {} does not have the form of a clouds.yaml",
            place.line(),
            place.column()
        ),
        None => "it is not a YAML mapping, or is nested too deeply or too large".to_owned(),
    };
    ProfileError::Malformed { problem }
}

/// Finds one entry of `clouds` without reading the others.
struct Clouds<'a> {
    name: &'a str,
}

struct Entries<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Clouds<'_> {
    type Value = RawCloud;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawCloud, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Clouds<'_> {
    type Value = RawCloud;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping with the key `clouds`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawCloud, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "clouds" {
                found = Some(map.next_value_seed(Entries(self.name))?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        found.ok_or_else(|| serde::de::Error::missing_field("clouds"))
    }
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = RawCloud;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawCloud, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = RawCloud;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of clouds by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawCloud, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0 {
                found = Some(map.next_value::<Option<RawCloud>>()?.unwrap_or_default());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        found.ok_or_else(|| serde::de::Error::custom("no such cloud"))
    }
}

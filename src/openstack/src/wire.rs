//! Parts of wire formats that several services share.

use std::{fmt, marker::PhantomData, net::IpAddr};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use capo_core::ids::SubnetId;
pub(crate) use capo_core::wire::{Reference, null_as_default, parsed, parsed_list};

/// An address and the subnet it is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FixedIp {
    /// The subnet's id; Neutron chooses one where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<SubnetId>,
    /// The address; Neutron chooses one where it is absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "parsed"
    )]
    pub ip_address: Option<IpAddr>,
}

/// Tag conditions of Octavia's and Neutron's lists, each a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TagFilter {
    /// The object has all of these tags.
    pub tags: Vec<String>,
    /// The object has any of these tags.
    pub tags_any: Vec<String>,
    /// The object does not have all of these tags.
    pub not_tags: Vec<String>,
    /// The object has none of these tags.
    pub not_tags_any: Vec<String>,
}

impl TagFilter {
    pub(crate) fn query(&self, query: &mut Vec<(&'static str, String)>) {
        for (key, tags) in [
            ("tags", &self.tags),
            ("tags-any", &self.tags_any),
            ("not-tags", &self.not_tags),
            ("not-tags-any", &self.not_tags_any),
        ] {
            if !tags.is_empty() {
                query.push((key, tags.join(",")));
            }
        }
    }
}

/// The value under one key of an answer. Other keys are ignored.
pub(crate) struct Keyed<T> {
    pub(crate) key: &'static str,
    pub(crate) value: PhantomData<T>,
}

/// What [`Keyed`] found.
pub(crate) struct Found<T> {
    pub(crate) value: T,
    /// Whether there are more pages, as a `<key>_links` entry with `rel: next` or Glance's `next` shows.
    pub(crate) more: bool,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    rel: Option<String>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Keyed<T> {
    type Value = Found<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found<T>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Keyed<T> {
    type Value = Found<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the key `{}`", self.key)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<T>, A::Error> {
        let mut value = None;
        let mut more = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.key {
                if value.is_some() {
                    return Err(serde::de::Error::duplicate_field(self.key));
                }
                value = Some(map.next_value()?);
            } else if key.strip_suffix("_links") == Some(self.key) {
                let links: Option<Vec<Link>> = map.next_value()?;
                more |= links
                    .unwrap_or_default()
                    .iter()
                    .any(|link| link.rel.as_deref() == Some("next"));
            } else if key == "next" {
                more |= map.next_value::<Option<String>>()?.is_some();
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let value = value.ok_or_else(|| serde::de::Error::missing_field(self.key))?;
        Ok(Found { value, more })
    }
}

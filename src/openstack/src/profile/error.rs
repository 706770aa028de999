//! The errors of a Secret that can't be read as a profile.

use crate::send::error_text;

/// The error of a Secret that can't be read as a profile. The text names the field, the value found and the values
/// allowed, and never a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The Secret lacks `clouds.yaml`.
    #[error("the Secret has no key `clouds.yaml`{}", listed(found, "it has"))]
    NoCloudsYaml {
        /// The keys it has.
        found: Vec<String>,
    },
    /// The value is larger than the limit.
    #[error("`{key}` has {found} bytes; at most {limit} are read")]
    TooLarge {
        /// The key of the Secret.
        key: &'static str,
        /// Its size in bytes.
        found: usize,
        /// The largest size that is read.
        limit: usize,
    },
    /// The value is not UTF-8.
    #[error("`{key}` is not UTF-8 text")]
    NotText {
        /// The key of the Secret.
        key: &'static str,
    },
    /// The value is not valid YAML for a clouds.yaml.
    #[error("`clouds.yaml` can't be read: {problem}")]
    Malformed {
        /// The place and the kind of the error, without the surrounding text.
        problem: String,
    },
    /// There is no cloud of this name.
    #[error("`clouds.yaml` has no cloud `{wanted}`{}", listed(found, "it has"))]
    UnknownCloud {
        /// The name in the identityRef.
        wanted: String,
        /// The names that exist.
        found: Vec<String>,
    },
    /// A field is missing.
    #[error("clouds.{cloud}.{field} is missing: {why}")]
    Missing {
        /// The cloud's name.
        cloud: String,
        /// The field.
        field: &'static str,
        /// The setting that needs the field, or the fields that could replace it.
        why: &'static str,
    },
    /// A field has a value that can't be used.
    #[error("clouds.{cloud}.{field} is `{found}`; allowed: {allowed}")]
    Refused {
        /// The cloud's name.
        cloud: String,
        /// The field.
        field: &'static str,
        /// The value.
        found: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// The HTTP library can't be set up.
    #[error("no HTTP client can be made: are there system certificates?")]
    NoHttpClient,
    /// The certificate authorities can't be read. The system's authorities do not replace them.
    #[error("`cacert` is not a list of PEM certificates: {problem}")]
    BadAuthorities {
        /// The error.
        problem: String,
    },
}

fn listed(names: &[String], introduction: &str) -> String {
    /// The most names that are listed. A longer list would not help the reader.
    const MOST: usize = 20;
    if names.is_empty() {
        return String::new();
    }
    let more = if names.len() > MOST { ", …" } else { "" };
    let shown: Vec<_> = names
        .iter()
        .take(MOST)
        .map(|name| format!("`{}`", error_text::stable(name)))
        .collect();
    format!("; {introduction} {}{more}", shown.join(", "))
}

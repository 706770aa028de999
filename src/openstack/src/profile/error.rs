//! Why a Secret gives no profile.

use crate::send::error_text;

/// Why a Secret gives no profile. The text names the field, what was found and what is allowed, and
/// never a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The Secret lacks `clouds.yaml`.
    #[error("the Secret has no key `clouds.yaml`{}", listed(found, "it has"))]
    NoCloudsYaml {
        /// The keys it has.
        found: Vec<String>,
    },
    /// Larger than anyone's clouds.yaml.
    #[error("`{key}` has {found} bytes; at most {limit} are read")]
    TooLarge {
        /// The key of the Secret.
        key: &'static str,
        /// Its size in bytes.
        found: usize,
        /// The largest size that is read.
        limit: usize,
    },
    /// Not text.
    #[error("`{key}` is not UTF-8 text")]
    NotText {
        /// The key of the Secret.
        key: &'static str,
    },
    /// Not the YAML that it should be.
    #[error("`clouds.yaml` can't be read: {problem}")]
    Malformed {
        /// Where and in which way, without the text around it.
        problem: String,
    },
    /// No cloud of this name.
    #[error("`clouds.yaml` has no cloud `{wanted}`{}", listed(found, "it has"))]
    UnknownCloud {
        /// The name in the identityRef.
        wanted: String,
        /// The names there are.
        found: Vec<String>,
    },
    /// A field is needed.
    #[error("clouds.{cloud}.{field} is missing: {why}")]
    Missing {
        /// The cloud's name.
        cloud: String,
        /// The field.
        field: &'static str,
        /// What it is needed for, or which others would do.
        why: &'static str,
    },
    /// A field has a value that can't be used.
    #[error("clouds.{cloud}.{field} is `{found}`; allowed: {allowed}")]
    Refused {
        /// The cloud's name.
        cloud: String,
        /// The field.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it may say.
        allowed: &'static str,
    },
    /// The HTTP library can't be set up.
    #[error("no HTTP client can be made: are there system certificates?")]
    NoHttpClient,
    /// The authorities can't be read. They are never replaced by the system's in silence.
    #[error("`cacert` is not a list of PEM certificates: {problem}")]
    BadAuthorities {
        /// In which way.
        problem: String,
    },
}

fn listed(names: &[String], introduction: &str) -> String {
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

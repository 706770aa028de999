//! How to reach and sign in to one cloud, from the Secret that an identityRef names.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
};

use k8s_openapi::ByteString;
use reqwest::Certificate;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use url::Url;

use super::clouds_yaml;

/// Which endpoint of a service to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interface {
    /// The public one; the default.
    #[default]
    Public,
    /// The internal one.
    Internal,
    /// The admin one.
    Admin,
}

impl Interface {
    /// As the catalogue writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// Everything that decides which cloud is called and as whom. Two profiles are equal if all of it is,
/// secrets and certificates included. Its `Debug` shows no secret.
#[derive(Clone)]
pub struct CloudProfile {
    pub(crate) name: String,
    /// Ends with `/v3`.
    pub(crate) auth_url: Url,
    pub(crate) credential: Credential,
    pub(crate) region: Option<String>,
    pub(crate) interface: Interface,
    pub(crate) verify: bool,
    /// PEM of the authorities to trust instead of the system's.
    pub(crate) authorities: Option<String>,
    pub(crate) remarks: Vec<String>,
}

/// How to sign in.
#[derive(Clone)]
pub(crate) enum Credential {
    Password {
        user: Named,
        password: SecretString,
        project: Named,
    },
    Token {
        token: SecretString,
        project: Named,
    },
    Application {
        name: ApplicationCredentialName,
        secret: SecretString,
    },
}

/// A user or project: by id, or by name within a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Id(String),
    Name { name: String, domain: Domain },
}

/// A domain by id or name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Domain {
    Id(String),
    Name(String),
}

/// An application credential: by id, or by name and user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ApplicationCredentialName {
    Id(String),
    OfUser { name: String, user: Named },
}

/// Why a Secret gives no profile. The text names the field, what was found and what is allowed, and
/// never a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
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
        .map(|name| format!("`{}`", super::error_text::stable(name)))
        .collect();
    format!("; {introduction} {}{more}", shown.join(", "))
}

fn clouds_yaml_of(data: &BTreeMap<String, ByteString>) -> Result<&[u8], ProfileError> {
    let yaml = data.get("clouds.yaml").map(|yaml| yaml.0.as_slice());
    yaml.ok_or_else(|| ProfileError::NoCloudsYaml {
        found: data.keys().cloned().collect(),
    })
}

const LARGEST_AUTHORITIES: usize = 512 * 1024;

impl CloudProfile {
    /// Reads the profile of `cloud_name` from a Secret's `clouds.yaml` and `cacert`. `region`, from the
    /// identityRef, goes before `region_name`. File paths and the environment are never read; what is
    /// there and ignored is in [`CloudProfile::remarks`].
    pub fn from_secret(
        data: &BTreeMap<String, ByteString>,
        cloud_name: &str,
        region: Option<&str>,
    ) -> Result<Self, ProfileError> {
        let mut profile = clouds_yaml::read(clouds_yaml_of(data)?, cloud_name)?;
        if let Some(region) = region.filter(|region| !region.is_empty()) {
            profile.region = Some(region.to_owned());
        }
        if let Some(pem) = data.get("cacert").filter(|pem| !pem.0.is_empty()) {
            profile.authorities = Some(authorities(&pem.0)?);
        }
        Ok(profile)
    }

    /// Whether a Secret has a `clouds.yaml` with at least one entry that [`CloudProfile::from_secret`]
    /// takes. The error is that of the first entry.
    pub fn check_secret(data: &BTreeMap<String, ByteString>) -> Result<(), ProfileError> {
        let yaml = clouds_yaml_of(data)?;
        let mut refused = None;
        for name in clouds_yaml::names(yaml)? {
            match Self::from_secret(data, &name, None) {
                Ok(_) => return Ok(()),
                Err(problem) => refused = refused.or(Some(problem)),
            }
        }
        Err(refused.unwrap_or_else(|| ProfileError::Malformed {
            problem: "it names no cloud under `clouds`".to_owned(),
        }))
    }

    /// The cloud's name in its clouds.yaml.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The region, if one was given.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Where to sign in; has no secret.
    pub fn auth_url(&self) -> &Url {
        &self.auth_url
    }

    /// False when certificates are not checked (`verify: false`).
    pub fn verifies_certificates(&self) -> bool {
        self.verify
    }

    /// What the clouds.yaml says and we ignore, in words for an event or a log.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What decides the sign-in: all but region, interface and names.
    fn same_account(&self, other: &Self) -> bool {
        self.auth_url == other.auth_url
            && self.verify == other.verify
            && self.authorities == other.authorities
            && self.credential == other.credential
    }
}

/// Checks `pem` and returns it as text.
pub(crate) fn authorities(pem: &[u8]) -> Result<String, ProfileError> {
    if pem.len() > LARGEST_AUTHORITIES {
        return Err(ProfileError::TooLarge {
            key: "cacert",
            found: pem.len(),
            limit: LARGEST_AUTHORITIES,
        });
    }
    let text = std::str::from_utf8(pem).map_err(|_| ProfileError::NotText { key: "cacert" })?;
    certificates(text)?;
    Ok(text.to_owned())
}

/// The certificates in `pem`: at least one, and each one readable.
pub(crate) fn certificates(pem: &str) -> Result<Vec<Certificate>, ProfileError> {
    let bad = |problem: String| ProfileError::BadAuthorities { problem };
    let mut roots = rustls::RootCertStore::empty();
    let mut certificates = Vec::new();
    for (index, item) in CertificateDer::pem_slice_iter(pem.as_bytes()).enumerate() {
        let der = item.map_err(|_| bad(format!("block {} is not valid PEM", index + 1)))?;
        let unreadable = || bad(format!("certificate {} can't be read", index + 1));
        roots.add(der.clone()).map_err(|_| unreadable())?;
        certificates.push(Certificate::from_der(&der).map_err(|_| unreadable())?);
    }
    if certificates.is_empty() {
        return Err(bad("it has no CERTIFICATE block".to_owned()));
    }
    Ok(certificates)
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &SecretString, b: &SecretString| a.expose_secret() == b.expose_secret();
        match (self, other) {
            (
                Self::Password {
                    user,
                    password,
                    project,
                },
                Self::Password {
                    user: other_user,
                    password: other_password,
                    project: other_project,
                },
            ) => user == other_user && project == other_project && same(password, other_password),
            (
                Self::Token { token, project },
                Self::Token {
                    token: other_token,
                    project: other_project,
                },
            ) => project == other_project && same(token, other_token),
            (
                Self::Application { name, secret },
                Self::Application {
                    name: other_name,
                    secret: other_secret,
                },
            ) => name == other_name && same(secret, other_secret),
            _ => false,
        }
    }
}

impl Eq for Credential {}

impl PartialEq for CloudProfile {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.region == other.region
            && self.interface == other.interface
            && self.remarks == other.remarks
            && self.same_account(other)
    }
}

impl Eq for CloudProfile {}

/// Hashes what is not secret; equality looks at everything.
impl Hash for CloudProfile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.auth_url.hash(state);
        self.region.hash(state);
        self.name.hash(state);
        match &self.credential {
            Credential::Password { user, project, .. } => (user, project).hash(state),
            Credential::Token { project, .. } => project.hash(state),
            Credential::Application { name, .. } => name.hash(state),
        }
    }
}

impl fmt::Debug for CloudProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudProfile")
            .field("name", &self.name)
            .field("auth_url", &self.auth_url.as_str())
            .field("region", &self.region)
            .field("interface", &self.interface)
            .finish_non_exhaustive()
    }
}

/// The part of a profile that decides the sign-in, as a key.
#[derive(Clone)]
pub(crate) struct AccountKey(pub(crate) CloudProfile);

impl PartialEq for AccountKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_account(&other.0)
    }
}

impl Eq for AccountKey {}

impl Hash for AccountKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.auth_url.hash(state);
    }
}

/// The part of a profile that decides the request budgets, as a key: the account and the region.
#[derive(Clone)]
pub(crate) struct BudgetKey(pub(crate) CloudProfile);

impl PartialEq for BudgetKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.auth_url == other.0.auth_url
            && self.0.region == other.0.region
            && self.0.credential == other.0.credential
    }
}

impl Eq for BudgetKey {}

impl Hash for BudgetKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.auth_url.hash(state);
        self.0.region.hash(state);
    }
}

#[cfg(test)]
mod tests;

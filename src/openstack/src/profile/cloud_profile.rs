//! The address of one cloud and the credentials for it.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use url::Url;

use crate::profile::credential::Credential;

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
    /// The name in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// All settings that identify a cloud and the credential for it. Two profiles are equal if all of their fields are,
/// secrets and certificates included. The `Debug` output shows no secret.
#[derive(Clone)]
pub struct CloudProfile {
    pub(crate) name: String,
    /// Ends with `/v3`.
    pub(crate) auth_url: Url,
    pub(crate) credential: Credential,
    pub(crate) region: Option<String>,
    pub(crate) interface: Interface,
    pub(crate) verify: bool,
    /// The certificate authorities, in PEM, that are trusted instead of the system's.
    pub(crate) authorities: Option<String>,
    pub(crate) remarks: Vec<String>,
}

impl CloudProfile {
    /// The cloud's name in its clouds.yaml.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The region, if one was given.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// The interface of the endpoints that are called.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// Keystone's address; it holds no secret.
    pub fn auth_url(&self) -> &Url {
        &self.auth_url
    }

    /// The ignored settings of the clouds.yaml, as messages for an event or a log.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The fields on which the sign-in depends: all except region, interface and names.
    fn same_credential(&self, other: &Self) -> bool {
        self.auth_url == other.auth_url
            && self.verify == other.verify
            && self.authorities == other.authorities
            && self.credential == other.credential
    }
}

impl PartialEq for CloudProfile {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.region == other.region
            && self.interface == other.interface
            && self.remarks == other.remarks
            && self.same_credential(other)
    }
}

impl Eq for CloudProfile {}

/// Hashes the fields that are not secret. Equality compares all of them.
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

/// The key of a token source: the part of a profile on which the sign-in depends.
#[derive(Clone)]
pub(crate) struct CredentialKey(pub(crate) CloudProfile);

impl PartialEq for CredentialKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_credential(&other.0)
    }
}

impl Eq for CredentialKey {}

impl Hash for CredentialKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.auth_url.hash(state);
    }
}

/// The key of the request budgets: the credential and the region of a profile.
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

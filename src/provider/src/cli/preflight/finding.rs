//! What a finding is: about which object, how much it matters, and its text.

use std::fmt;

use serde::{Serialize, Serializer};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Level {
    /// Worth knowing.
    Note,
    /// To be changed before capo-rs takes over.
    Problem,
    /// It could not be read, so that nothing is known.
    Unknown,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    ClusterApiTooOld,
    CertManagerMissing,
    StoredVersions,
    ManagerArguments,
    IdentityOpenToEveryNamespace,
    EndpointInterface,
    SettingIgnored,
    RegionMissing,
    NotSupported,
    InvalidSpec,
    ChangesPlanned,
    NotJudged,
    CloudUnreadable,
    QuotaExhausted,
    QuotaUnknown,
    LoadBalancerProvider,
    OctaviaTooOld,
    EndpointUnreachable,
}

impl Code {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ClusterApiTooOld => "ClusterApiTooOld",
            Self::CertManagerMissing => "CertManagerMissing",
            Self::StoredVersions => "StoredVersions",
            Self::ManagerArguments => "ManagerArguments",
            Self::IdentityOpenToEveryNamespace => "IdentityOpenToEveryNamespace",
            Self::EndpointInterface => "EndpointInterface",
            Self::SettingIgnored => "SettingIgnored",
            Self::RegionMissing => "RegionMissing",
            Self::NotSupported => "NotSupported",
            Self::InvalidSpec => "InvalidSpec",
            Self::ChangesPlanned => "ChangesPlanned",
            Self::NotJudged => "NotJudged",
            Self::CloudUnreadable => "CloudUnreadable",
            Self::QuotaExhausted => "QuotaExhausted",
            Self::QuotaUnknown => "QuotaUnknown",
            Self::LoadBalancerProvider => "LoadBalancerProvider",
            Self::OctaviaTooOld => "OctaviaTooOld",
            Self::EndpointUnreachable => "EndpointUnreachable",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The object that it is about.
    pub(super) about: String,
    pub(super) level: Level,
    pub(super) code: Code,
    pub(super) message: String,
}

/// Collects the findings about one object.
pub(super) struct About<'a>(String, &'a mut Vec<Finding>);

impl<'a> About<'a> {
    /// The object of this name.
    pub(super) fn object(name: String, findings: &'a mut Vec<Finding>) -> Self {
        Self(name, findings)
    }

    /// What concerns the whole installation.
    pub(super) fn installation(findings: &'a mut Vec<Finding>) -> Self {
        Self("Installation".to_owned(), findings)
    }

    pub(super) fn find(&mut self, level: Level, code: Code, message: impl fmt::Display) {
        self.1.push(Finding {
            about: self.0.clone(),
            level,
            code,
            message: message.to_string(),
        });
    }
}

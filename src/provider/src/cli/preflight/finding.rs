//! A finding: the object it is about, how much it matters, and its text.

use std::fmt;

use capo_core::label_enum;
use serde::{Serialize, Serializer};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Level {
    /// Worth knowing, but no problem.
    Note,
    /// Something to change before capo-rs takes over.
    Problem,
    /// Something that could not be read, so nothing is known about it.
    Unknown,
}

label_enum! {
    /// What was found.
    pub(super) enum Code {
        ClusterApiTooOld = "ClusterApiTooOld",
        CertManagerMissing = "CertManagerMissing",
        StoredVersions = "StoredVersions",
        ManagerArguments = "ManagerArguments",
        IdentityOpenToEveryNamespace = "IdentityOpenToEveryNamespace",
        EndpointInterface = "EndpointInterface",
        SettingIgnored = "SettingIgnored",
        RegionMissing = "RegionMissing",
        NotSupported = "NotSupported",
        InvalidSpec = "InvalidSpec",
        ChangesPlanned = "ChangesPlanned",
        NotJudged = "NotJudged",
        CloudUnreadable = "CloudUnreadable",
        QuotaExhausted = "QuotaExhausted",
        QuotaUnknown = "QuotaUnknown",
        LoadBalancerProvider = "LoadBalancerProvider",
        OctaviaTooOld = "OctaviaTooOld",
        EndpointUnreachable = "EndpointUnreachable",
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

    /// The findings about the installation as a whole.
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

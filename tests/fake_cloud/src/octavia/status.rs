//! The two statuses of all objects in Octavia.

use serde::{Deserialize, Serialize};

/// `provisioning_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Provisioning {
    /// The last change is done.
    Active,
    /// Being created.
    PendingCreate,
    /// Being changed, or locked by a change below.
    PendingUpdate,
    /// Being deleted.
    PendingDelete,
    /// The last change failed.
    Error,
    /// Deleted, as some drivers report it for a while.
    Deleted,
}

impl Provisioning {
    /// As the API writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::PendingCreate => "PENDING_CREATE",
            Self::PendingUpdate => "PENDING_UPDATE",
            Self::PendingDelete => "PENDING_DELETE",
            Self::Error => "ERROR",
            Self::Deleted => "DELETED",
        }
    }
}

/// `operating_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Operating {
    /// It serves.
    Online,
    /// It has had no report so far, or is switched off.
    Offline,
    /// Some of its parts are in error.
    Degraded,
    /// Its checks fail.
    Error,
    /// Weight 0.
    Draining,
    /// It has no monitor.
    NoMonitor,
}

impl Operating {
    /// As the API writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Offline => "OFFLINE",
            Self::Degraded => "DEGRADED",
            Self::Error => "ERROR",
            Self::Draining => "DRAINING",
            Self::NoMonitor => "NO_MONITOR",
        }
    }
}

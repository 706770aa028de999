//! A listener, a pool or a health monitor as last read, and the consecutive reads that show that its operation was
//! lost.

use std::time::{Duration, Instant};

use crate::model::clock::Stamp;
use capo_core::{
    ProvisioningStatus,
    ids::{ListenerId, MonitorId, PoolId},
    label_enum,
};

label_enum! {
    /// The kinds of parts of a port, from the outside in, as Octavia calls them.
    pub enum PartKind, all {
        /// The listener.
        Listener = "listener",
        /// The pool.
        Pool = "pool",
        /// The health monitor.
        Monitor = "health monitor",
    }
}

/// Octavia's id of a listener, pool or health monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartId {
    /// A listener's id.
    Listener(ListenerId),
    /// A pool's id.
    Pool(PoolId),
    /// A health monitor's id.
    Monitor(MonitorId),
}

impl PartId {
    /// The kind of the part.
    pub(crate) fn kind(&self) -> PartKind {
        match self {
            Self::Listener(_) => PartKind::Listener,
            Self::Pool(_) => PartKind::Pool,
            Self::Monitor(_) => PartKind::Monitor,
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Listener(id) => id.as_str(),
            Self::Pool(id) => id.as_str(),
            Self::Monitor(id) => id.as_str(),
        }
    }
}

/// A listener, pool or monitor as last read.
#[derive(Debug, Clone)]
pub(crate) struct Part<Id> {
    pub(crate) id: Id,
    pub(crate) state: PartState,
}

/// The status of a listener, pool or monitor.
#[derive(Debug, Clone)]
pub(crate) struct PartState {
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) since: Stamp,
    /// The unbroken series of reads that showed it PENDING although its load balancer was ACTIVE.
    pub(crate) pending_reads: ConsecutiveReads,
}

/// The consecutive reads that showed the same thing, such as PENDING although no operation can be under way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConsecutiveReads {
    pub(crate) first: Option<Instant>,
    pub(crate) reads: u32,
    pub(crate) last: Option<Instant>,
}

impl ConsecutiveReads {
    pub(crate) fn record(&mut self, is_shown: bool, began: Instant) {
        if is_shown {
            self.first.get_or_insert(began);
            self.last = Some(began);
            self.reads = self.reads.saturating_add(1);
        } else {
            *self = Self::default();
        }
    }

    /// Whether at least this many reads were recorded, the last of them `span` after the first.
    pub(crate) fn spans(&self, reads: u32, span: Duration) -> bool {
        match (self.first, self.last) {
            (Some(first), Some(last)) => {
                self.reads >= reads && last.saturating_duration_since(first) >= span
            }
            _ => false,
        }
    }
}

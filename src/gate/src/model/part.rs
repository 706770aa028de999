//! A listener, a pool or a health monitor, and how long it or a member has been lost.

use std::time::{Duration, Instant};

use crate::model::clock::Stamp;
use capo_core::{
    ProvisioningStatus,
    ids::{ListenerId, MonitorId, PoolId},
    label_enum,
};

label_enum! {
    /// A part of a port's structure, from the outside in, as Octavia calls it.
    pub enum PartKind, all {
        /// The listener.
        Listener = "listener",
        /// The pool.
        Pool = "pool",
        /// The health monitor.
        Monitor = "health monitor",
    }
}

/// Octavia's id of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartId {
    /// Of a listener.
    Listener(ListenerId),
    /// Of a pool.
    Pool(PoolId),
    /// Of a health monitor.
    Monitor(MonitorId),
}

impl PartId {
    /// What the part is.
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
    pub(crate) lost: ConsecutiveReads,
}

/// Reads in a row that showed one thing, such as PENDING though nothing can be under way.
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

    /// Three reads or more, over this span.
    pub(crate) fn spans(&self, span: Duration) -> bool {
        match (self.first, self.last) {
            (Some(first), Some(last)) => {
                self.reads >= 3 && last.saturating_duration_since(first) >= span
            }
            _ => false,
        }
    }
}

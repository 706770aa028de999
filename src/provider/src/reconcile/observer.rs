//! What the controllers report to the metrics.

use std::{sync::Arc, time::Duration};

use kube::runtime::watcher;

use super::QueueMetrics;
use capo_core::Reason;

/// Told of passes, watches and events; implemented by the metrics. Every method does nothing by default.
pub trait Observer: Send + Sync {
    /// A controller starts, with so many passes at once at most; `queue` tells at any time what waits and
    /// what is under way.
    fn controller(&self, name: &'static str, workers: u16, queue: Arc<QueueMetrics>) {
        let _ = (name, workers, queue);
    }

    /// A pass of `controller` began; its object had waited for so long.
    fn pass_began(&self, controller: &'static str, waited: Duration) {
        let _ = (controller, waited);
    }

    /// A pass of `controller` ended as `outcome` ([`super::Outcome::label`]) after `duration`.
    fn pass(&self, controller: &'static str, outcome: &'static str, duration: Duration) {
        let _ = (controller, outcome, duration);
    }

    /// A pass of `controller` panicked.
    fn pass_panicked(&self, controller: &'static str) {
        let _ = controller;
    }

    /// A watch of `kind` starts; `objects` counts what it knows of.
    fn watching(&self, kind: &str, objects: Box<dyn Fn() -> usize + Send + Sync>) {
        let _ = (kind, objects);
    }

    /// A watch told of a change.
    fn watched(&self, kind: &str) {
        let _ = kind;
    }

    /// A watch broke and is begun anew.
    fn watch_broke(&self, kind: &str, why: WatchBreak) {
        let _ = (kind, why);
    }

    /// An event was handed over to be written; `kind` is Normal or Warning.
    fn event(&self, reason: Reason, kind: &'static str) {
        let _ = (reason, kind);
    }
}

/// For processes without metrics.
impl Observer for () {}

/// Why a watch broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchBreak {
    /// Listing failed.
    List,
    /// The watch could not be begun.
    Start,
    /// The API server does not know any more what happened since: 410.
    Expired,
    /// An error in the stream, or its end in the middle.
    Stream,
}

impl WatchBreak {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::List, Self::Start, Self::Expired, Self::Stream];

    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Start => "start",
            Self::Expired => "expired",
            Self::Stream => "stream",
        }
    }
}

impl From<&watcher::Error> for WatchBreak {
    fn from(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(_) => Self::List,
            watcher::Error::WatchStartFailed(_) => Self::Start,
            watcher::Error::WatchError(status) if status.code == 410 => Self::Expired,
            _ => Self::Stream,
        }
    }
}

//! The trait by which the controllers report to the metrics.

use std::{sync::Arc, time::Duration};

use kube::runtime::watcher;

use super::{Outcome, PassResult, QueueMetrics};
use crate::subject::Subject;
use capo_core::{Reason, label_enum};

/// Receives passes, watches and events. The metrics implement it. Every method does nothing by default.
pub trait PassObserver: Send + Sync {
    /// A controller starts, with at most `workers` passes at the same time. `queue` has the present numbers of waiting
    /// and running passes.
    fn controller(&self, name: &'static str, workers: u16, queue: Arc<QueueMetrics>) {
        let _ = (name, workers, queue);
    }

    /// A pass of `controller` began, after its object had waited for `waited`.
    fn pass_began(&self, controller: &'static str, waited: Duration) {
        let _ = (controller, waited);
    }

    /// A pass of `controller` ended with `result` after `duration`.
    fn pass(&self, controller: &'static str, result: PassResult, duration: Duration) {
        let _ = (controller, result, duration);
    }

    /// A pass over `object` ended as `outcome`.
    fn pass_over(&self, object: &Subject, outcome: &Outcome) {
        let _ = (object, outcome);
    }

    /// A pass of `controller` panicked.
    fn pass_panicked(&self, controller: &'static str) {
        let _ = controller;
    }

    /// A watch of `kind` starts; `objects` returns the number of objects in its store.
    fn watching(&self, kind: &str, objects: Box<dyn Fn() -> usize + Send + Sync>) {
        let _ = (kind, objects);
    }

    /// A watch received a change.
    fn watched(&self, kind: &str) {
        let _ = kind;
    }

    /// A watch broke and is started again.
    fn watch_broke(&self, kind: &str, why: WatchBreak) {
        let _ = (kind, why);
    }

    /// An event was queued; `kind` is Normal or Warning.
    fn event(&self, reason: Reason, kind: &'static str) {
        let _ = (reason, kind);
    }
}

/// The observer of processes without metrics.
impl PassObserver for () {}

label_enum! {
    /// Why a watch broke, as metrics name it.
    pub enum WatchBreak, all {
        /// Listing failed.
        List = "list",
        /// The watch could not be started.
        Start = "start",
        /// The API server does not have the changes since the last event any more (status 410).
        Expired = "expired",
        /// The stream had an error, or ended early.
        Stream = "stream",
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

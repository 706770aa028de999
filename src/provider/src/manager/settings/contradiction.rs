//! Flags that contradict each other.

use std::time::Duration;

use crate::webhooks::storage_migration::UnknownPhase;

/// A value that is allowed alone, but not together with the others; the text names the flags and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The leader must notice that it lost the lease before another process may take it.
    #[error(
        "--leader-elect-renew-deadline is {deadline:?}: it must be shorter than --leader-elect-lease-duration, {lease:?}"
    )]
    RenewDeadline {
        /// As set.
        deadline: Duration,
        /// As set.
        lease: Duration,
    },
    /// A renewal must be tried at least once before the deadline.
    #[error(
        "--leader-elect-retry-period is {period:?}: it must be above 0 and shorter than --leader-elect-renew-deadline, \
         {deadline:?}"
    )]
    RetryPeriod {
        /// As set.
        period: Duration,
        /// As set.
        deadline: Duration,
    },
    /// A member is reported first, then alerted about, then called stuck.
    #[error(
        "--member-warn-after is {warn:?}, --member-alert-after {alert:?} and --member-stuck-after {stuck:?}: none may be \
         shorter than the one before it"
    )]
    Thresholds {
        /// As set.
        warn: Duration,
        /// As set.
        alert: Duration,
        /// As set.
        stuck: Duration,
    },
    /// The drain of a member freezes its control plane.
    #[error(
        "--member-drain-grace is {grace:?}: it must be at most {longest:?}, because a deletion waits that long"
    )]
    DrainGrace {
        /// As set.
        grace: Duration,
        /// The longest allowed.
        longest: Duration,
    },
    /// A duration that may not be 0.
    #[error("{0} is 0: it must be above 0")]
    Zero(&'static str),
    /// A phase of the storage migration that does not exist.
    #[error("--skip-crd-migration-phases: {0}")]
    Phase(#[from] UnknownPhase),
}

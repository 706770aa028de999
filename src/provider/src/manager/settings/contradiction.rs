//! Flags that contradict each other.

use std::time::Duration;

use crate::storage_migration::plan::UnknownPhase;

/// A value that is allowed by itself, but not together with the others. The text names the flags and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The leader must notice the loss of its lease before another process may take it.
    #[error(
        "--leader-elect-renew-deadline is {deadline:?}: it must be shorter than --leader-elect-lease-duration, {lease:?}"
    )]
    RenewDeadline {
        /// The value of the flag.
        deadline: Duration,
        /// The value of the flag.
        lease: Duration,
    },
    /// A renewal must be tried at least once before the deadline.
    #[error(
        "--leader-elect-retry-period is {period:?}: it must be above 0 and shorter than --leader-elect-renew-deadline, \
         {deadline:?}"
    )]
    RetryPeriod {
        /// The value of the flag.
        period: Duration,
        /// The value of the flag.
        deadline: Duration,
    },
    /// The thresholds must follow each other: a pending member is first reported, then causes an alert, then counts as
    /// stuck.
    #[error(
        "--member-warn-after is {warn:?}, --member-alert-after {alert:?} and --member-stuck-after {stuck:?}: none may be \
         shorter than the one before it"
    )]
    Thresholds {
        /// The value of the flag.
        warn: Duration,
        /// The value of the flag.
        alert: Duration,
        /// The value of the flag.
        stuck: Duration,
    },
    /// While a member is drained, KubeadmControlPlane changes nothing else in its control plane.
    #[error(
        "--member-drain-grace is {grace:?}: it must be at most {longest:?}, because a deletion waits that long"
    )]
    DrainGrace {
        /// The value of the flag.
        grace: Duration,
        /// The longest duration that is allowed.
        longest: Duration,
    },
    /// A duration that may not be 0.
    #[error("{0} is 0: it must be above 0")]
    Zero(&'static str),
    /// A phase of the storage migration that does not exist.
    #[error("--skip-crd-migration-phases: {0}")]
    Phase(#[from] UnknownPhase),
}

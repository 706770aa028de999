//! The events that the metrics count.

use std::time::Duration;

use crate::model::{call::Operation, decision::GateName};
use capo_core::{GateState, MemberStatus, Provider, Reason, label_enum};

/// An event to count. Its labels are those of the metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricEvent {
    /// A member changed its provisioning status between two reads.
    Transition {
        /// The provider of the load balancer.
        provider: Provider,
        /// The status before.
        from: MemberStatus,
        /// The status after.
        to: MemberStatus,
    },
    /// Octavia answered a member operation.
    Operation(Operation, OperationOutcome),
    /// A gate came to another decision than before.
    Decision(GateName, GateState, Reason),
    /// A gate held a machine for this long, and holds it no more.
    HoldEnded(GateName, Reason, Duration),
    /// A member was read ACTIVE for the first time, this long after its POST was sent.
    TimeToActive(Provider, Operation, Duration),
    /// A member was confirmed absent, this long after its DELETE was sent.
    TimeToRemoved(Provider, Duration),
    /// A read of the status tree ended: whether it succeeded, and how long it took.
    Read(bool, Duration),
}

/// Counts events. The metrics implement it.
pub trait GateObserver: Send + Sync + 'static {
    /// Counts `event`.
    fn record(&self, event: &MetricEvent);
}

/// Counts nothing, for callers without metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl GateObserver for Unobserved {
    fn record(&self, _: &MetricEvent) {}
}

label_enum! {
    /// How Octavia answered an operation, as metrics name it.
    pub enum OperationOutcome, all {
        /// Accepted.
        Success = "success",
        /// The load balancer was locked.
        Conflict = "conflict",
        /// The member existed already.
        Duplicate = "duplicate",
        /// Anything else.
        Error = "error",
    }
}

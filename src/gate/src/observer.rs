//! What the core tells whoever counts.

use std::time::Duration;

use capo_core::Reason;

/// Takes counts and durations; implemented by the metrics. Every method does nothing by default.
pub trait Observer: Send + Sync + 'static {
    /// A member's provisioning status changed between two reads. Names are Octavia's, or `Missing`, `Unknown`.
    fn transition(&self, provider: &'static str, from: &str, to: &str) {
        let _ = (provider, from, to);
    }
    /// A member operation was answered.
    fn operation(&self, operation: Operation, outcome: OperationOutcome) {
        let _ = (operation, outcome);
    }
    /// A gate's answer changed.
    fn decision(&self, gate: GateName, decision: Decision, reason: Reason) {
        let _ = (gate, decision, reason);
    }
    /// A hold ended after this long.
    fn hold_ended(&self, gate: GateName, reason: Reason, held: Duration) {
        let _ = (gate, reason, held);
    }
    /// A member was read ACTIVE for the first time, this long after its POST was sent.
    fn time_to_active(&self, provider: &'static str, operation: Operation, took: Duration) {
        let _ = (provider, operation, took);
    }
    /// A member was confirmed absent, this long after its DELETE was sent.
    fn time_to_removed(&self, provider: &'static str, took: Duration) {
        let _ = (provider, took);
    }
    /// A load balancer was read, or could not be.
    fn read(&self, succeeded: bool, took: Duration) {
        let _ = (succeeded, took);
    }
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Operations on members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// POST of a member that was not there.
    Create,
    /// DELETE.
    Delete,
    /// POST of a member that was deleted to be made anew.
    Replace,
    /// A member that was there already was taken as ours.
    Adopt,
    /// Weight 0.
    Drain,
    /// A drained member back to its weight.
    Restore,
    /// PUT of its own values.
    Repair,
    /// A member that joined admin-down gets traffic.
    Enable,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::Replace,
        Self::Adopt,
        Self::Drain,
        Self::Restore,
        Self::Repair,
        Self::Enable,
    ];

    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Replace => "replace",
            Self::Adopt => "adopt",
            Self::Drain => "drain",
            Self::Restore => "restore",
            Self::Repair => "repair",
            Self::Enable => "enable",
        }
    }
}

/// How an operation was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationOutcome {
    /// Accepted.
    Success,
    /// The load balancer was locked.
    Conflict,
    /// It was there already.
    Duplicate,
    /// Anything else.
    Error,
}

impl OperationOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Success, Self::Conflict, Self::Duplicate, Self::Error];

    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Conflict => "conflict",
            Self::Duplicate => "duplicate",
            Self::Error => "error",
        }
    }
}

/// The three gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateName {
    /// G1
    Admission,
    /// G2
    Release,
    /// G3
    Finalizer,
}

impl GateName {
    /// As metrics and the command line name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Release => "release",
            Self::Finalizer => "finalizer",
        }
    }
}

/// A gate's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Go ahead.
    Open,
    /// Go ahead, the operator says so.
    Bypassed,
    /// Not yet.
    Held,
}

impl Decision {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Bypassed => "Bypassed",
            Self::Held => "Held",
        }
    }
}

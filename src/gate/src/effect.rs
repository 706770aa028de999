//! What a task is to do.

use std::{net::IpAddr, time::Duration};

use super::{
    observer::{Decision, GateName, Observer, Operation, OperationOutcome},
    octavia::Change,
};
use capo_core::Priority;
use capo_core::{ObjectName, Reason};

/// Something to do. At most one [`Effect::Call`] is under way at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask Octavia and step with the answer.
    Call {
        /// Goes back with the answer.
        id: u64,
        /// What to ask.
        call: Call,
        /// Of which part of the budget.
        urgency: Priority,
    },
    /// Ask an API server for `/readyz` under the cluster's CA, and step with what came of it.
    Probe {
        /// The machine.
        machine: ObjectName,
        /// Its own address.
        address: IpAddr,
        /// The endpoint's port.
        port: u16,
    },
    /// Ask Kubernetes, uncached, whether a machine exists, and step with the answer.
    LookUp {
        /// Its name, in the cluster's namespace.
        machine: String,
    },
    /// Publish the findings.
    Publish,
    /// Count something.
    Record(Record),
}

/// A call to Octavia.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The status tree of the desired load balancer.
    Tree,
    /// Its listeners and pools, attached or not.
    Structure,
    /// The members of a pool.
    Members {
        /// The pool.
        pool: String,
    },
    /// A monitor's numbers.
    Monitor {
        /// The monitor.
        monitor: String,
    },
    /// A change. Boxed, because it is large and rare.
    Write(Box<Change>),
}

/// Something to count. Labels are as the metrics name them.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A member changed its provisioning status.
    Transition {
        /// The provider's label.
        provider: &'static str,
        /// From.
        from: String,
        /// To.
        to: String,
    },
    /// A member operation was answered.
    Operation(Operation, OperationOutcome),
    /// A gate's answer changed.
    Decision(GateName, Decision, Reason),
    /// A hold ended.
    HoldEnded(GateName, Reason, Duration),
    /// A member turned ACTIVE.
    TimeToActive(&'static str, Operation, Duration),
    /// A member is gone.
    TimeToRemoved(&'static str, Duration),
    /// A read of the tree ended.
    Read(bool, Duration),
}

impl Record {
    /// Tells who counts.
    pub fn tell(&self, observer: &dyn Observer) {
        match self {
            Self::Transition { provider, from, to } => observer.transition(provider, from, to),
            Self::Operation(operation, outcome) => observer.operation(*operation, *outcome),
            Self::Decision(gate, decision, reason) => observer.decision(*gate, *decision, *reason),
            Self::HoldEnded(gate, reason, held) => observer.hold_ended(*gate, *reason, *held),
            Self::TimeToActive(provider, operation, took) => {
                observer.time_to_active(provider, *operation, *took);
            }
            Self::TimeToRemoved(provider, took) => observer.time_to_removed(provider, *took),
            Self::Read(succeeded, took) => observer.read(*succeeded, *took),
        }
    }
}

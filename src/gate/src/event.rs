//! What a task learns, one thing at a time.

use std::time::Instant;

use ipnet::IpNet;

use super::{
    desired::{DesiredLoadBalancer, DesiredMachine, Monitor},
    effect::Call,
    observer::Operation,
    octavia::{Answer, Change, MemberDetail, Structure, Tree, Written},
};
use capo_core::ObjectName;

/// Something happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// Time passed, or a task begins.
    Tick,
    /// The cluster controller's word.
    LoadBalancer {
        /// There are usable credentials.
        credentials: bool,
        /// What is wanted.
        desired: Box<DesiredLoadBalancer>,
    },
    /// The machine controller's word; `None` when the machine is gone.
    Machine {
        /// The `OpenStackMachine`.
        name: ObjectName,
        /// What is wanted and known.
        desired: Option<Box<DesiredMachine>>,
    },
    /// Another cluster claims this load balancer, or does so no more.
    Claimed(Option<ObjectName>),
    /// The fleet grew large, or did shrink.
    LargeFleet(bool),
    /// Somebody wants a read soon.
    Nudged,
    /// A call was answered.
    Answered {
        /// The call's number.
        id: u64,
        /// What came.
        answer: Answered,
    },
    /// A probe ended.
    Probed {
        /// The machine.
        machine: ObjectName,
        /// When it began.
        began: Instant,
        /// What came of it.
        outcome: ProbeOutcome,
    },
    /// Kubernetes was asked whether a machine exists; `None` when it could not tell.
    LookedUp {
        /// The machine's name.
        machine: String,
        /// Whether it exists.
        exists: Option<bool>,
    },
}

/// An answer to a call.
#[derive(Debug, Clone)]
pub enum Answered {
    /// To a read of the tree.
    Tree(Answer<Tree>),
    /// To a list of the structure.
    Structure(Answer<Structure>),
    /// To a list of a pool's members.
    Members(Answer<Vec<MemberDetail>>),
    /// To a read of a monitor.
    Monitor(Answer<Monitor>),
    /// To a write.
    Written(Answer<Written>),
}

/// The one call under way.
#[derive(Debug, Clone)]
pub struct InFlight {
    pub(super) id: u64,
    pub(super) began: super::state::Stamp,
    pub(super) purpose: Purpose,
    pub(super) sets: Option<Sets>,
}

/// What a write sets that the tree does not show. What is wanted may be something else when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sets {
    /// A listener's source ranges.
    Cidrs(Option<Vec<IpNet>>),
    /// A monitor's numbers.
    Numbers(Monitor),
}

impl Sets {
    pub(super) fn of(call: &Call) -> Option<Self> {
        let Call::Write(change) = call else {
            return None;
        };
        match change.as_ref() {
            Change::CreateListener { allowed_cidrs, .. }
            | Change::UpdateListener { allowed_cidrs, .. } => {
                Some(Self::Cidrs(allowed_cidrs.clone()))
            }
            Change::CreateMonitor { numbers, .. } | Change::UpdateMonitor { numbers, .. } => {
                Some(Self::Numbers(*numbers))
            }
            _ => None,
        }
    }
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    Tree,
    Structure,
    Members(u16),
    Numbers(u16),
    Write(Write),
}

/// What a write is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// A listener, pool or monitor is made.
    MakePart { port: u16, part: PartKind },
    /// A pool is attached to its listener.
    Attach { port: u16 },
    /// A listener, pool or monitor is pushed again.
    RepairPart { port: u16, part: PartKind },
    /// A monitor gets its numbers.
    Numbers { port: u16 },
    /// A listener gets its source ranges.
    Cidrs { port: u16 },
    /// A machine's member.
    Member {
        machine: ObjectName,
        port: u16,
        operation: Operation,
    },
    /// A member of a machine that is gone is deleted.
    Prune { port: u16, machine: String },
}

/// A part of a port's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The listener.
    Listener,
    /// The pool.
    Pool,
    /// The health monitor.
    Monitor,
}

impl PartKind {
    /// As Octavia calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Pool => "pool",
            Self::Monitor => "health monitor",
        }
    }
}

/// What came of asking an API server for `/readyz` at its own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// 200
    Ready,
    /// 401 or 403, or any other answer that says nothing of readiness.
    Answered,
    /// 5xx
    NotReady,
    /// Something answered with another certificate than the cluster's.
    WrongCertificate,
    /// Nothing listens.
    Refused,
    /// No connection, for whatever reason: says nothing.
    NoConnection,
}

impl ProbeOutcome {
    /// Something was there.
    pub fn connected(self) -> bool {
        !matches!(self, Self::Refused | Self::NoConnection)
    }
}

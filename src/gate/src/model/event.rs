//! The events that a worker takes into its state, one at a time.

use std::time::Instant;

use crate::model::{
    desired::{DesiredLoadBalancer, DesiredMachine},
    octavia::{Answer, Structure, Written},
    proof::EndpointResult,
};
use capo_core::{
    ObjectName,
    octavia::{Member, MonitorNumbers, StatusTree},
};

/// Something happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// Time passed, or a worker has started.
    Tick,
    /// The cluster controller handed over its desired state.
    LoadBalancer {
        /// There are usable credentials.
        credentials: bool,
        /// What is wanted.
        desired: Box<DesiredLoadBalancer>,
    },
    /// The machine controller handed over its desired state; `None` when the machine is gone.
    Machine {
        /// The `OpenStackMachine`.
        name: ObjectName,
        /// What is wanted and known.
        desired: Option<Box<DesiredMachine>>,
    },
    /// Another cluster claims this load balancer, or stopped claiming it.
    Claimed(Option<ObjectName>),
    /// The number of load balancers has crossed the limit of a large fleet.
    LargeFleet(bool),
    /// A caller wants a read soon.
    Nudged,
    /// The first request of a call was sent; until then the call waited for the request budget.
    Sent {
        /// The call's number.
        id: u64,
        /// When it was sent.
        at: Instant,
    },
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
    /// A request through the endpoint ended.
    Replied {
        /// The request's number.
        id: u64,
        /// What came back.
        result: EndpointResult,
    },
    /// A lookup of whether a machine exists has ended.
    LookedUp {
        /// The machine's name.
        machine: String,
        /// Whether it exists; `None` where the lookup failed.
        exists: Option<bool>,
    },
}

/// An answer to a call.
#[derive(Debug, Clone)]
pub enum Answered {
    /// To a read of the tree.
    Tree(Answer<StatusTree>),
    /// To reads of the tree and of members that belong to one decision.
    Bundle {
        /// The tree.
        tree: Answer<StatusTree>,
        /// The members of each pool, by port.
        lists: Vec<(u16, Answer<Vec<Member>>)>,
    },
    /// To a list of the structure.
    Structure(Answer<Structure>),
    /// To a list of a pool's members.
    Members(Answer<Vec<Member>>),
    /// To a read of a monitor.
    Monitor(Answer<MonitorNumbers>),
    /// To a write.
    Written(Answer<Written>),
}

/// The outcome of a request for `/readyz` at an API server's own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// 200
    Ready,
    /// 401 or 403, or any other answer that does not show whether it is ready.
    Answered,
    /// 5xx
    NotReady,
    /// Something answered with another certificate than the cluster's.
    WrongCertificate,
    /// Nothing listens.
    Refused,
    /// There was no connection, which does not show whether the API server is up.
    NoConnection,
}

impl ProbeOutcome {
    /// An API server with a certificate of the cluster's CA answered.
    pub fn is_of_the_cluster(self) -> bool {
        matches!(self, Self::Ready | Self::Answered | Self::NotReady)
    }
}

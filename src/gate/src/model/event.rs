//! The events that a worker applies to its state, one at a time.

use std::time::Instant;

use crate::model::{
    desired::{DesiredMachine, LoadBalancerSpec},
    octavia::{Answer, ListenersAndPools, Written},
    proof::EndpointResult,
};
use capo_core::{
    ObjectName,
    octavia::{Member, MonitorParameters, StatusTree},
};

/// An event that may change the state of a load balancer's worker.
#[derive(Debug, Clone)]
pub enum Event {
    /// Time passed, or a worker has started.
    Tick,
    /// The cluster controller handed over its desired state.
    LoadBalancer {
        /// There are usable credentials.
        credentials: bool,
        /// The load balancer that the cluster controller wants, and the facts about the cluster.
        desired: Box<LoadBalancerSpec>,
    },
    /// The machine controller handed over its desired state; `None` when the machine is gone.
    Machine {
        /// The `OpenStackMachine`.
        name: ObjectName,
        /// What the machine controller wants for the machine, and knows of it.
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
        /// The answer.
        answer: Answered,
    },
    /// A request for `/readyz` at a machine's own address ended.
    Probed {
        /// The machine.
        machine: ObjectName,
        /// When the request began.
        began: Instant,
        /// The outcome.
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

/// The answer to a call, by the kind of the call.
#[derive(Debug, Clone)]
pub enum Answered {
    /// To a read of the tree.
    Tree(Answer<StatusTree>),
    /// To reads of the tree and of members that belong to one decision.
    TreeAndMembers {
        /// The tree.
        tree: Answer<StatusTree>,
        /// The members of each pool, by port.
        lists: Vec<(u16, Answer<Vec<Member>>)>,
    },
    /// To a list of listeners and pools.
    ListenersAndPools(Answer<ListenersAndPools>),
    /// To a list of a pool's members.
    Members(Answer<Vec<Member>>),
    /// To a read of a monitor.
    Monitor(Answer<MonitorParameters>),
    /// To a write.
    Written(Answer<Written>),
}

/// The outcome of a request for `/readyz` at an API server's own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The API server answered 200.
    Ready,
    /// The API server answered 401, 403 or another status that does not show whether it is ready.
    Answered,
    /// The API server answered with a status from 500 on.
    NotReady,
    /// The certificate that was presented is not signed by the cluster's CA.
    WrongCertificate,
    /// The connection was refused, because nothing listens.
    Refused,
    /// No connection was made, which does not show whether the API server is up.
    NoConnection,
}

impl ProbeOutcome {
    /// Whether a server with a certificate of the cluster's CA answered.
    pub fn is_of_the_cluster(self) -> bool {
        matches!(self, Self::Ready | Self::Answered | Self::NotReady)
    }
}

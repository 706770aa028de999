//! What the gates depend on where the API server is reached by a floating IP on one of the control-plane machines.

use std::{net::IpAddr, time::Instant};

use jiff::Timestamp;

use crate::model::decision::GateDecision;
use capo_core::{GateOverride, ObjectName, ids::ServerId};

/// A control-plane machine that has the floating IP, or could have it.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlPlaneMachine {
    /// The `OpenStackMachine`.
    pub name: ObjectName,
    /// Nova's id of its server, once that exists.
    pub server: Option<ServerId>,
    /// The addresses of its server.
    pub addresses: Vec<IpAddr>,
    /// When its `OpenStackMachine` was created.
    pub created: Option<Timestamp>,
    /// How far its deletion is.
    pub deletion: MachineDeletion,
    /// Whether its server was ACTIVE in the last read.
    pub is_active: bool,
    /// Whether its server was absent or SHUTOFF in reads that are at least `ObservedServer::DOWN_FOR` apart.
    pub is_down: bool,
    /// What Cluster API knows of its API server.
    pub api_server: ApiServer,
    /// The operator's annotation on its `OpenStackMachine`.
    pub gate_override: GateOverride,
}

/// How far the deletion of a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineDeletion {
    /// The machine is not being deleted.
    No,
    /// The machine is being deleted since this moment.
    Since(Timestamp),
    /// The Machine is being deleted and does not carry our hook: capo-rs has released the Machine, or a user has
    /// removed the hook.
    WithoutHook,
}

/// What Cluster API knows of the API server of a machine. The floating IP goes to the machine for which this is
/// greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiServer {
    /// The API server does not run.
    Down,
    /// Cluster API knows nothing of it, for example because its Node has not joined yet.
    Unknown,
    /// The API server runs, and its Node has joined.
    Serving,
}

impl ControlPlaneMachine {
    /// Whether the machine is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.deletion != MachineDeletion::No
    }
}

/// Where the floating IP is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// On no port, or on a port that a deleted machine of this cluster has left behind.
    Free,
    /// On this control-plane machine.
    Machine(ObjectName),
    /// On a port that is not a control-plane machine's.
    Other,
}

/// The outcome of a series of requests through the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProofOutcome {
    /// Every request was answered by an API server of this cluster other than the leaving machine's.
    Served,
    /// A request was not answered by such an API server.
    Failed {
        /// What came back.
        message: String,
        /// No API server answered, perhaps because this process does not reach the endpoint at all.
        is_unreachable: bool,
    },
}

/// The requests through the endpoint for one machine that is being deleted.
#[derive(Debug, Clone)]
pub struct MoveProof {
    /// The machine that is being deleted.
    pub leaving: ObjectName,
    /// The machine that has the floating IP.
    pub holder: ObjectName,
    /// Since when no request has been answered while the floating IP was on `holder`.
    pub since: Instant,
    /// The outcome of the requests; `None` while they are under way.
    pub outcome: Option<ProofOutcome>,
}

/// What the gates of one machine decide, and whether its server has to be read again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineDecision<'a> {
    pub(crate) machine: &'a ControlPlaneMachine,
    /// The decision of the gates `release` and `finalizer`.
    pub(crate) release: FloatingIpDecision<'a>,
    pub(crate) needs_server_read: bool,
}

/// The decision of the gates `release` and `finalizer`, which always decide the same here, without its messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FloatingIpDecision<'a> {
    /// The gates are not evaluated, or the decision is made as it is made for machines behind a load balancer.
    General(GateDecision),
    /// The gates do not hold the machine, for this cause.
    Open(OpenCause<'a>),
    /// The gates hold the machine, for this cause.
    Held(HoldCause<'a>),
}

/// Why the gates are open.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OpenCause<'a> {
    /// The Machine does not carry our hook any more.
    HookRemoved,
    /// The API server answers at the floating IP, which is on the machine `holder`.
    Served { holder: &'a ObjectName },
    /// The floating IP is on the machine `holder`. This process got no answer, for the reason `failure`, but Cluster
    /// API has reached the API server for long enough in that time.
    ReachedByClusterApi {
        holder: &'a ObjectName,
        failure: &'a str,
    },
}

/// Why the gates hold the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HoldCause<'a> {
    /// The floating IP is on this machine.
    OnThisMachine,
    /// The floating IP is on no control-plane machine.
    OnNoMachine,
    /// Another machine is released first.
    AnotherFirst,
    /// The floating IP is on the machine `holder`, and nothing holds the deletion of that machine any more.
    HolderLeaves { holder: &'a ObjectName },
    /// Requests through the endpoint are under way or have not begun.
    Requesting,
    /// The floating IP is on the machine `holder`, and no API server answers there, for the reason `failure`.
    NotServed {
        holder: &'a ObjectName,
        failure: &'a str,
    },
}

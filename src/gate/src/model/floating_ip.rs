//! What the gates depend on where the API server is reached by a floating IP on one of the control-plane machines.

use std::{net::IpAddr, time::Instant};

use jiff::Timestamp;

use capo_core::{GateOverride, ObjectName, ids::ServerId};

/// A control-plane machine that carries the floating IP, or could.
#[derive(Debug, Clone, PartialEq)]
pub struct Carrier {
    /// The `OpenStackMachine`.
    pub machine: ObjectName,
    /// Nova's id of its server, once that exists.
    pub server: Option<ServerId>,
    /// The addresses of its server.
    pub addresses: Vec<IpAddr>,
    /// When its `OpenStackMachine` was created.
    pub created: Option<Timestamp>,
    /// How far its deletion is.
    pub deletion: CarrierDeletion,
    /// Its server was ACTIVE in the last read.
    pub is_active: bool,
    /// Its server was absent or SHUTOFF in reads that are far enough apart.
    pub is_down: bool,
    /// What Cluster API knows of its API server.
    pub api_server: ApiServer,
    /// The operator's annotation on its `OpenStackMachine`.
    pub operator: GateOverride,
}

/// How far the deletion of a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarrierDeletion {
    /// It stays.
    No,
    /// It is being deleted.
    Since(Timestamp),
    /// Its Machine is being deleted and does not carry our hook: a user has removed it.
    WithoutHook,
}

/// What Cluster API knows of the API server of a machine. Of two machines the greater one gets the floating IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiServer {
    /// It does not run.
    Down,
    /// Nothing, because its Node has not joined yet, for example.
    Unknown,
    /// It runs, and its Node has joined.
    Serving,
}

impl Carrier {
    /// Whether it is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.deletion != CarrierDeletion::No
    }
}

/// Where the floating IP is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// On no port, or on one that a machine of this cluster left.
    Free,
    /// On this control-plane machine.
    Machine(ObjectName),
    /// On a port that is not a control-plane machine's.
    Other,
}

/// What came of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProofOutcome {
    /// All of them were answered by an API server of this cluster that is not the leaving one.
    Served,
    /// One was not.
    Failed {
        /// What came back.
        message: String,
        /// No API server answered, which may be due to this process being unable to reach the endpoint at all.
        is_unreachable: bool,
    },
}

/// The requests through the endpoint for one machine that is being deleted.
#[derive(Debug, Clone)]
pub struct CarrierProof {
    /// The machine that is being deleted.
    pub leaving: ObjectName,
    /// The machine that the floating IP is on.
    pub holder: ObjectName,
    /// When the first of the requests was made that have had no answer since, with the floating IP there.
    pub since: Instant,
    /// What came of them; `None` while they are under way.
    pub outcome: Option<ProofOutcome>,
}

//! What happened, from every side, in one order of time: the management API's objects, the cloud's rows and
//! calls, the API servers that were started and killed, the client's requests.
//!
//! [`Timeline`] is where everybody writes; [`management`] and [`cloud`] are the two that watch by themselves;
//! [`render`] prints it for whoever has to find out what went wrong.

pub mod cloud;
pub mod management;
pub mod render;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;

/// The clock of one timeline: time since its beginning.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begun: Instant,
    wall: Timestamp,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
            wall: Timestamp::now(),
        }
    }

    /// Time since the beginning.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A moment of the wall clock; zero for one before the beginning.
    pub fn at(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.wall)).unwrap_or_default()
    }
}

/// One thing that happened, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the timeline's beginning.
    pub at: Duration,
    /// What it was.
    pub what: What,
}

/// Everything that is written down.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The Cluster with its control plane and its OpenStackCluster, after a change of any.
    Cluster(Cluster),
    /// A control-plane Machine after a change.
    Machine(Machine),
    /// The OpenStackMachine of a control-plane machine after a change.
    OpenStackMachine(OpenStackMachine),
    /// An object is gone: kind and name.
    Gone(&'static str, String),
    /// The leader lease after a change.
    Lease(Lease),
    /// A pool member after a change, as its row is, whatever the API says.
    Member(Member),
    /// A member's row is gone.
    MemberGone(MemberKey),
    /// Nova's side of a machine.
    Server(String, Server),
    /// A call to Octavia about this cluster, or a write to any other service.
    Call(Call),
    /// The API server of a machine: machine and state.
    ApiServer(String, ApiServer),
    /// What the scenario does, in its own words.
    Scene(String),
    /// The scenario breaks something.
    Broken(String),
    /// The scenario has mended what it broke, or it has healed.
    Mended(String),
    /// The status of an object was wiped: kind and name.
    Wiped(&'static str, String),
    /// Requests of the client that were answered, of about a second.
    Answered(Answered),
    /// A request of the client that failed.
    RequestFailed(String),
    /// A watch of the client was cut and went on from where it was.
    WatchCut(String),
    /// A watch of the client could not go on from where it was, or has missed an event.
    WatchFailed(String),
    /// What the cloud still has, or has twice, when all is over.
    Remains(Remains),
}

/// A Cluster, its control plane and its OpenStackCluster as one.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// Cluster or control plane carry a deletion timestamp.
    pub going: bool,
    /// The control plane was initialised.
    pub initialised: bool,
    /// `managedLoadBalancer.enabled` is not false.
    pub managed: bool,
    /// The API ports, the endpoint's own first.
    pub ports: Vec<u16>,
    /// `status.initialization.provisioned` of the OpenStackCluster.
    pub provisioned: bool,
    /// `APIServerLoadBalancerReady` of the OpenStackCluster.
    pub gate: Option<Gate>,
}

/// The gate's condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// A control-plane Machine.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Our hook is set.
    pub hook: bool,
    /// The control plane's own hook is set.
    pub cleanup_hook: bool,
    /// `spec.providerID` is set: Cluster API has admitted it.
    pub admitted: bool,
    /// `status.nodeRef` is set.
    pub node: bool,
    /// It carries a deletion timestamp.
    pub deleting: bool,
    /// The reason of its `Deleting` condition.
    pub step: String,
}

/// The OpenStackMachine of a control-plane machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenStackMachine {
    /// Its name.
    pub name: String,
    /// The Machine that owns it; empty until it is owned.
    pub machine: String,
    /// `status.initialization.provisioned`.
    pub provisioned: bool,
    /// `status.addresses`, without host names.
    pub addresses: Vec<String>,
    /// It carries a deletion timestamp.
    pub deleting: bool,
    /// `APIServerLoadBalancerReady`.
    pub gate: Option<Gate>,
}

/// Which member: its port and the OpenStackMachine in its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberKey {
    /// The API port.
    pub port: u16,
    /// The OpenStackMachine; empty for a stranger's member.
    pub machine: String,
    /// Octavia's id.
    pub id: String,
}

/// A pool member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub key: MemberKey,
    /// Its address.
    pub address: String,
    /// `provisioning_status`.
    pub provisioning: String,
    /// `operating_status`.
    pub operating: String,
    /// `admin_state_up`.
    pub enabled: bool,
    /// Its weight.
    pub weight: u64,
    /// The data path sends it connections: pushed, reachable, up, with a weight.
    pub taking: bool,
}

impl Member {
    /// Set up to serve, and Octavia says that it is carried out.
    pub fn active(&self) -> bool {
        self.provisioning == "ACTIVE" && self.may_serve()
    }

    /// Nothing speaks against its serving, whatever its provisioning status.
    pub fn may_serve(&self) -> bool {
        self.enabled && self.weight > 0 && self.provisioning != "PENDING_DELETE"
    }
}

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It runs.
    Up,
    /// It runs no more.
    Down,
    /// It is gone.
    Gone,
}

/// The API server of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiServer {
    /// Its process was started.
    Started,
    /// It answered `/readyz` with 200.
    Ready,
    /// Its process was killed.
    Killed,
}

/// The leader lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it; empty when it was given up.
    pub holder: String,
    /// When it was renewed last.
    pub renewed: Duration,
    /// How long it is good for.
    pub lasts: Duration,
}

/// A call to OpenStack.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `loadbalancer_member_create`, ...
    pub label: String,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The answer's status; none while there is none.
    pub status: Option<u16>,
    /// How long the answer took.
    pub took: Duration,
    /// The body of a write.
    pub body: serde_json::Value,
    /// It was the manager's.
    pub ours: bool,
    /// It went to Octavia.
    pub octavia: bool,
}

impl Call {
    /// Whether it asks for a change.
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// Answered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answered {
    /// How many.
    pub count: u32,
    /// The slowest took so long.
    pub slowest: Duration,
}

/// What a cloud still has of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// Objects of the cluster, if it was deleted.
    pub left: Vec<String>,
    /// Objects that exist twice under one logical key.
    pub twice: Vec<String>,
}

/// Where everybody writes what happened. Clones are the same timeline.
#[derive(Debug, Clone)]
pub struct Timeline {
    clock: Clock,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Timeline {
    /// An empty one that begins now.
    pub fn start() -> Self {
        Self {
            clock: Clock::start(),
            entries: Arc::default(),
        }
    }

    /// Its clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Writes down what happens now.
    pub fn note(&self, what: What) {
        self.note_at(self.clock.now(), what);
    }

    /// Writes down what happened then.
    pub fn note_at(&self, at: Duration, what: What) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { at, what });
    }

    /// What has been written so far, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // What is told of one moment stays in the order of telling.
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

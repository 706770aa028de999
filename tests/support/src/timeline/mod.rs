//! All events, from every side, in one order of time: the management API's objects, the cloud's rows and calls, the API
//! servers that were started and killed, the client's requests.
//!
//! All observers write to [`Timeline`]; [`management`] and [`cloud`] are the two that watch by themselves; [`render`]
//! prints it for the analysis of a failure.

mod changes;
pub mod cloud;
pub mod management;
pub mod render;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parking_lot::Mutex;

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

    /// A moment of the wall clock; zero if it was before the beginning.
    pub fn at(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.wall)).unwrap_or_default()
    }
}

/// One event with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the timeline's beginning.
    pub at: Duration,
    /// The event.
    pub what: What,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The Cluster with its control plane and its OpenStackCluster, after a change of any.
    Cluster(Cluster),
    /// A control-plane Machine after a change.
    Machine(Machine),
    /// The OpenStackMachine of a control-plane machine after a change.
    OpenStackMachine(OpenStackMachine),
    /// An object was deleted: kind and name.
    Gone(&'static str, String),
    /// The leader lease after a change.
    Lease(Lease),
    /// A pool member after a change, according to its row and not to the API.
    Member(Member),
    /// A member's row was deleted.
    MemberGone(MemberKey),
    /// Nova's side of a machine.
    Server(String, Server),
    /// A call to Octavia about this cluster, or a write to any other service.
    Call(Call),
    /// The state of a machine's API server.
    ApiServer(String, ApiServer),
    /// A step of the scenario, as text.
    Remark(String),
    /// The scenario starts a fault.
    Broken(String),
    /// The fault ended, by the scenario or by itself.
    Mended(String),
    /// The status of an object was wiped: kind and name.
    Wiped(&'static str, String),
    /// Requests of the client that were answered, of about a second.
    Answered(Answered),
    /// A request that was answered late, at the time at which it was sent.
    Slow(Slow),
    /// A request of the client that failed.
    RequestFailed(String),
    /// A watch of the client was cut and continued where it was.
    WatchCut(String),
    /// A watch of the client could not continue where it was, or missed an event.
    WatchFailed(String),
    /// The objects that are left in the cloud, or exist twice, at the end.
    Remains(Remains),
}

/// A Cluster, its control plane and its OpenStackCluster as one.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// Whether the Cluster or the control plane has a deletion timestamp.
    pub going: bool,
    /// Whether the control plane was initialised.
    pub initialised: bool,
    /// Whether `managedLoadBalancer.enabled` is not false.
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
    /// Whether our hook is set.
    pub hook: bool,
    /// Whether the control plane's own hook is set.
    pub cleanup_hook: bool,
    /// Whether `spec.providerID` is set, which means that Cluster API has admitted it.
    pub admitted: bool,
    /// Whether `status.nodeRef` is set.
    pub node: bool,
    /// Whether it has a deletion timestamp.
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
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// `APIServerLoadBalancerReady`.
    pub gate: Option<Gate>,
}

/// The key of a member: its port and the OpenStackMachine in its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberKey {
    /// The API port.
    pub port: u16,
    /// The OpenStackMachine; empty for a member that is not of capo-rs.
    pub machine: String,
    /// Octavia's id.
    pub id: String,
}

/// A pool member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key of the member.
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
    /// Whether the data path sends it connections: it is pushed, reachable and up, and has a weight.
    pub taking: bool,
}

impl Member {
    /// Whether it is configured to serve, and Octavia reports that this has been carried out.
    pub fn active(&self) -> bool {
        self.provisioning == "ACTIVE" && self.may_serve()
    }

    /// Whether there is no evidence against its serving, whatever its provisioning status is.
    pub fn may_serve(&self) -> bool {
        self.enabled && self.weight > 0 && self.provisioning != "PENDING_DELETE"
    }
}

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It runs.
    Up,
    /// It does not run any more.
    Down,
    /// It was deleted.
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
    /// The holder; empty after it was released.
    pub holder: String,
    /// When it was last renewed.
    pub renewed: Duration,
    /// How long it lasts.
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
    /// The answer's status; `None` before the answer.
    pub status: Option<u16>,
    /// How long the answer took.
    pub took: Duration,
    /// The body of a write.
    pub body: serde_json::Value,
    /// Whether the manager made it.
    pub ours: bool,
    /// Whether it went to Octavia.
    pub octavia: bool,
}

impl Call {
    /// Whether it requests a change.
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// Answered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answered {
    /// The number of requests.
    pub count: u32,
    /// The duration of the slowest one.
    pub slowest: Duration,
}

/// The client through the load balancer, or its control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client, which sends its requests through the load balancer.
    Client,
    /// The control, which sends its requests to the API servers themselves.
    Control,
}

/// A request that was answered late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// Who sent it.
    pub sender: Sender,
    /// How long the answer took.
    pub took: Duration,
}

/// The objects of a cluster that a cloud still has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// Objects of the cluster, if it was deleted.
    pub left: Vec<String>,
    /// Objects that exist twice under one logical key.
    pub twice: Vec<String>,
}

/// The record of all events. Clones share it.
#[derive(Debug, Clone)]
pub struct Timeline {
    clock: Clock,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Timeline {
    /// An empty timeline that begins now.
    pub fn start() -> Self {
        Self {
            clock: Clock::start(),
            entries: Arc::default(),
        }
    }

    /// The clock of the timeline.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Records an event that happens now.
    pub fn note(&self, what: What) {
        self.note_at(self.clock.now(), what);
    }

    /// Records an event that happened at `at`.
    pub fn note_at(&self, at: Duration, what: What) {
        let mut entries = self.entries.lock();
        entries.push(Entry { at, what });
    }

    /// All recorded events, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.entries.lock().clone();
        // Events of the same moment stay in the order in which they were recorded.
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

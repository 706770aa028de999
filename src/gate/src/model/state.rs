//! The state of one load balancer's worker. It is lost with the process, and the next process reads everything again.
//!
//! ```text
//!  what controllers want          what was read                      what is decided
//!  desired ── ports ───────────▶  Port: listener, pool, monitor ──┐
//!  machines ─ address, server,    └ members: statuses, runs ──────┼─▶ gates per machine: admission,
//!             deletion, health                                    │   release (stage), finalizer
//!             └ slot per port: link to the member, absences, ─────┘
//!               attempts, refusals                                    call under way (at most one)
//! ```

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::model::{
    call::InFlight,
    clock::{Now, Stamp},
    desired::{ClusterFacts, LoadBalancerSpec},
    machine::{Machine, Stage},
    port::{IndexedPort, Port},
    proof::Proof,
    settings::Settings,
    summary::Summary,
    trouble::Trouble,
};
use capo_core::{
    Lookup, ObjectName, OperatingStatus, Provider, ProvisioningStatus, ids::LoadBalancerId,
    octavia::MonitorParameters,
};

/// The state of one load balancer's worker.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) settings: Settings,
    pub(crate) desired: Option<LoadBalancerSpec>,
    /// There is an OpenStack client whose credentials were accepted.
    pub(crate) credentials: bool,
    /// Every machine that existed when this process began to track the load balancer was handed over.
    pub(crate) machines_known: bool,
    /// Another cluster claims the same load balancer.
    pub(crate) claimed_by: Option<ObjectName>,
    pub(crate) large_fleet: bool,
    pub(crate) provider: Provider,
    pub(crate) balancer: Balancer,
    pub(crate) ports: Vec<Port>,
    pub(crate) machines: BTreeMap<ObjectName, Machine>,
    /// Since when this process has been able to observe the health of members.
    pub(crate) watched_since: Option<Instant>,
    /// An API server of this cluster has answered this process, at its own address or through the endpoint, or a member
    /// was ONLINE for long enough.
    pub(crate) answered: bool,
    pub(crate) call: Option<InFlight>,
    pub(crate) last_call_id: u64,
    /// When the last write ended, whatever came of it.
    pub(crate) last_write: Option<Instant>,
    pub(crate) reads: Reads,
    pub(crate) trouble: Option<Trouble>,
    /// The names whose machines were looked up before their members are pruned.
    pub(crate) lookups: BTreeMap<String, MachineLookup>,
    /// The requests through the endpoint for the machine that is being released.
    pub(crate) proof: Option<Proof>,
    /// The number of the last request that was sent through the endpoint.
    pub(crate) last_request_id: u64,
    /// Since when nothing has answered through the endpoint; `None` unless a series of requests has shown that.
    pub(crate) unreachable_since: Option<Instant>,
    /// The machine that is being released.
    pub(crate) releasing: Option<ObjectName>,
    /// The part of the findings that the passage of time alone can change.
    pub(crate) summary: Summary,
    /// The time of the last step, for the messages of that moment.
    pub(crate) last_step: Option<Now>,
    /// When to step again if nothing else happens.
    pub(crate) next_step_at: Option<Instant>,
}

/// The load balancer itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Balancer {
    pub(crate) provisioning: Option<ProvisioningStatus>,
    pub(crate) operating: Option<OperatingStatus>,
    /// Since when it has had its provisioning status.
    pub(crate) since: Option<Stamp>,
    /// Reads in a row that did not find it.
    pub(crate) not_found: u32,
    /// Since when a cause has kept the cluster from being Ready.
    pub(crate) unsettled_since: Option<Instant>,
}

impl Balancer {
    pub(crate) fn is_active(&self) -> bool {
        self.provisioning == Some(ProvisioningStatus::Active)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.provisioning
            .as_ref()
            .is_some_and(ProvisioningStatus::is_pending)
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.not_found >= 2
    }
}

/// When each kind of read was made, and when the next one is due.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads {
    /// When the last successful read of the tree began.
    pub(crate) tree_read_at: Option<Stamp>,
    /// When the last attempt to read the tree began.
    pub(crate) tree_tried_at: Option<Instant>,
    /// The time from sending the last successful read of the tree to its answer.
    pub(crate) round_trip: Duration,
    /// The time from the start of the wait for the request budget to the answer of that read.
    pub(crate) waited: Duration,
    /// When the last list of listeners and pools began.
    pub(crate) listeners_and_pools_read_at: Option<Instant>,
    /// The last lists of listeners and pools are no longer reliable, because a reply was lost or something vanished.
    pub(crate) listeners_and_pools_due: bool,
    /// The last lists of listeners and pools failed although the tree was answered.
    pub(crate) listeners_and_pools_trouble: Option<Trouble>,
    /// Since when something has been settling, and how many reads were made since.
    pub(crate) settling: Option<SettlingReads>,
    /// The number of reads since a gate began to wait for the health of members.
    pub(crate) health: u32,
    /// The number of settled reads since the lists and monitors were last read.
    pub(crate) steady: u32,
    /// Every member seems to be gone. Another read has to confirm this before a write or a gate depends on it.
    pub(crate) suspect: bool,
    /// A gate could open on a newer read of the tree.
    pub(crate) wanted: bool,
    /// A gate could open on newer lists of members.
    pub(crate) lists_wanted: bool,
    /// A gate depends on the health of members.
    pub(crate) health_wanted: bool,
    /// A decision depends on the answers of API servers to probes.
    pub(crate) probes_wanted: bool,
    /// A controller asked for a read.
    pub(crate) nudged: bool,
    /// The jitter of the next gap, as a factor.
    pub(crate) jitter_factor: f64,
    /// The gap that was to follow the last read, without jitter.
    pub(crate) interval: Duration,
    /// The age from which the last read is too old to decide on, unless [`State::fresh_for`] is longer.
    pub(crate) stale_after: Duration,
    /// When the read began that `interval` follows.
    pub(crate) interval_after: Option<Instant>,
}

/// The series of reads, with growing gaps, while something settles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettlingReads {
    pub(crate) start: Instant,
    pub(crate) reads: usize,
    /// A member is being enabled, for which no admission waits. The gaps are wide already after the first read, unless
    /// a machine waits for its release.
    pub(crate) is_enabling: bool,
}

impl SettlingReads {
    pub(crate) fn from(start: Instant) -> Self {
        Self {
            start,
            reads: 0,
            is_enabling: false,
        }
    }
}

/// A lookup of whether a machine still exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineLookup {
    /// When the lookup was started; once it has ended, when it ended.
    pub(crate) changed_at: Instant,
    pub(crate) under_way: bool,
    pub(crate) absent: bool,
}

/// How old a read may be for a gate to open on it, if Octavia answers quickly.
pub(crate) const FRESH: Duration = Duration::from_secs(15);

impl State {
    /// The state before anything was read or handed over.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            desired: None,
            credentials: false,
            machines_known: false,
            claimed_by: None,
            large_fleet: false,
            provider: Provider::default(),
            balancer: Balancer::default(),
            ports: Vec::new(),
            machines: BTreeMap::new(),
            watched_since: None,
            answered: false,
            call: None,
            last_call_id: 0,
            last_write: None,
            reads: Reads {
                jitter_factor: 1.0,
                listeners_and_pools_due: true,
                ..Reads::default()
            },
            trouble: None,
            lookups: BTreeMap::new(),
            proof: None,
            last_request_id: 0,
            unreachable_since: None,
            releasing: None,
            summary: Summary::default(),
            last_step: None,
            next_step_at: None,
        }
    }

    /// The facts about the cluster of the load balancer; `None` before they were handed over.
    pub(crate) fn cluster(&self) -> Option<&ClusterFacts> {
        self.desired.as_ref().map(|desired| &desired.cluster)
    }

    /// The index of a port of this number, which is also the index of a machine's slot for it.
    pub(crate) fn port_index(&self, number: u16) -> Option<usize> {
        self.ports.iter().position(|port| port.number == number)
    }

    pub(crate) fn indexed_ports(&self) -> impl Iterator<Item = IndexedPort<'_>> {
        let ports = self.ports.iter().enumerate();
        ports.map(|(index, port)| IndexedPort { index, port })
    }

    /// The lasting failure of a list of members. Every release needs these lists, and they can fail while the status
    /// tree is answered.
    pub(crate) fn list_trouble(&self) -> Option<&Trouble> {
        let mut lists = self
            .ports
            .iter()
            .filter_map(|port| port.list_trouble.as_ref());
        lists.find(|trouble| trouble.is_lasting())
    }

    /// Whether the load balancer was looked up and does not exist.
    pub(crate) fn has_no_balancer(&self) -> bool {
        let desired = self.desired.as_ref();
        desired.is_some_and(|desired| desired.id.is_absent())
    }

    /// When to step again if nothing else happens.
    pub fn next_step_at(&self) -> Option<Instant> {
        self.next_step_at
    }

    /// Until when a controller may act on a gate that opened on the last read. That time is over as soon as a read is
    /// not plausible.
    pub(crate) fn fresh_until(&self) -> Option<Instant> {
        let read = self.reads.tree_read_at?;
        if self.reads.suspect {
            return Some(read.instant);
        }
        // Weights and admin states, on which a release depends, are in the lists of members only.
        let lists = self.ports.iter().filter(|port| port.pool.is_some());
        let lists = lists.filter_map(|port| port.listed).min();
        let oldest = lists
            .filter(|_| self.is_any_released())
            .map_or(read.instant, |listed| listed.min(read.instant));
        oldest.checked_add(self.fresh_for())
    }

    fn is_any_released(&self) -> bool {
        let machine = self.releasing.as_ref();
        machine
            .and_then(|name| self.machines.get(name))
            .is_some_and(|machine| machine.stage == Stage::Released)
    }

    /// The endpoint's own port.
    pub(crate) fn endpoint_port(&self) -> Option<u16> {
        self.ports.first().map(|port| port.number)
    }

    /// How long a member must be ONLINE before that counts: by then a health monitor has found a failed API server
    /// down, and Octavia shows it. The slowest monitor counts, because the desired parameters may not have reached it
    /// yet.
    pub(crate) fn online_span(&self) -> Duration {
        let desired = self
            .desired
            .as_ref()
            .map_or(MonitorParameters::CAPO_DEFAULTS, |desired| desired.monitor);
        let found = self.ports.iter().filter_map(|port| port.monitor_parameters);
        found
            .map(time_until_down)
            .fold(time_until_down(desired), Duration::max)
    }

    /// How long a member must have been PENDING under an ACTIVE load balancer until its operation counts as lost.
    pub(crate) fn orphan_span(&self) -> Duration {
        self.settings
            .orphan_after
            .or_else(|| self.provider.orphan_span())
            .unwrap_or(self.settings.alert_after)
    }

    /// How old a read may be for a gate to open on it: [`FRESH`], or twice the last round trip if that is longer,
    /// because the answer of a slow Octavia is already old when it arrives.
    pub(crate) fn fresh_for(&self) -> Duration {
        FRESH.max(self.reads.round_trip.saturating_mul(2))
    }

    /// Whether the tree was read after our last write, is no older than [`State::fresh_for`], and is plausible.
    pub(crate) fn is_fresh(&self, now: &Now) -> bool {
        self.read_after_write()
            && self
                .reads
                .tree_read_at
                .is_some_and(|read| now.since(read.instant) <= self.fresh_for())
    }

    /// Whether the last read began after our last write had ended.
    pub(crate) fn read_after_write(&self) -> bool {
        !self.reads.suspect
            && self.reads.tree_read_at.is_some_and(|read| {
                self.last_write
                    .is_none_or(|written| read.instant >= written)
            })
    }

    /// Whether the last read is too old to decide on.
    pub(crate) fn is_stale(&self, now: &Now) -> bool {
        self.reads.tree_read_at.is_none_or(|read| {
            now.since(read.instant) > self.reads.stale_after.max(self.fresh_for())
        })
    }

    /// Whether Cluster API reaches the API servers.
    pub(crate) fn is_connected(&self) -> bool {
        self.cluster()
            .is_some_and(|cluster| cluster.remote_connection.true_since().is_some())
    }

    /// Whether nothing may be written at all.
    pub(crate) fn is_paused(&self) -> bool {
        self.cluster().is_none_or(|cluster| cluster.paused)
    }

    pub(crate) fn is_cluster_deleting(&self) -> bool {
        self.cluster()
            .is_some_and(|cluster| cluster.cluster_deleting)
    }

    /// Octavia's id of the load balancer.
    pub fn load_balancer(&self) -> Option<&LoadBalancerId> {
        self.desired.as_ref()?.id.found()
    }

    /// The cluster's CA in PEM.
    pub fn ca(&self) -> Lookup<&str> {
        self.cluster()
            .map_or(Lookup::Unknown, |cluster| cluster.ca_pem.as_deref())
    }
}

/// How long it takes until a health monitor with these parameters has found a failed member down, and Octavia shows it.
fn time_until_down(parameters: MonitorParameters) -> Duration {
    let seconds = u64::from(parameters.max_retries_down)
        .saturating_mul(u64::from(parameters.delay))
        .saturating_add(u64::from(parameters.timeout))
        .saturating_add(10);
    Duration::from_secs(seconds)
}

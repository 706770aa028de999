//! All that one load balancer's task knows. It is lost with the process and read again by the next one.
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

use ipnet::IpNet;
use jiff::Timestamp;

use super::{
    desired::{DesiredLoadBalancer, DesiredMachine, Monitor},
    event::{InFlight, PartKind, ProbeOutcome},
    gate::Rulings,
    judge::{Draft, Shown},
    observer::Operation,
    octavia::{FailureClass, MemberDetail, Operating, Provisioning},
    provider::Provider,
    serves::Others,
    settings::Settings,
};
use crate::names::ObjectName;

/// The present, as pure code is told of it.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For durations and decisions.
    pub instant: Instant,
    /// For display, and for the operator's expiry.
    pub wall: Timestamp,
    /// A random number from 0 to 1, for jitter.
    pub dice: f64,
}

impl Now {
    /// This moment on both clocks.
    pub fn stamp(&self) -> Stamp {
        Stamp {
            instant: self.instant,
            wall: self.wall,
        }
    }

    /// How long ago `earlier` was.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.instant.saturating_duration_since(earlier)
    }
}

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// For durations.
    pub instant: Instant,
    /// For display.
    pub wall: Timestamp,
}

/// One load balancer.
#[derive(Debug, Clone)]
pub struct State {
    pub(super) settings: Settings,
    pub(super) desired: Option<DesiredLoadBalancer>,
    /// There is a client to ask with.
    pub(super) credentials: bool,
    /// Another cluster claims the same load balancer.
    pub(super) claimed_by: Option<ObjectName>,
    pub(super) large_fleet: bool,
    pub(super) provider: Provider,
    pub(super) balancer: Balancer,
    pub(super) ports: Vec<Port>,
    pub(super) machines: BTreeMap<ObjectName, Machine>,
    /// Since when this process could have seen health.
    pub(super) watched_since: Option<Instant>,
    /// An API server answered a probe, or a member was steadily ONLINE.
    pub(super) answered: bool,
    pub(super) call: Option<InFlight>,
    pub(super) calls: u64,
    /// When the last write ended, whatever came of it.
    pub(super) last_write: Option<Instant>,
    pub(super) reads: Reads,
    pub(super) trouble: Option<Trouble>,
    /// Names whose machines were asked for before pruning.
    pub(super) lookups: BTreeMap<String, Lookup>,
    /// Which machine is being released.
    pub(super) releasing: Option<ObjectName>,
    /// What time alone can change of what is published.
    pub(super) shown: Shown,
    /// Room for a pass's drafts.
    pub(super) drafts: Vec<Draft>,
    /// Something that is published changed.
    pub(super) dirty: bool,
    pub(super) published: Option<Instant>,
    /// The present of the last step, for the words of that moment.
    pub(super) last_step: Option<Now>,
    /// When to step again if nothing else happens.
    pub(super) alarm: Option<Instant>,
}

/// The load balancer itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Balancer {
    pub(super) provisioning: Option<Provisioning>,
    pub(super) operating: Option<Operating>,
    /// Since when its provisioning status is what it is.
    pub(super) since: Option<Stamp>,
    /// Reads in a row that did not find it.
    pub(super) not_found: u32,
    /// Since when the verdict is not True.
    pub(super) unsettled_since: Option<Instant>,
}

impl Balancer {
    pub(super) fn is_active(&self) -> bool {
        self.provisioning == Some(Provisioning::Active)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.provisioning
            .as_ref()
            .is_some_and(Provisioning::is_pending)
    }

    pub(super) fn is_absent(&self) -> bool {
        self.not_found >= 2
    }
}

/// When what was read, and when to read again.
#[derive(Debug, Clone, Default)]
pub(super) struct Reads {
    /// When the last successful read of the tree began.
    pub(super) tree: Option<Stamp>,
    /// When the last attempt to read the tree began.
    pub(super) tried: Option<Instant>,
    /// When the last list of the structure began.
    pub(super) structure: Option<Instant>,
    /// Structure lists can't be trusted any more: a reply was lost, or something vanished.
    pub(super) structure_due: bool,
    /// Since when something is settling, and how many reads it took.
    pub(super) ladder: Option<Ladder>,
    /// Reads since health is waited for.
    pub(super) health: u32,
    /// Settled reads since what the tree lacks was read.
    pub(super) steady: u32,
    /// Every member seems gone: look again before acting.
    pub(super) suspect: bool,
    /// A gate would open on a newer read.
    pub(super) wanted: bool,
    /// A gate would open on newer lists of members.
    pub(super) lists_wanted: bool,
    /// The health of members decides something.
    pub(super) health_wanted: bool,
    /// Answers of API servers decide something.
    pub(super) probes_wanted: bool,
    /// A controller asked for a read.
    pub(super) nudged: bool,
    /// The jitter of the next gap.
    pub(super) factor: f64,
    /// The gap that was to follow the last read, without jitter.
    pub(super) interval: Duration,
    /// Which read that was.
    pub(super) interval_after: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ladder {
    pub(super) start: Instant,
    pub(super) reads: usize,
}

/// OpenStack can't be asked.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) class: FailureClass,
    pub(super) message: String,
    pub(super) since: Stamp,
    pub(super) failures: u32,
    pub(super) until: Instant,
}

/// A question whether a machine still exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup {
    pub(super) asked: Instant,
    pub(super) under_way: bool,
    pub(super) absent: bool,
}

/// Listener, pool, monitor and members of one port.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) number: u16,
    /// Name of listener, pool and monitor.
    pub(super) name: String,
    /// What names of our members start with.
    pub(super) prefix: String,
    pub(super) listener: Option<Part>,
    pub(super) pool: Option<Part>,
    pub(super) monitor: Option<Part>,
    /// The provider has no such monitor.
    pub(super) monitor_refused: bool,
    /// An unattached pool of our name.
    pub(super) stray_pool: Option<String>,
    /// More than one object answers to our name, or another one sits on our port.
    pub(super) ambiguous: Option<String>,
    pub(super) cidrs: Option<Vec<IpNet>>,
    pub(super) cidrs_known: bool,
    pub(super) numbers: Option<Monitor>,
    pub(super) numbers_due: bool,
    /// When the last list of members began.
    pub(super) listed: Option<Instant>,
    pub(super) members_due: bool,
    pub(super) members: Vec<Member>,
    /// What our own writes told of members that the tree has not shown yet.
    pub(super) details_ahead: Vec<MemberDetail>,
    /// A list showed this part, the tree did not.
    pub(super) unseen: Option<PartKind>,
    /// The unbroken row of reads in which no member was ONLINE.
    pub(super) dark: LostRun,
    /// An attempt at a part of it was refused.
    pub(super) refusal: Option<Refusal>,
    pub(super) attempts: Attempts,
}

/// A listener, pool or monitor as last read.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) id: String,
    pub(super) provisioning: Provisioning,
    pub(super) since: Stamp,
    pub(super) lost: LostRun,
}

/// How long something is PENDING though nothing can be under way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LostRun {
    pub(super) first: Option<Instant>,
    pub(super) reads: u32,
    pub(super) last: Option<Instant>,
}

impl LostRun {
    pub(super) fn saw(&mut self, lost: bool, began: Instant) {
        if lost {
            self.first.get_or_insert(began);
            self.last = Some(began);
            self.reads = self.reads.saturating_add(1);
        } else {
            *self = Self::default();
        }
    }

    /// Three reads or more, over this span.
    pub(super) fn spans(&self, span: Duration) -> bool {
        match (self.first, self.last) {
            (Some(first), Some(last)) => {
                self.reads >= 3 && last.saturating_duration_since(first) >= span
            }
            _ => false,
        }
    }
}

/// A member as last read.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) address: Option<std::net::IpAddr>,
    pub(super) port: u16,
    pub(super) provisioning: Provisioning,
    pub(super) operating: Operating,
    pub(super) since: Stamp,
    pub(super) lost: LostRun,
    /// First and last of the unbroken row of reads that saw it ONLINE, and how many.
    pub(super) online: Option<OnlineRun>,
    pub(super) detail: Option<MemberDetail>,
    pub(super) owner: Owner,
    /// Reads in a row in which its name was of no machine that was handed over.
    pub(super) ownerless_reads: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OnlineRun {
    pub(super) first: Instant,
    pub(super) last: Instant,
    pub(super) reads: u32,
}

impl OnlineRun {
    pub(super) fn span(&self) -> Duration {
        self.last.saturating_duration_since(self.first)
    }
}

/// Whose member it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A machine that was handed over: name and address fit.
    Ours,
    /// The name is of a machine that was handed over, the address is not.
    NameOnly,
    /// The address is of a machine that was handed over, the name is not.
    AddressOnly,
    /// Our kind of name, of a machine that was not handed over.
    Gone,
    /// Nothing to do with us.
    Stranger,
}

/// One control-plane machine.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) want: DesiredMachine,
    /// In the order of the ports.
    pub(super) slots: Vec<Slot>,
    pub(super) probe: Probe,
    pub(super) asked: Option<Asked>,
    pub(super) stage: Stage,
    /// When every member of it was first seen drained.
    pub(super) drained: Option<Instant>,
    /// A release was called off: its members are put back.
    pub(super) restoring: bool,
    /// Whether others serve in its place, while it is the one being released.
    pub(super) others: Option<Others>,
    /// Since when nobody can tell whether another one still serves, while this one is being removed.
    pub(super) unclear: Option<Instant>,
    pub(super) rulings: Rulings,
    pub(super) server_wanted: bool,
}

/// Since when a release is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) since: Stamp,
}

/// How far a release by the rules is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Its member stays in service.
    Serving,
    /// Another one serves: no new connections for this one.
    Draining,
    /// Its members are being deleted.
    Removing,
    /// Confirmed absent, another one still served.
    Released,
}

/// One machine's place in one pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    /// Index into the port's members.
    pub(super) member: Option<usize>,
    /// A member that is in the way: our name at another address, or our address under another name.
    pub(super) foreign: Option<usize>,
    /// More than one member answers to its name and address.
    pub(super) twins: bool,
    /// Reads in a row without the member.
    pub(super) absent_reads: u32,
    /// Our DELETE was accepted, to remove it or to make it anew; when it was sent.
    pub(super) deleted: Option<Instant>,
    /// When our POST was sent, and as what, until it was seen ACTIVE.
    pub(super) posted: Option<(Instant, Operation)>,
    /// A repairing PUT was accepted since it was last well.
    pub(super) put_tried: bool,
    pub(super) attempts: Attempts,
    pub(super) refusal: Option<Refusal>,
}

/// Back-off of repeated attempts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    pub(super) made: u32,
    pub(super) next: Option<Instant>,
}

impl Attempts {
    pub(super) fn may(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    pub(super) fn made(&mut self, now: Instant) {
        const MINUTES: [u64; 4] = [1, 2, 5, 10];
        let index = usize::try_from(self.made)
            .unwrap_or(usize::MAX)
            .min(MINUTES.len() - 1);
        let wait = MINUTES.get(index).copied().unwrap_or(10);
        self.made = self.made.saturating_add(1);
        self.next = now.checked_add(Duration::from_secs(60 * wait));
    }
}

/// A write that OpenStack refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) class: FailureClass,
    pub(super) message: String,
}

/// The probe of a machine's API server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probe {
    pub(super) under_way: bool,
    pub(super) asked: Option<Instant>,
    pub(super) seen: Option<(Instant, ProbeOutcome)>,
}

impl State {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            desired: None,
            credentials: false,
            claimed_by: None,
            large_fleet: false,
            provider: Provider::Unknown,
            balancer: Balancer::default(),
            ports: Vec::new(),
            machines: BTreeMap::new(),
            watched_since: None,
            answered: false,
            call: None,
            calls: 0,
            last_write: None,
            reads: Reads {
                factor: 1.0,
                structure_due: true,
                ..Reads::default()
            },
            trouble: None,
            lookups: BTreeMap::new(),
            releasing: None,
            shown: Shown::default(),
            drafts: Vec::new(),
            dirty: false,
            published: None,
            last_step: None,
            alarm: None,
        }
    }

    /// When to step again if nothing else happens.
    pub fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// The endpoint's own port.
    pub(super) fn endpoint_port(&self) -> Option<u16> {
        self.ports.first().map(|port| port.number)
    }

    /// How long ONLINE must last before it counts: a failed API server is down by then, and reported so.
    pub(super) fn online_span(&self) -> Duration {
        let numbers = self.desired.as_ref().map_or(
            Monitor {
                delay: 10,
                timeout: 5,
                max_retries: 5,
                max_retries_down: 3,
            },
            |desired| desired.monitor,
        );
        let seconds = u64::from(numbers.max_retries_down)
            .saturating_mul(u64::from(numbers.delay))
            .saturating_add(u64::from(numbers.timeout))
            .saturating_add(10);
        Duration::from_secs(seconds)
    }

    /// The tree was read after our last write, at most 15 s ago, and is plausible.
    pub(super) fn is_fresh(&self, now: &Now) -> bool {
        self.read_after_write()
            && self
                .reads
                .tree
                .is_some_and(|read| now.since(read.instant) <= FRESH)
    }

    /// The last read began after our last write ended.
    pub(super) fn read_after_write(&self) -> bool {
        !self.reads.suspect
            && self.reads.tree.is_some_and(|read| {
                self.last_write
                    .is_none_or(|written| read.instant >= written)
            })
    }

    /// The last read is so old that it tells nothing.
    pub(super) fn is_stale(&self, now: &Now) -> bool {
        self.reads.tree.is_none_or(|read| {
            now.since(read.instant) > self.reads.interval.saturating_mul(3).max(FRESH)
        })
    }

    /// Nothing may be written at all.
    pub(super) fn is_untouchable(&self) -> bool {
        self.desired
            .as_ref()
            .is_none_or(|desired| desired.cluster.untouchable)
    }

    pub(super) fn is_going(&self) -> bool {
        self.desired
            .as_ref()
            .is_some_and(|desired| desired.cluster.going)
    }

    /// A port on which every member's health is told by a monitor.
    pub(super) fn monitor_is_usable(&self, port: &Port) -> bool {
        port.monitor.is_some()
            && port.members.iter().any(|member| {
                member.admin_up().unwrap_or(true)
                    && !matches!(member.operating, Operating::Offline | Operating::NoMonitor)
            })
    }
}

/// How old a read may be for a gate to open on it.
pub(super) const FRESH: Duration = Duration::from_secs(15);

impl Member {
    pub(super) fn admin_up(&self) -> Option<bool> {
        self.detail.as_ref().map(|detail| detail.admin_up)
    }

    pub(super) fn weight(&self) -> Option<u16> {
        self.detail.as_ref().map(|detail| detail.weight)
    }

    /// It came in admin-down by us and waits for its API server.
    pub(super) fn is_joining(&self) -> bool {
        self.detail
            .as_ref()
            .is_some_and(|detail| !detail.admin_up && detail.tags.iter().any(|tag| tag == JOINING))
    }
}

/// Octavia tag of a member that waits for its API server.
pub(super) const JOINING: &str = "capo-rs-joining";

impl Machine {
    pub(super) fn new(want: DesiredMachine, ports: usize) -> Self {
        Self {
            want,
            slots: vec![Slot::default(); ports],
            probe: Probe::default(),
            asked: None,
            stage: Stage::Serving,
            drained: None,
            restoring: false,
            others: None,
            unclear: None,
            rulings: Rulings::default(),
            server_wanted: false,
        }
    }
}

impl Port {
    pub(super) fn new(balancer: &str, number: u16) -> Self {
        Self::named(format!("{balancer}-{number}"), number)
    }

    /// Nothing of it is known.
    pub(super) fn named(name: String, number: u16) -> Self {
        Self {
            number,
            prefix: format!("{name}-"),
            name,
            listener: None,
            pool: None,
            monitor: None,
            monitor_refused: false,
            stray_pool: None,
            ambiguous: None,
            cidrs: None,
            cidrs_known: false,
            numbers: None,
            numbers_due: true,
            listed: None,
            members_due: true,
            members: Vec::new(),
            details_ahead: Vec::new(),
            unseen: None,
            dark: LostRun::default(),
            refusal: None,
            attempts: Attempts::default(),
        }
    }

    /// Listener, pool and monitor are there and ACTIVE.
    pub(super) fn is_ready(&self) -> bool {
        let active = |part: &Option<Part>| {
            part.as_ref()
                .is_some_and(|part| part.provisioning == Provisioning::Active)
        };
        self.ambiguous.is_none()
            && active(&self.listener)
            && active(&self.pool)
            && (self.monitor_refused && self.monitor.is_none() || active(&self.monitor))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        [&self.listener, &self.pool, &self.monitor]
            .into_iter()
            .flatten()
    }
}

impl State {
    /// The cluster's CA in PEM.
    pub(super) fn ca(&self) -> Option<&str> {
        self.desired.as_ref()?.cluster.ca_pem.as_deref()
    }
}

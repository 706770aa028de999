//! What is known of ports, members and machines.

use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::{
    desired::{DesiredMachine, Monitor},
    event::{PartKind, ProbeOutcome},
    gate::Rulings,
    observer::Operation,
    octavia::MemberDetail,
    serves::Others,
    state::Stamp,
};
use capo_core::{FailureClass, OperatingStatus, ProvisioningStatus};

/// Listener, pool, monitor and members of one port.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
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
    /// The unbroken row of reads in which no member was ONLINE though a monitor tells.
    pub(super) dark: LostRun,
    /// An attempt at a part of it was refused.
    pub(super) refusal: Option<Refusal>,
    pub(super) attempts: Attempts,
}

/// A listener, pool or monitor as last read.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) id: String,
    pub(super) provisioning: ProvisioningStatus,
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
    pub(super) provisioning: ProvisioningStatus,
    pub(super) operating: OperatingStatus,
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
    /// Its admission was open once.
    pub(super) offered: bool,
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
pub const JOINING: &str = "capo-rs-joining";

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
            offered: false,
            server_wanted: false,
        }
    }

    /// Cluster API has admitted it, or may have since the gate opened: what is handed over may be older than that.
    pub(super) fn may_be_admitted(&self) -> bool {
        self.want.admitted || self.offered
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
                .is_some_and(|part| part.provisioning == ProvisioningStatus::Active)
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

//! What is known of the control-plane machines, and how far the release of each one is.

use std::time::Instant;

use crate::model::{
    attempts::{Attempts, Refusal},
    call::Operation,
    clock::Stamp,
    decision::GateDecisions,
    desired::DesiredMachine,
    event::ProbeOutcome,
    evidence::Others,
    proof::Reach,
};

/// One control-plane machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) want: DesiredMachine,
    /// In the order of the ports.
    pub(crate) slots: Vec<Slot>,
    pub(crate) probe: Probe,
    /// Since when the machine waits for its release.
    pub(crate) waiting_since: Option<Stamp>,
    /// Since when its Machine is deleting without our hook.
    pub(crate) hook_gone: Option<Instant>,
    pub(crate) stage: Stage,
    /// When every member of it was first seen drained.
    pub(crate) drained: Option<Instant>,
    /// What the endpoint answered while its members were in service, and when.
    pub(crate) reach: Option<(Instant, Reach)>,
    /// The ports on which requests through the endpoint must be answered without it; `None` where no proof is possible.
    pub(crate) required: Option<Vec<bool>>,
    /// Why its last release was put off.
    pub(crate) unproven: Option<String>,
    /// The pauses between releases that were put off.
    pub(crate) proofs: Attempts,
    /// Since when others serve in its place without a break.
    pub(crate) others_since: Option<Instant>,
    /// A release was called off: its members are put back.
    pub(crate) restoring: bool,
    /// Whether others serve in its place, while it is the one being released.
    pub(crate) others: Option<Others>,
    /// Since when it is unknown whether another machine still serves, while this one is being removed.
    pub(crate) unclear: Option<Instant>,
    pub(crate) gates: GateDecisions,
    /// Its admission was open once.
    pub(crate) offered: bool,
    pub(crate) server_wanted: bool,
}

impl Machine {
    pub(crate) fn new(want: DesiredMachine, ports: usize) -> Self {
        Self {
            want,
            slots: vec![Slot::default(); ports],
            probe: Probe::default(),
            waiting_since: None,
            hook_gone: None,
            stage: Stage::Serving,
            drained: None,
            reach: None,
            required: None,
            unproven: None,
            proofs: Attempts::default(),
            others_since: None,
            restoring: false,
            others: None,
            unclear: None,
            gates: GateDecisions::default(),
            offered: false,
            server_wanted: false,
        }
    }

    /// Two reads in a row have shown that it has no member on any port.
    pub(crate) fn members_are_absent(&self) -> bool {
        self.members_are_absent_in(2)
    }

    /// So many reads in a row have shown that it has no member on any port.
    pub(crate) fn members_are_absent_in(&self, reads: u32) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|slot| slot.member.is_none() && slot.absent_reads >= reads)
    }

    /// Cluster API has admitted it, or may have since the gate opened: what is handed over may be older than that.
    pub(crate) fn may_be_admitted(&self) -> bool {
        self.want.admitted || self.offered
    }
}

/// How far a release by the rules is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Its member stays in service.
    Serving,
    /// Another machine serves, and this machine's members get no new connections.
    Draining,
    /// Requests through the endpoint are to be answered without it.
    Proving,
    /// Its members are being deleted.
    Removing,
    /// A read has shown its members as absent: the requests are made again, and another read has to confirm it.
    Confirming,
    /// Confirmed absent, another one still served.
    Released,
}

/// One machine's place in one pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    /// Index into the port's members.
    pub(crate) member: Option<usize>,
    /// A member that is in the way: it has the machine's address under another name.
    pub(crate) foreign: Option<usize>,
    /// More than one member answers to its name and address.
    pub(crate) twins: bool,
    /// This process saw its member in this load balancer.
    pub(crate) was_seen: bool,
    /// Reads in a row without the member.
    pub(crate) absent_reads: u32,
    /// When our accepted DELETE was sent, be it to remove the member or to create it again.
    pub(crate) deleted: Option<Instant>,
    /// Accepted deletions in a row after which the member is still there.
    pub(crate) deletions: u32,
    /// When our POST was sent, and as what, until it was seen ACTIVE.
    pub(crate) posted: Option<(Instant, Operation)>,
    /// A repairing PUT was accepted since it was last well.
    pub(crate) put_tried: bool,
    pub(crate) attempts: Attempts,
    /// Writes in a row that were not answered, or met a locked load balancer.
    pub(crate) failures: u32,
    pub(crate) refusal: Option<Refusal>,
}

impl Slot {
    /// The last write of its member was refused, and the pause before the next one is not over.
    pub(crate) fn is_backing_off(&self, now: Instant) -> bool {
        self.refusal.is_some() && !self.attempts.may(now)
    }

    /// The member at the machine's address: its own, or the one that is in the way, which sends the machine clients too.
    pub(crate) fn at_address(&self) -> Option<usize> {
        self.member.or(self.foreign)
    }
}

/// The probe of a machine's API server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Probe {
    pub(crate) under_way: bool,
    pub(crate) sent: Option<Instant>,
    pub(crate) seen: Option<(Instant, ProbeOutcome)>,
}

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
use capo_core::ObjectName;

/// A control-plane machine with the name of its `OpenStackMachine`.
#[derive(Clone, Copy)]
pub(crate) struct NamedMachine<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) machine: &'a Machine,
}

/// One control-plane machine.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) want: DesiredMachine,
    /// The machine's place in each pool, in the order of the ports.
    pub(crate) slots: Vec<Slot>,
    pub(crate) probe: Probe,
    /// Since when the machine waits for its release, or since its last release was called off.
    pub(crate) waiting_since: Option<Stamp>,
    /// Since when its Machine is deleting without our hook.
    pub(crate) hook_gone_since: Option<Instant>,
    pub(crate) stage: Stage,
    /// When every member of the machine was first seen drained.
    pub(crate) drained_since: Option<Instant>,
    /// What the endpoint answered while the machine's members were in service, and when.
    pub(crate) reach: Option<(Instant, Reach)>,
    /// The ports on which requests through the endpoint must be answered without it; `None` where no proof is possible.
    pub(crate) required: Option<Vec<bool>>,
    /// When the requests without its members had been answered.
    pub(crate) proven: Option<Instant>,
    /// Why the machine's last release was called off.
    pub(crate) called_off_because: Option<String>,
    /// The last release was called off because the machine itself went on answering through the endpoint.
    pub(crate) answered_itself: bool,
    /// The pauses between releases that were called off.
    pub(crate) release_attempts: Attempts,
    /// Since when other machines have served in its place without interruption.
    pub(crate) others_since: Option<Instant>,
    /// A release of the machine was called off, and its members are being put back.
    pub(crate) restoring: bool,
    /// Whether other machines serve in its place. Set only for the machine that is being released, and for those whose
    /// hook is gone.
    pub(crate) others: Option<Others>,
    /// Since when it is unknown whether another machine still serves, while this one is being removed.
    pub(crate) others_unknown_since: Option<Instant>,
    pub(crate) gates: GateDecisions,
    /// The admission gate of the machine has been open.
    pub(crate) was_open: bool,
    pub(crate) needs_server_read: bool,
}

impl Machine {
    pub(crate) fn new(want: DesiredMachine, ports: usize) -> Self {
        Self {
            want,
            slots: vec![Slot::default(); ports],
            probe: Probe::default(),
            waiting_since: None,
            hook_gone_since: None,
            stage: Stage::Serving,
            drained_since: None,
            reach: None,
            required: None,
            proven: None,
            called_off_because: None,
            answered_itself: false,
            release_attempts: Attempts::default(),
            others_since: None,
            restoring: false,
            others: None,
            others_unknown_since: None,
            gates: GateDecisions::default(),
            was_open: false,
            needs_server_read: false,
        }
    }

    /// Whether two consecutive reads have shown that the machine has no member on any port.
    pub(crate) fn members_are_absent(&self) -> bool {
        self.members_are_absent_in(2)
    }

    /// Whether this many consecutive reads have shown that the machine has no member on any port.
    pub(crate) fn members_are_absent_in(&self, reads: u32) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|slot| slot.member.is_none() && slot.absent_reads >= reads)
    }

    /// Whether Cluster API has admitted the machine, or may have done so since the gate opened. What the controller
    /// handed over may be older than the admission.
    pub(crate) fn may_be_admitted(&self) -> bool {
        self.want.admitted || self.was_open
    }
}

/// The stage of a release that the rules decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The machine's members stay in service.
    Serving,
    /// Another machine serves, and this machine's members get no new connections.
    Draining,
    /// Requests through the endpoint must be answered without the machine.
    Proving,
    /// The machine's members are being deleted.
    Removing,
    /// A read has shown that the members are absent. The requests are made again, and a second read has to confirm the
    /// absence.
    Confirming,
    /// The absence is confirmed, and another machine still served.
    Released,
}

/// One machine's place in one pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    /// Index of the machine's member in the port's members.
    pub(crate) member: Option<usize>,
    /// Index of a member that has the machine's address under another name, so the machine's own member can't be
    /// created.
    pub(crate) foreign: Option<usize>,
    /// More than one member has its name and address.
    pub(crate) has_duplicates: bool,
    /// This process has seen the member in this load balancer.
    pub(crate) was_seen: bool,
    /// Reads in a row without the member.
    pub(crate) absent_reads: u32,
    /// When a DELETE of ours that Octavia accepted was sent, whether to remove the member or to create it again.
    pub(crate) deleted: Option<Instant>,
    /// How many accepted deletions in a row have left the member in place.
    pub(crate) deletions: u32,
    /// When our POST was sent, and for which operation. `None` once the member was seen ACTIVE.
    pub(crate) posted: Option<(Instant, Operation)>,
    /// A PUT that repairs the member was accepted since the member was last well.
    pub(crate) put_tried: bool,
    pub(crate) attempts: Attempts,
    /// Writes in a row that were not answered, or met a locked load balancer.
    pub(crate) failures: u32,
    pub(crate) refusal: Option<Refusal>,
}

impl Slot {
    /// Whether the last write of the member was refused and the pause before the next attempt is not over.
    pub(crate) fn is_backing_off(&self, now: Instant) -> bool {
        self.refusal.is_some() && !self.attempts.is_due(now)
    }

    /// The member at the machine's address: the machine's own, or one of another name, which also sends clients to the
    /// machine.
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

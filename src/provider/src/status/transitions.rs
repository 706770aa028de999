//! The transitions between two findings of one load balancer, for events and the log. Pure functions compute them.

use std::collections::BTreeMap;

use capo_core::{MemberStatus, ObjectName, OperatingStatus, Reason, ids::MemberId};
use capo_gate::{
    GateName,
    findings::{Findings, Gate, MemberFinding},
};

/// One change between two findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// A member appeared, disappeared, or changed a status.
    Member {
        /// The name of the member's machine, or the member's own name where capo-rs did not create it.
        machine: String,
        /// The pool's port.
        port: u16,
        /// The previous state of the member; `None` for a new one.
        from: Option<SeenMember>,
        /// The new state of the member; `None` for a removed one.
        to: Option<SeenMember>,
    },
    /// The state of a gate changed.
    Gate {
        /// The machine that the gate holds or lets pass.
        machine: ObjectName,
        /// The gate.
        gate: GateName,
        /// Its new state, which is never [`Gate::NotAsked`].
        state: Gate,
    },
}

/// A member as Octavia reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    /// Octavia's id.
    pub id: MemberId,
    /// Octavia's provisioning status.
    pub provisioning: MemberStatus,
    /// Octavia's operating status.
    pub operating: OperatingStatus,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// Whether the event is a Warning.
    pub warning: bool,
    /// The event's reason.
    pub reason: Reason,
    /// The action or decision of capo-rs, for the event's field `action`.
    pub action: &'static str,
    /// The note of the event.
    pub note: String,
}

/// All transitions from `before` to `after`. The first findings cause none, except for gates that hold or are bypassed.
pub fn transitions(before: Option<&Findings>, after: &Findings) -> Vec<Transition> {
    let mut transitions = Vec::new();
    // No member is known before the first read, so that the members it finds are not new.
    if let Some(before) = before.filter(|before| before.observed.is_some()) {
        members(before, after, &mut transitions);
    }
    gates(before, after, &mut transitions);
    transitions
}

fn members(before: &Findings, after: &Findings, transitions: &mut Vec<Transition>) {
    let (old, new) = (by_place(before), by_place(after));
    for (place, to) in &new {
        let from = old.get(place);
        let replaced = from.is_some_and(|from| from.id != to.id);
        if replaced {
            transitions.push(member(place, from.cloned(), None));
        }
        let from = from.filter(|_| !replaced);
        if from != Some(to) {
            transitions.push(member(place, from.cloned(), Some(to.clone())));
        }
    }
    for (place, from) in old {
        if !new.contains_key(&place) {
            transitions.push(member(&place, Some(from), None));
        }
    }
}

type MemberKey = (String, u16);

fn by_place(findings: &Findings) -> BTreeMap<MemberKey, SeenMember> {
    let status = |member: &MemberFinding| {
        Some((
            (member.machine.clone(), member.port),
            SeenMember {
                id: member.id.clone()?,
                provisioning: member.provisioning_status,
                operating: member.operating_status.clone(),
            },
        ))
    };
    findings.members.iter().filter_map(status).collect()
}

fn member(
    (machine, port): &MemberKey,
    from: Option<SeenMember>,
    to: Option<SeenMember>,
) -> Transition {
    Transition::Member {
        machine: machine.clone(),
        port: *port,
        from,
        to,
    }
}

fn gates(before: Option<&Findings>, after: &Findings, transitions: &mut Vec<Transition>) {
    for (machine, now) in &after.machines {
        let then = before.and_then(|before| before.machines.get(machine));
        let each = [
            (
                GateName::Admission,
                then.map(|t| &t.admission),
                &now.admission,
            ),
            (GateName::Release, then.map(|t| &t.release), &now.release),
            (
                GateName::Finalizer,
                then.map(|t| &t.finalizer),
                &now.finalizer,
            ),
        ];
        for (gate, then, now) in each {
            if turns(then, now) {
                transitions.push(Transition::Gate {
                    machine: machine.clone(),
                    gate,
                    state: now.clone(),
                });
            }
        }
    }
}

/// Whether a gate has a new state. A gate that continues to hold for another ordinary reason has none.
fn turns(then: Option<&Gate>, now: &Gate) -> bool {
    match (then, now) {
        (Some(Gate::Held { reason: was, .. }), Gate::Held { reason, .. }) => {
            was != reason && !reason.is_step_of_change()
        }
        (Some(Gate::Bypassed { .. }), Gate::Bypassed { .. }) | (_, Gate::NotAsked) => false,
        (_, Gate::Held { .. } | Gate::Bypassed { .. }) => true,
        (then, Gate::Open { .. }) => {
            matches!(then, Some(Gate::Held { .. } | Gate::Bypassed { .. }))
        }
    }
}

impl Transition {
    /// The name of the machine that the transition is about.
    pub fn machine(&self) -> &str {
        match self {
            Self::Member { machine, .. } => machine,
            Self::Gate { machine, .. } => &machine.name,
        }
    }

    /// The event to publish; `None` for a transition that is only logged.
    pub fn event(&self) -> Option<EventText> {
        match self {
            Self::Member {
                port,
                from,
                to,
                machine: _,
            } => member_event(*port, from.as_ref(), to.as_ref()),
            Self::Gate { gate, state, .. } => gate_event(*gate, state),
        }
    }
}

fn member_event(
    port: u16,
    from: Option<&SeenMember>,
    to: Option<&SeenMember>,
) -> Option<EventText> {
    let text = |warning, reason, action, note| EventText {
        warning,
        reason,
        action,
        note,
    };
    let was = from.map(|from| from.provisioning);
    match (was, to) {
        (was, Some(to))
            if to.provisioning == MemberStatus::Error && was != Some(MemberStatus::Error) =>
        {
            Some(text(
                true,
                Reason::MemberError,
                "Observe",
                format!(
                    "Its member on port {port} is in ERROR; it is repaired ({})",
                    to.id
                ),
            ))
        }
        (was, Some(to))
            if to.provisioning == MemberStatus::Active && was != Some(MemberStatus::Active) =>
        {
            Some(text(
                false,
                Reason::MemberActive,
                "Observe",
                format!("Its member on port {port} is ACTIVE ({})", to.id),
            ))
        }
        (None, Some(to)) => Some(text(
            false,
            Reason::MemberCreated,
            "Create",
            format!(
                "Its member on port {port} is {} ({})",
                to.provisioning, to.id
            ),
        )),
        (Some(_), None) => from.map(|from| {
            text(
                false,
                Reason::MemberRemoved,
                "Delete",
                format!("Its member on port {port} is gone ({})", from.id),
            )
        }),
        _ => None,
    }
}

fn gate_event(gate: GateName, state: &Gate) -> Option<EventText> {
    let (warning, reason, action, message) = match state {
        Gate::NotAsked => return None,
        Gate::Held {
            reason, message, ..
        } => (
            !reason.is_step_of_change(),
            Reason::GateHeld,
            "Hold",
            message,
        ),
        Gate::Open { message, .. } => (false, Reason::GateOpened, "Open", message),
        Gate::Bypassed { message } => (true, Reason::GateBypassed, "Bypass", message),
    };
    Some(EventText {
        warning,
        reason,
        action,
        note: format!("{}: {message}", gate.as_str()),
    })
}

#[cfg(test)]
mod tests;

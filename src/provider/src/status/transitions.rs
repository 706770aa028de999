//! The transitions between two findings of one load balancer, for events and the log. Pure functions compute them.

use std::collections::BTreeMap;

use capo_core::{GateState, MemberStatus, ObjectName, OperatingStatus, Reason, ids::MemberId};
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
        /// Its new state.
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
    // No member is known before the first read, so the members that it finds do not count as new.
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
                then.map(|then| &then.admission),
                &now.admission,
            ),
            (
                GateName::Release,
                then.map(|then| &then.release),
                &now.release,
            ),
            (
                GateName::Finalizer,
                then.map(|then| &then.finalizer),
                &now.finalizer,
            ),
        ];
        for (gate, then, now) in each {
            if has_changed(then, now) {
                transitions.push(Transition::Gate {
                    machine: machine.clone(),
                    gate,
                    state: now.clone(),
                });
            }
        }
    }
}

/// Whether a gate has a new state. A gate that is still held, but for another step of an ordinary change, has none.
fn has_changed(then: Option<&Gate>, now: &Gate) -> bool {
    match (then.map(|then| then.state), now.state) {
        (Some(GateState::Held), GateState::Held) => {
            let is_another = then.is_some_and(|then| then.reason != now.reason);
            is_another && !now.reason.is_step_of_change()
        }
        (Some(GateState::Bypassed), GateState::Bypassed) | (_, GateState::Unknown) => false,
        (_, GateState::Held | GateState::Bypassed) => true,
        (then, GateState::Open) => {
            matches!(then, Some(GateState::Held | GateState::Bypassed))
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
                    "Its member on port {port} is in ERROR; capo-rs repairs it ({})",
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

fn gate_event(gate: GateName, now: &Gate) -> Option<EventText> {
    let (warning, reason, action) = match now.state {
        GateState::Unknown => return None,
        GateState::Held => {
            let is_trouble = !now.reason.is_step_of_change();
            (is_trouble, Reason::GateHeld, "Hold")
        }
        GateState::Open => (false, Reason::GateOpened, "Open"),
        GateState::Bypassed => (true, Reason::GateBypassed, "Bypass"),
    };
    Some(EventText {
        warning,
        reason,
        action,
        note: format!("{}: {}", gate.as_str(), now.message),
    })
}

#[cfg(test)]
mod tests;

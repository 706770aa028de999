//! The transitions between two findings of one load balancer, for events and the log. Plain functions.

use std::collections::BTreeMap;

use capo_core::{MemberStatus, ObjectName, OperatingStatus, Reason};
use capo_gate::{
    GateName,
    findings::{Findings, Gate, MemberFinding},
};

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// A member appeared, disappeared, or changed a status.
    Member {
        /// The machine it belongs to; the member's own name where it is not ours.
        machine: String,
        /// The pool's port.
        port: u16,
        /// Before; `None` where there was no member.
        from: Option<SeenMember>,
        /// After; `None` where there is no member.
        to: Option<SeenMember>,
    },
    /// A gate's decision changed.
    Gate {
        /// The machine that it holds or lets pass.
        machine: ObjectName,
        /// The gate.
        gate: GateName,
        /// The new decision.
        decision: GateDecision,
    },
}

/// A member as Octavia shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    /// Octavia's id.
    pub id: String,
    /// Octavia's provisioning status.
    pub provisioning: MemberStatus,
    /// Octavia's operating status.
    pub operating: OperatingStatus,
}

/// A gate's new decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// The machine must wait.
    Held(Reason, String),
    /// The machine need not wait any more.
    Opened(Reason, String),
    /// The operator's annotation lets it pass.
    Bypassed(String),
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// Whether something is wrong.
    pub warning: bool,
    /// The event's reason.
    pub reason: Reason,
    /// What was done or decided.
    pub action: &'static str,
    /// The text.
    pub note: String,
}

/// All transitions. The first findings cause none, except for gates that hold or are bypassed.
pub fn transitions(before: Option<&Findings>, after: &Findings) -> Vec<Transition> {
    let mut transitions = Vec::new();
    // Before the first read no member is known: those that it finds are not new.
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

type Place = (String, u16);

fn by_place(findings: &Findings) -> BTreeMap<Place, SeenMember> {
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

fn member((machine, port): &Place, from: Option<SeenMember>, to: Option<SeenMember>) -> Transition {
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
            if let Some(decision) = decision(then, now) {
                let machine = machine.clone();
                transitions.push(Transition::Gate {
                    machine,
                    gate,
                    decision,
                });
            }
        }
    }
}

/// A gate's new decision. While it holds, another ordinary step of the same wait is no transition.
fn decision(then: Option<&Gate>, now: &Gate) -> Option<GateDecision> {
    match (then, now) {
        (Some(Gate::Held { reason: was, .. }), Gate::Held { reason, .. })
            if was == reason || !is_trouble(*reason) =>
        {
            None
        }
        (
            _,
            Gate::Held {
                reason, message, ..
            },
        ) => Some(GateDecision::Held(*reason, message.clone())),
        (Some(Gate::Held { .. } | Gate::Bypassed { .. }), Gate::Open { reason, message }) => {
            Some(GateDecision::Opened(*reason, message.clone()))
        }
        (Some(Gate::Bypassed { .. }), Gate::Bypassed { .. }) => None,
        (_, Gate::Bypassed { message }) => Some(GateDecision::Bypassed(message.clone())),
        _ => None,
    }
}

/// Whether a hold for this reason is more than a step of an ordinary change.
pub fn is_trouble(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::MemberPending
            | Reason::MemberMissing
            | Reason::MemberDraining
            | Reason::LoadBalancerPending
            | Reason::ServerNotReady
            | Reason::NotYetObserved
            | Reason::OperatorHold
    )
}

impl Transition {
    /// The name of the machine that it is about.
    pub fn machine(&self) -> &str {
        match self {
            Self::Member { machine, .. } => machine,
            Self::Gate { machine, .. } => &machine.name,
        }
    }

    /// The event to publish; `None` where the log is enough.
    pub fn event(&self) -> Option<EventText> {
        match self {
            Self::Member {
                port,
                from,
                to,
                machine: _,
            } => member_event(*port, from.as_ref(), to.as_ref()),
            Self::Gate { gate, decision, .. } => Some(gate_event(*gate, decision)),
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

fn gate_event(gate: GateName, decision: &GateDecision) -> EventText {
    let gate = gate.as_str();
    let (warning, reason, action, message) = match decision {
        GateDecision::Held(why, message) => (is_trouble(*why), Reason::GateHeld, "Hold", message),
        GateDecision::Opened(_, message) => (false, Reason::GateOpened, "Open", message),
        GateDecision::Bypassed(message) => (true, Reason::GateBypassed, "Bypass", message),
    };
    EventText {
        warning,
        reason,
        action,
        note: format!("{gate}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use capo_core::{ConditionState, ProvisioningStatus};
    use capo_gate::findings::MachineFinding;

    fn findings(members: &[(&str, &str)], admission: Option<Gate>) -> Findings {
        let members = members.iter().map(|(id, status)| MemberFinding {
            machine: "m".to_owned(),
            port: 6443,
            id: Some((*id).to_owned()),
            pool_id: None,
            address: None,
            provisioning_status: MemberStatus::from(&ProvisioningStatus::from(*status)),
            operating_status: OperatingStatus::Offline,
            since: Timestamp::UNIX_EPOCH,
            last_observed: Timestamp::UNIX_EPOCH,
            message: String::new(),
            stuck: false,
        });
        let machine = admission.map(|admission| {
            let finding = MachineFinding {
                verdict: ConditionState::default(),
                admission,
                release: Gate::NotAsked,
                finalizer: Gate::NotAsked,
                server_wanted: false,
            };
            (ObjectName::new("n", "m"), finding)
        });
        Findings {
            observed: Some(Timestamp::UNIX_EPOCH),
            members: members.collect(),
            machines: machine.into_iter().collect(),
            ..Findings::default()
        }
    }

    fn held(reason: Reason) -> Gate {
        Gate::Held {
            reason,
            message: reason.meaning().to_owned(),
            since: Timestamp::UNIX_EPOCH,
        }
    }

    fn open() -> Gate {
        Gate::Open {
            reason: Reason::MembersActive,
            message: "good".to_owned(),
        }
    }

    fn reasons(before: Option<&Findings>, after: &Findings) -> Vec<Reason> {
        transitions(before, after)
            .iter()
            .filter_map(|transition| Some(transition.event()?.reason))
            .collect()
    }

    /// Members by id and status, and the events that follow from them.
    type Step = (&'static [(&'static str, &'static str)], &'static [Reason]);

    #[test]
    fn every_step_of_a_members_life_has_its_event() {
        let steps: [Step; 8] = [
            (&[], &[]),
            (&[("1", "PENDING_CREATE")], &[Reason::MemberCreated]),
            (&[("1", "ERROR")], &[Reason::MemberError]),
            (&[("1", "ERROR")], &[]),
            (
                &[("2", "PENDING_CREATE")],
                &[Reason::MemberRemoved, Reason::MemberCreated],
            ),
            (&[("2", "ACTIVE")], &[Reason::MemberActive]),
            (&[("2", "PENDING_UPDATE")], &[]),
            (&[], &[Reason::MemberRemoved]),
        ];
        let mut before = findings(&[], None);
        for (members, expected) in steps {
            let after = findings(members, None);
            assert_eq!(reasons(Some(&before), &after), expected, "{members:?}");
            before = after;
        }
    }

    #[test]
    fn members_found_at_the_start_cause_no_events() {
        let found = findings(&[("1", "ACTIVE"), ("2", "ERROR")], Some(open()));
        assert_eq!(reasons(None, &found), []);
        let unread = Findings {
            observed: None,
            ..findings(&[], None)
        };
        assert_eq!(reasons(Some(&unread), &found), []);
    }

    #[test]
    fn gates_have_events_when_they_turn_and_when_a_wait_becomes_trouble() {
        let at = |admission| findings(&[], Some(admission));
        let waits = at(held(Reason::ServerNotReady));
        assert_eq!(reasons(None, &waits), [Reason::GateHeld]);
        let next = at(held(Reason::MemberPending));
        assert_eq!(reasons(Some(&waits), &next), []);
        let trouble = at(held(Reason::MemberError));
        let found = transitions(Some(&next), &trouble);
        let event = found.first().and_then(Transition::event).unwrap();
        assert!(event.warning);
        assert_eq!(event.reason, Reason::GateHeld);
        assert_eq!(event.note, "admission: A member is in ERROR.");
        assert_eq!(reasons(Some(&trouble), &at(open())), [Reason::GateOpened]);
        let bypassed = at(Gate::Bypassed {
            message: "bypassed until then".to_owned(),
        });
        assert_eq!(reasons(Some(&trouble), &bypassed), [Reason::GateBypassed]);
        assert_eq!(reasons(Some(&bypassed), &bypassed), []);
        assert_eq!(reasons(None, &at(open())), []);
    }
}

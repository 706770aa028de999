//! What changed between two findings of one load balancer: news for events and the log. Plain functions.

use std::collections::BTreeMap;

use capo_core::{MemberStatus, ObjectName, OperatingStatus, Reason};
use capo_gate::{
    GateName,
    findings::{Findings, Gate, MemberFinding},
};

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A member came, went, or changed a status.
    Member {
        /// The machine it is for; a stranger's own name.
        machine: String,
        /// The pool's port.
        port: u16,
        /// Before; `None` where there was no member.
        from: Option<MemberSight>,
        /// After; `None` where there is no member.
        to: Option<MemberSight>,
    },
    /// A gate answers otherwise.
    Gate {
        /// The machine it is asked for.
        machine: ObjectName,
        /// Which one.
        gate: GateName,
        /// The answer from now on.
        answer: Answer,
    },
}

/// A member as Octavia shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSight {
    /// Octavia's id.
    pub id: String,
    /// Octavia's provisioning status.
    pub provisioning: MemberStatus,
    /// Octavia's operating status.
    pub operating: OperatingStatus,
}

/// A gate's new answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Something must wait.
    Held(Reason, String),
    /// What waited may go on.
    Opened(Reason, String),
    /// The operator lets it go on.
    Bypassed(String),
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// Something is wrong.
    pub warning: bool,
    /// The event's reason.
    pub reason: Reason,
    /// What was done or decided.
    pub action: &'static str,
    /// The text.
    pub note: String,
}

/// Everything that changed. What the first look finds is no news, but for gates that hold or are bypassed.
pub fn changes(before: Option<&Findings>, after: &Findings) -> Vec<Change> {
    let mut changes = Vec::new();
    // Before the first read nothing is known of members: that they are seen does not make them new.
    if let Some(before) = before.filter(|before| before.observed.is_some()) {
        members(before, after, &mut changes);
    }
    gates(before, after, &mut changes);
    changes
}

fn members(before: &Findings, after: &Findings, changes: &mut Vec<Change>) {
    let (old, new) = (by_place(before), by_place(after));
    for (place, to) in &new {
        let from = old.get(place);
        let replaced = from.is_some_and(|from| from.id != to.id);
        if replaced {
            changes.push(member(place, from.cloned(), None));
        }
        let from = from.filter(|_| !replaced);
        if from != Some(to) {
            changes.push(member(place, from.cloned(), Some(to.clone())));
        }
    }
    for (place, from) in old {
        if !new.contains_key(&place) {
            changes.push(member(&place, Some(from), None));
        }
    }
}

type Place = (String, u16);

fn by_place(findings: &Findings) -> BTreeMap<Place, MemberSight> {
    let sight = |member: &MemberFinding| {
        Some((
            (member.machine.clone(), member.port),
            MemberSight {
                id: member.id.clone()?,
                provisioning: member.provisioning_status,
                operating: member.operating_status.clone(),
            },
        ))
    };
    findings.members.iter().filter_map(sight).collect()
}

fn member((machine, port): &Place, from: Option<MemberSight>, to: Option<MemberSight>) -> Change {
    Change::Member {
        machine: machine.clone(),
        port: *port,
        from,
        to,
    }
}

fn gates(before: Option<&Findings>, after: &Findings, changes: &mut Vec<Change>) {
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
            if let Some(answer) = answer(then, now) {
                let machine = machine.clone();
                changes.push(Change::Gate {
                    machine,
                    gate,
                    answer,
                });
            }
        }
    }
}

/// What is new about a gate. While it is held, another ordinary step of the same wait is no news.
fn answer(then: Option<&Gate>, now: &Gate) -> Option<Answer> {
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
        ) => Some(Answer::Held(*reason, message.clone())),
        (Some(Gate::Held { .. } | Gate::Bypassed { .. }), Gate::Open { reason, message }) => {
            Some(Answer::Opened(*reason, message.clone()))
        }
        (Some(Gate::Bypassed { .. }), Gate::Bypassed { .. }) => None,
        (_, Gate::Bypassed { message }) => Some(Answer::Bypassed(message.clone())),
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

impl Change {
    /// The name of the machine that it is about.
    pub fn machine(&self) -> &str {
        match self {
            Self::Member { machine, .. } => machine,
            Self::Gate { machine, .. } => &machine.name,
        }
    }

    /// The event to tell; `None` where the log is enough.
    pub fn event(&self) -> Option<EventText> {
        match self {
            Self::Member {
                port,
                from,
                to,
                machine: _,
            } => member_event(*port, from.as_ref(), to.as_ref()),
            Self::Gate { gate, answer, .. } => Some(gate_event(*gate, answer)),
        }
    }
}

fn member_event(
    port: u16,
    from: Option<&MemberSight>,
    to: Option<&MemberSight>,
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

fn gate_event(gate: GateName, answer: &Answer) -> EventText {
    let gate = gate.as_str();
    let (warning, reason, action, message) = match answer {
        Answer::Held(why, message) => (is_trouble(*why), Reason::GateHeld, "Hold", message),
        Answer::Opened(_, message) => (false, Reason::GateOpened, "Open", message),
        Answer::Bypassed(message) => (true, Reason::GateBypassed, "Bypass", message),
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

    fn told(before: Option<&Findings>, after: &Findings) -> Vec<Reason> {
        changes(before, after)
            .iter()
            .filter_map(|change| Some(change.event()?.reason))
            .collect()
    }

    /// The members by id and status, and what is told when they come to be so.
    type Step = (&'static [(&'static str, &'static str)], &'static [Reason]);

    #[test]
    fn a_members_life_is_told_step_by_step() {
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
            assert_eq!(told(Some(&before), &after), expected, "{members:?}");
            before = after;
        }
    }

    #[test]
    fn what_stood_there_before_the_start_is_no_news() {
        let found = findings(&[("1", "ACTIVE"), ("2", "ERROR")], Some(open()));
        assert_eq!(told(None, &found), []);
        let unread = Findings {
            observed: None,
            ..findings(&[], None)
        };
        assert_eq!(told(Some(&unread), &found), []);
    }

    #[test]
    fn gates_are_told_when_they_turn_and_when_a_wait_turns_into_trouble() {
        let at = |admission| findings(&[], Some(admission));
        let waits = at(held(Reason::ServerNotReady));
        assert_eq!(told(None, &waits), [Reason::GateHeld]);
        let next = at(held(Reason::MemberPending));
        assert_eq!(told(Some(&waits), &next), []);
        let trouble = at(held(Reason::MemberError));
        let changed = changes(Some(&next), &trouble);
        let event = changed.first().and_then(Change::event).unwrap();
        assert!(event.warning);
        assert_eq!(event.reason, Reason::GateHeld);
        assert_eq!(event.note, "admission: A member is in ERROR.");
        assert_eq!(told(Some(&trouble), &at(open())), [Reason::GateOpened]);
        let bypassed = at(Gate::Bypassed {
            message: "bypassed until then".to_owned(),
        });
        assert_eq!(told(Some(&trouble), &bypassed), [Reason::GateBypassed]);
        assert_eq!(told(Some(&bypassed), &bypassed), []);
        assert_eq!(told(None, &at(open())), []);
    }
}

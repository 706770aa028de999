use jiff::Timestamp;

use super::*;
use capo_core::{ConditionState, ProvisioningStatus};
use capo_gate::findings::MachineFinding;

fn findings(members: &[(&str, &str)], admission: Option<Gate>) -> Findings {
    let members = members.iter().map(|(id, status)| MemberFinding {
        machine: "m".to_owned(),
        port: 6443,
        id: Some((*id).into()),
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
            release: Gate::NOT_EVALUATED,
            finalizer: Gate::NOT_EVALUATED,
            needs_server_read: false,
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
    Gate::held(reason, reason.meaning(), Timestamp::UNIX_EPOCH)
}

fn open() -> Gate {
    Gate::open(Reason::MembersActive, "good")
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
fn each_transition_of_a_member_has_its_event() {
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
fn a_gate_has_an_event_when_it_changes_and_when_a_wait_becomes_a_problem() {
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
    let bypassed = at(Gate {
        state: GateState::Bypassed,
        ..Gate::open(Reason::OperatorBypass, "bypassed until then")
    });
    assert_eq!(reasons(Some(&trouble), &bypassed), [Reason::GateBypassed]);
    assert_eq!(reasons(Some(&bypassed), &bypassed), []);
    assert_eq!(reasons(None, &at(open())), []);
}

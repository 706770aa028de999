//! What the findings report about each member and machine: the status and the sentence by what was read.

use std::time::Duration;

use crate::{
    model::{
        attempts::Refusal,
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::Deletion,
        evidence::{Lack, Others},
        findings::{Findings, MachineFinding, MemberFinding},
        member::{JOINING, Owner},
        state::State,
    },
    report::report,
    tests::{
        pair::{STEP, UNHOOKED, ago, lose, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::{
    ConditionStatus, FailureClass, GateMode, Lookup, MemberStatus, ProvisioningStatus, Reason,
};

/// A change of what is known.
pub(super) type Change = fn(&mut State, &Now);

fn reported(change: impl FnOnce(&mut State, &Now)) -> Findings {
    let (mut state, now) = state();
    change(&mut state, &now);
    report(&state, &now)
}

/// The finding about the first machine's member of the second port.
fn of_member(change: impl FnOnce(&mut State, &Now)) -> Option<MemberFinding> {
    let members = reported(change).members;
    let mut members = members.into_iter();
    members.find(|member| member.machine == machine_name(1).name && member.port == 8132)
}

fn message(change: impl FnOnce(&mut State, &Now)) -> String {
    of_member(change).unwrap().message
}

/// Sets since when the operation of the first machine's member of the second port is under way.
fn pends(state: &mut State, now: &Now, span: Duration) {
    let member = member(state, 1, 1);
    member.provisioning = ProvisioningStatus::PendingUpdate;
    member.since.instant = ago(now, span);
}

#[test]
fn each_state_of_a_member_has_its_sentence() {
    let fails = |state: &mut State| {
        member(state, 1, 1).provisioning = ProvisioningStatus::Error;
    };
    let unknown = "Octavia shows the unknown status WEIRD";
    let cases: [(Change, &str); 15] = [
        (|_, _| (), ""),
        (
            |state, _| machine(state, 1).want.deletion = UNHOOKED,
            "It is being removed",
        ),
        (
            |state, _| {
                machine(state, 1).want.deletion = Deletion::AfterHook {
                    since: jiff::Timestamp::UNIX_EPOCH,
                };
                machine(state, 1).others = Some(Others::None(6443, Lack::Leaving));
            },
            "Its Machine is being deleted; it stays in service as long as its API server runs and no other member serves",
        ),
        (
            |state, _| {
                weigh(state, 1, 1, 1, false);
                let detail = member(state, 1, 1).detail.as_mut().unwrap();
                detail.tags.push(JOINING.to_owned());
            },
            "It is disabled until its API server is known to serve",
        ),
        (
            |state, _| weigh(state, 1, 1, 1, false),
            "It is disabled, but capo-rs did not disable it",
        ),
        (|state, _| weigh(state, 1, 1, 0, true), "It has weight 0"),
        (
            |state, _| member(state, 1, 1).provisioning = "WEIRD".into(),
            unknown,
        ),
        (
            |state, now| lose(state, now, 1, ProvisioningStatus::PendingUpdate),
            "It is PENDING under an ACTIVE load balancer: the operation was lost; it is repeated",
        ),
        (
            |state, now| pends(state, now, Duration::ZERO),
            "Octavia is working on it",
        ),
        (
            |state, now| pends(state, now, state.settings.alert_after),
            "It is PENDING for far longer than Octavia usually takes",
        ),
        (
            |state, now| {
                let almost = state.settings.stuck_after.checked_sub(STEP);
                pends(state, now, almost.unwrap());
            },
            "It is PENDING for far longer than Octavia usually takes",
        ),
        (
            |state, now| pends(state, now, state.settings.stuck_after),
            "It is stuck: nothing but Octavia's operator can free a PENDING load balancer",
        ),
        (
            |state, _| machine(state, 1).slots[1].has_duplicates = true,
            "More than one member has its name",
        ),
        (
            |state, _| machine(state, 1).slots[1].member = Some(9),
            "It does not exist yet",
        ),
        (|state, _| state.settings.mode = GateMode::Observe, ""),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(message(change), expected, "case {case}");
    }
    assert_eq!(
        message(|state, _| {
            fails(state);
            machine(state, 1).want.deletion = UNHOOKED;
        }),
        "Its deletion failed and is repeated"
    );
    assert_eq!(
        message(|state, _| fails(state)),
        "Octavia failed to apply it; capo-rs sends its values again, with growing pauses"
    );
    let never_admitted = |state: &mut State| {
        fails(state);
        machine(state, 1).want.admitted = false;
        machine(state, 1).was_open = false;
    };
    let made_again = "Octavia failed to apply it; it is being recreated";
    assert_eq!(message(|state, _| never_admitted(state)), made_again);
    let observed = message(|state, _| {
        never_admitted(state);
        state.settings.mode = GateMode::Observe;
    });
    assert_eq!(
        observed,
        format!("{made_again}; with --load-balancer-gate=observe nothing is held")
    );
}

#[test]
fn a_missing_member_is_reported_where_its_machine_needs_one() {
    let missing = |change: fn(&mut State)| {
        of_member(|state, _| {
            machine(state, 1).slots[1].member = None;
            state.ports[1].members.clear();
            change(state);
        })
    };
    let finding = missing(|_| ()).unwrap();
    let (state, _) = state();
    assert_eq!(finding.message, "It does not exist yet");
    assert_eq!(finding.provisioning_status, MemberStatus::Missing);
    assert_eq!((finding.id, finding.stuck), (None, false));
    assert_eq!(
        finding.address,
        state.machines[&machine_name(1)].want.address
    );
    let refused = missing(|state| {
        let since = state.reads.tree_read_at.unwrap().instant;
        machine(state, 1).slots[1].refusal = Some(Refusal {
            class: FailureClass::Quota,
            message: "too many".to_owned(),
            since,
        });
    });
    let text = refused.map(|finding| finding.message);
    assert_eq!(text.as_deref(), Some("Octavia did not create it: too many"));
    let foreign = missing(|state| machine(state, 1).slots[1].foreign = Some(0));
    let text = foreign.map(|finding| finding.message).unwrap();
    assert!(text.contains("is ambiguous"), "{text}");
    // The machine needs no member, so nothing is reported.
    assert_eq!(missing(|state| machine(state, 1).want.address = None), None);
    assert_eq!(
        missing(|state| machine(state, 1).want.deletion = UNHOOKED),
        None
    );
}

#[test]
fn a_member_of_no_machine_is_reported_with_what_becomes_of_it() {
    for (owner, expected) in [
        (
            Owner::NameOnly,
            "Its machine now has another address; it is removed once the member at that address is ACTIVE",
        ),
        (
            Owner::AddressOnly,
            "It has the address of a machine, but another name; capo-rs does not change it",
        ),
        (
            Owner::NotHandedOver,
            "Its machine is not known; it is removed once Kubernetes confirms that the machine is absent",
        ),
        (
            Owner::Unrelated,
            "capo-rs did not create it and does not change it",
        ),
    ] {
        let text = message(|state, _| {
            member(state, 1, 1).owner = owner;
            machine(state, 1).slots[1].member = None;
            machine(state, 1).want.address = None;
        });
        assert_eq!(text, expected, "{owner:?}");
    }
}

#[test]
fn a_member_is_stuck_that_is_pending_for_longer_than_the_alert_threshold() {
    let finding = |change: Change| of_member(change).unwrap();
    let shown = finding(|state, now| pends(state, now, state.settings.alert_after));
    assert!(shown.stuck);
    assert!(!finding(|state, now| pends(state, now, Duration::ZERO)).stuck);
    let old = |state: &mut State, now: &Now| {
        member(state, 1, 1).since.instant = ago(now, state.settings.alert_after);
    };
    assert!(!finding(old).stuck);
    let (state, now) = state();
    assert_eq!(
        shown.last_observed,
        state.reads.tree_read_at.map(|read| read.wall).unwrap()
    );
    let unread = finding(|state, _| state.reads.tree_read_at = None);
    assert_eq!(unread.last_observed, now.wall);
}

fn of_machine(change: impl FnOnce(&mut State, &Now)) -> MachineFinding {
    reported(change).machines.remove(&machine_name(1)).unwrap()
}

#[test]
fn a_condition_is_unknown_only_where_nothing_was_observed() {
    use ConditionStatus::{False, Unknown};
    for (cause, status) in [
        (GateCause::NotObserved, Unknown),
        (GateCause::NotFresh, Unknown),
        (GateCause::Stale, Unknown),
        (GateCause::Trouble(FailureClass::Transient), Unknown),
        (GateCause::LoadBalancerError, False),
        (GateCause::LoadBalancerPending, False),
        (GateCause::Ambiguous, False),
        (GateCause::NoneServes, False),
    ] {
        let verdict = reported(|state, _| state.summary.cause = Some(cause)).verdict;
        assert_eq!((verdict.status, verdict.reason), (status, cause.reason()));
    }
    let disabled = reported(|state, _| state.desired.as_mut().unwrap().enabled = false);
    let machine = &disabled.machines[&machine_name(1)].verdict;
    for verdict in [&disabled.verdict, machine] {
        assert_eq!(verdict.status, ConditionStatus::True);
        assert_eq!(verdict.reason, Reason::LoadBalancerDisabled);
        assert_eq!(verdict.message, "The cluster has no managed load balancer");
    }
}

#[test]
fn the_condition_of_a_machine_shows_what_keeps_its_members_from_being_seen() {
    use ConditionStatus::{False, True, Unknown};
    let shown = |change: Change| {
        let verdict = of_machine(change).verdict;
        (verdict.status, verdict.reason)
    };
    let cases: [(Change, ConditionStatus, Reason); 6] = [
        (|_, _| (), True, Reason::MembersActive),
        (
            |state, _| state.reads.tree_read_at = None,
            Unknown,
            Reason::NotYetObserved,
        ),
        (
            |state, _| state.claimed_by = Some(machine_name(9)),
            False,
            Reason::AmbiguousMatch,
        ),
        (
            |state, _| state.desired.as_mut().unwrap().id = Lookup::Absent,
            False,
            Reason::LoadBalancerPending,
        ),
        (
            |state, _| {
                state.balancer.provisioning = None;
                state.balancer.not_found = 2;
            },
            False,
            Reason::LoadBalancerError,
        ),
        // The trouble of the load balancer itself is shown for the cluster only: this machine's members are ACTIVE.
        (
            |state, _| state.balancer.provisioning = Some(ProvisioningStatus::Error),
            True,
            Reason::MembersActive,
        ),
    ];
    for (case, (change, status, reason)) in cases.into_iter().enumerate() {
        assert_eq!(shown(change), (status, reason), "case {case}");
    }
}

#[test]
fn a_held_release_names_the_way_out_except_during_a_pause() {
    let text = |cause| {
        let held = |state: &mut State, _: &Now| {
            machine(state, 1).gates.release = GateDecision::Held(cause);
        };
        of_machine(held).verdict.message
    };
    assert!(text(GateCause::Draining).contains("bypass until="));
    assert!(!text(GateCause::Paused).contains("bypass until="));
}

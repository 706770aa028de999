//! What the data types derive from their own fields.

use std::time::{Duration, Instant};

use crate::{
    model::{
        attempts::Attempts,
        call::{Call, Operation, Sets},
        clock::Stamp,
        decision::{GateCause, GateDecision, GateName},
        findings::Findings,
        floating_ip::MachineDeletion,
        octavia::Change,
        port::Port,
        state::FRESH,
    },
    report::report,
    tests::{
        floating_ip::control_plane_machine,
        pair::{STEP, ago, state},
        written::PARAMETERS,
    },
};
use capo_core::{Lookup, MonitorType, Reason, octavia::NewHealthMonitor};

#[test]
fn metrics_and_the_command_line_have_a_word_for_everything() {
    let operations = Operation::ALL.map(Operation::as_str);
    assert_eq!(
        operations,
        [
            "create", "delete", "replace", "drain", "restore", "repair", "enable"
        ]
    );
    let gates = [GateName::Admission, GateName::Release, GateName::Finalizer];
    assert_eq!(
        gates.map(GateName::as_str),
        ["admission", "release", "finalizer"]
    );
    let cause = GateCause::Draining;
    for (decision, label, reason) in [
        (GateDecision::NotEvaluated, "Unknown", None),
        (GateDecision::Open(cause), "Open", Some(cause.reason())),
        (GateDecision::Observed(cause), "Open", Some(cause.reason())),
        (
            GateDecision::Bypassed,
            "Bypassed",
            Some(Reason::OperatorBypass),
        ),
        (GateDecision::Held(cause), "Held", Some(cause.reason())),
    ] {
        assert_eq!(
            (decision.state().as_str(), decision.reason()),
            (label, reason)
        );
        assert_eq!(decision.is_open(), matches!(label, "Open" | "Bypassed"));
    }
}

#[test]
fn what_a_new_monitor_sets_is_kept() {
    let change = Change::CreateMonitor(NewHealthMonitor {
        pool_id: "pool".into(),
        name: "name".to_owned(),
        monitor_type: MonitorType::Https,
        url_path: None,
        parameters: PARAMETERS,
    });
    let sets = Sets::of(&Call::Write(Box::new(change)));
    assert_eq!(sets, Some(Sets::Monitor(MonitorType::Https, PARAMETERS)));
}

#[test]
fn pauses_between_attempts_grow_and_end_when_the_part_has_been_well_for_the_longest_one() {
    let now = Instant::now();
    let mut attempts = Attempts::default();
    assert!(attempts.is_due(now));
    for minutes in [1, 2, 5, 10, 10] {
        attempts.record(now);
        let pause = Duration::from_mins(minutes);
        assert_eq!(attempts.next, Some(now + pause));
        assert!(attempts.is_due(now + pause));
        assert!(!attempts.is_due(now + pause.saturating_sub(STEP)));
    }
    let long = Duration::from_mins(20);
    attempts.forget_if_old((now + long).checked_sub(STEP).unwrap());
    assert_eq!(attempts.count, 5);
    attempts.forget_if_old(now + long);
    assert_eq!((attempts.count, attempts.next), (0, None));
}

#[test]
fn findings_show_the_same_whenever_it_was_observed() {
    let (state, now) = state();
    let shown = report(&state, &now);
    assert!(shown.observed.is_some() && shown.fresh_until.is_some() && shown.members.len() > 1);
    let same = |change: fn(&mut Findings)| {
        let mut other = shown.clone();
        change(&mut other);
        shown.shows_the_same(&other) && other.shows_the_same(&shown)
    };
    assert!(same(|_| ()));
    assert!(same(|other| other.observed = None));
    assert!(same(|other| other.interval_seconds += 1.0));
    assert!(same(|other| other.fresh_until = None));
    assert!(same(
        |other| other.members[1].last_observed = jiff::Timestamp::UNIX_EPOCH
    ));
    assert!(!same(|other| other.members[1].stuck = true));
    assert!(!same(|other| drop(other.members.remove(1))));
    assert!(!same(|other| other.absent = true));
}

#[test]
fn a_control_plane_machine_leaves_while_it_is_being_deleted() {
    let leaves = |deletion: MachineDeletion| {
        let mut machine = control_plane_machine("a");
        machine.deletion = deletion;
        machine.is_leaving()
    };
    assert!(!leaves(MachineDeletion::No));
    assert!(leaves(MachineDeletion::WithoutHook));
    assert!(leaves(MachineDeletion::Since(jiff::Timestamp::UNIX_EPOCH)));
}

#[test]
fn the_state_gives_what_the_worker_needs_for_its_calls() {
    let (mut known, _) = state();
    assert_eq!(known.endpoint_port(), Some(6443));
    assert_eq!(
        known.load_balancer(),
        known.desired.as_ref().unwrap().id.found()
    );
    assert!(known.load_balancer().is_some());
    known.desired.as_mut().unwrap().cluster.ca_pem = Lookup::Found("PEM".to_owned());
    assert_eq!(known.ca(), Lookup::Found("PEM"));
    known.ports.clear();
    assert_eq!(known.endpoint_port(), None);
    known.desired = None;
    assert_eq!((known.load_balancer(), known.ca()), (None, Lookup::Unknown));
}

#[test]
fn an_observation_is_too_old_after_three_intervals_or_when_no_gate_may_open_on_it() {
    let stale = |age: Option<Duration>, after: Duration| {
        let (mut known, now) = state();
        known.reads.stale_after = after;
        known.reads.tree_read_at = age.map(|age| Stamp {
            instant: ago(&now, age),
            wall: now.wall,
        });
        known.is_stale(&now)
    };
    let minute = Duration::from_mins(1);
    assert!(stale(None, minute));
    assert!(!stale(Some(minute), minute));
    assert!(stale(Some(minute + STEP), minute));
    assert!(!stale(Some(FRESH), Duration::ZERO));
    assert!(stale(Some(FRESH + STEP), Duration::ZERO));
}

#[test]
fn everything_is_to_be_read_of_a_port_of_which_nothing_is_known() {
    let port = Port::new("lb", 6443);
    assert_eq!(
        (port.name.as_str(), port.prefix.as_str()),
        ("lb-6443", "lb-6443-")
    );
    assert_eq!(port.number, 6443);
    assert!(port.members_due && port.monitor_parameters_due);
    assert!(port.parts().next().is_none() && port.cidrs.is_none());
}

/// Metrics, events and conditions name the rule that opened a gate, so that a reader can tell an exception from the
/// rule.
#[test]
fn every_cause_that_opens_a_gate_has_a_reason_of_its_own() {
    use crate::model::decision::ReleaseBasis;
    let table = [
        (GateCause::Admitted, Reason::MachineAdmitted),
        (GateCause::MembersActive, Reason::MembersActive),
        (GateCause::NotEnforced, Reason::GateNotEnforced),
        (GateCause::Disabled, Reason::LoadBalancerDisabled),
        (GateCause::ClusterDeleting, Reason::ClusterDeleting),
        (
            GateCause::NeverInitialised,
            Reason::ControlPlaneNotInitialized,
        ),
        (GateCause::NeverServed, Reason::MachineNeverServed),
        (GateCause::ServerDown, Reason::ServerGone),
        (GateCause::DoesNotServe, Reason::MachineDoesNotServe),
        (
            GateCause::Released(ReleaseBasis::Proof),
            Reason::MachineReleased,
        ),
        (
            GateCause::Released(ReleaseBasis::OthersServedLongEnough),
            Reason::MachineReleased,
        ),
        (GateCause::MembersGone, Reason::MembersRemoved),
        (
            GateCause::LoadBalancerUnusable,
            Reason::LoadBalancerUnusable,
        ),
    ];
    for (cause, reason) in table {
        assert_eq!(cause.reason(), reason, "{cause:?}");
    }
}

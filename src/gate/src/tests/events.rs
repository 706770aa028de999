//! What each event changes in the state, whatever is decided afterwards.

use std::time::Duration;

use crate::{
    apply::apply,
    model::{
        clock::Now,
        desired::{Deletion, LoadBalancerSpec, ObservedCondition},
        effect::Effect,
        event::{Event, ProbeOutcome},
        machine::Stage,
        state::{MachineLookup, State},
        trouble::Trouble,
    },
    tests::{
        pair::{ago, machine, state},
        world::machine_name,
    },
};
use capo_core::{FailureClass, Lookup, ObjectName};

/// The state after an event, and the metric events that it records.
pub(crate) fn after((mut state, now): (State, Now), event: Event) -> (State, Vec<Effect>) {
    let mut effects = Vec::new();
    apply(&mut state, event, &now, &mut effects);
    (state, effects)
}

pub(crate) fn trouble(now: &Now) -> Trouble {
    Trouble {
        class: FailureClass::Auth,
        message: "401".to_owned(),
        since: now.stamp(),
        failures: 3,
        until: now.instant,
    }
}

/// The state after the cluster's controller has handed its load balancer over again.
fn handed_over(
    credentials: bool,
    prepare: impl FnOnce(&mut State, &Now),
    change: impl FnOnce(&mut LoadBalancerSpec),
) -> State {
    let (mut state, now) = state();
    prepare(&mut state, &now);
    let mut desired = state.desired.clone().unwrap();
    change(&mut desired);
    let desired = Box::new(desired);
    let event = Event::LoadBalancer {
        credentials,
        desired,
    };
    after((state, now), event).0
}

#[test]
fn another_load_balancer_begins_with_nothing_that_was_read_of_the_last_one() {
    let cases: [fn(&mut LoadBalancerSpec); 3] = [
        |desired| desired.id = Lookup::Found("another".into()),
        |desired| desired.name = "another".to_owned(),
        |desired| desired.ports = vec![6443],
    ];
    for (case, change) in cases.into_iter().enumerate() {
        let since = std::cell::Cell::new(None);
        let another = handed_over(
            true,
            |state, now| {
                state.reads.jitter_factor = 0.9;
                state.balancer.unsettled_since = Some(now.instant);
                since.set(state.balancer.unsettled_since);
                state.releasing = Some(machine_name(1));
                machine(state, 1).stage = Stage::Removing;
                state.trouble = Some(trouble(now));
            },
            change,
        );
        assert!(another.reads.tree_read_at.is_none(), "case {case}");
        assert!(another.reads.listeners_and_pools_due, "case {case}");
        assert!(another.balancer.provisioning.is_none(), "case {case}");
        assert!(another.ports.iter().all(|port| port.members.is_empty()));
        assert!(another.releasing.is_none() && another.trouble.is_none());
        let wanted = another.desired.as_ref().unwrap();
        let numbers: Vec<u16> = another.ports.iter().map(|port| port.number).collect();
        assert_eq!(numbers, wanted.ports, "case {case}");
        for machine in another.machines.values() {
            assert_eq!(machine.stage, Stage::Serving, "case {case}");
            assert_eq!(machine.slots.len(), wanted.ports.len(), "case {case}");
            assert!(machine.slots.iter().all(|slot| slot.member.is_none()));
        }
        // Neither the jitter nor the time since which the cluster is not Ready depends on which load balancer it is.
        assert!((another.reads.jitter_factor - 0.9).abs() < f64::EPSILON);
        assert_eq!(another.balancer.unsettled_since, since.get());
    }
    let same = handed_over(true, |_, _| (), |desired| desired.generation += 1);
    assert!(same.reads.tree_read_at.is_some());
    assert!(same.ports.iter().all(|port| port.members.len() == 2));
}

#[test]
fn credentials_that_are_accepted_again_end_the_pause_of_the_refused_ones() {
    for (before, now_accepted, is_over) in [
        (false, true, true),
        (true, true, false),
        (true, false, false),
        (false, false, false),
    ] {
        let handed_over = handed_over(
            now_accepted,
            |state, now| {
                state.credentials = before;
                state.trouble = Some(trouble(now));
            },
            |_| (),
        );
        assert_eq!(
            handed_over.trouble.is_none(),
            is_over,
            "{before} {now_accepted}"
        );
        assert_eq!(handed_over.credentials, now_accepted);
    }
}

#[test]
fn the_structure_is_read_again_where_other_ranges_are_wanted() {
    let settle = |state: &mut State, _: &Now| state.reads.listeners_and_pools_due = false;
    let other = handed_over(true, settle, |desired| {
        desired.allowed_cidrs = Some(Vec::new());
    });
    assert!(other.reads.listeners_and_pools_due);
    let same = handed_over(true, settle, |desired| desired.generation += 1);
    assert!(!same.reads.listeners_and_pools_due);
}

fn connection(is_reached: bool, since: std::time::Instant) -> ObservedCondition {
    if is_reached {
        ObservedCondition::TrueSince(since)
    } else {
        ObservedCondition::False
    }
}

#[test]
fn a_connection_that_cluster_api_lost_causes_a_read() {
    for (before, after, is_read) in [
        (true, false, true),
        (true, true, false),
        (false, false, false),
        (false, true, false),
    ] {
        let connected = |state: &mut State, now: &Now| {
            let desired = state.desired.as_mut().unwrap();
            desired.cluster.remote_connection = connection(before, now.instant);
        };
        let state = handed_over(true, connected, |desired| {
            desired.cluster.remote_connection = connection(after, std::time::Instant::now());
        });
        assert_eq!(state.reads.nudged, is_read, "{before} {after}");
    }
}

#[test]
fn what_another_cluster_claims_is_known_until_it_no_longer_does() {
    let claim = Some(ObjectName::new("n", "other"));
    let (claimed, _) = after(state(), Event::Claimed(claim.clone()));
    assert_eq!(claimed.claimed_by, claim);
    let (unclaimed, _) = after((claimed, state().1), Event::Claimed(None));
    assert_eq!(unclaimed.claimed_by, None);
}

#[test]
fn an_answer_of_the_clusters_api_server_shows_that_it_was_initialised() {
    for outcome in [
        ProbeOutcome::Ready,
        ProbeOutcome::Answered,
        ProbeOutcome::NotReady,
        ProbeOutcome::WrongCertificate,
        ProbeOutcome::Refused,
        ProbeOutcome::NoConnection,
    ] {
        let (mut before, now) = state();
        before.answered = false;
        machine(&mut before, 1).probe.under_way = true;
        let event = Event::Probed {
            machine: machine_name(1),
            began: now.instant,
            outcome,
        };
        let (mut probed, _) = after((before, now), event);
        assert_eq!(probed.answered, outcome.is_of_the_cluster(), "{outcome:?}");
        let probe = machine(&mut probed, 1).probe;
        assert!(!probe.under_way);
        assert_eq!(probe.seen, Some((now.instant, outcome)));
    }
}

#[test]
fn a_name_is_known_to_be_absent_only_when_the_lookup_says_so() {
    for (exists, is_absent) in [(Some(false), true), (Some(true), false), (None, false)] {
        let (mut before, now) = state();
        let lookup = MachineLookup {
            changed_at: ago(&now, Duration::from_secs(9)),
            under_way: true,
            absent: !is_absent,
        };
        before.lookups.insert("m".to_owned(), lookup);
        let machine = "m".to_owned();
        let (after, _) = after((before, now), Event::LookedUp { machine, exists });
        let lookup = after.lookups["m"];
        assert_eq!(lookup.absent, is_absent, "{exists:?}");
        assert!(!lookup.under_way && lookup.changed_at == now.instant);
    }
}

/// The state after a machine was handed over, or was reported as gone.
fn machine_event(
    index: u8,
    releasing: Option<u8>,
    change: Option<fn(&mut crate::model::desired::DesiredMachine)>,
) -> State {
    let (mut before, now) = state();
    before.releasing = releasing.map(machine_name);
    let desired = change.map(|change| {
        let mut desired = machine(&mut before, index).want.clone();
        change(&mut desired);
        Box::new(desired)
    });
    machine(&mut before, index).probe.seen = Some((now.instant, ProbeOutcome::Ready));
    let name = machine_name(index);
    after((before, now), Event::Machine { name, desired }).0
}

#[test]
fn a_release_ends_with_its_own_machine_only() {
    for (gone, releasing, is_over) in [(1, 1, true), (2, 1, false)] {
        let state = machine_event(gone, Some(releasing), None);
        assert_eq!(state.releasing.is_none(), is_over, "{gone} of {releasing}");
        assert!(!state.machines.contains_key(&machine_name(gone)));
        let expected = &state.desired.as_ref().unwrap().cluster.machines;
        assert!(!expected.contains(&machine_name(gone)));
        // No machine owns the member any more.
        let owners = state.ports[0].members.iter();
        let gone =
            owners.filter(|member| member.owner == crate::model::member::Owner::NotHandedOver);
        assert_eq!(gone.count(), 1);
    }
    let another: fn(&mut crate::model::desired::DesiredMachine) = |want| {
        want.uid = Some("another".to_owned());
    };
    for (replaced, releasing, is_over) in [(1, 1, true), (2, 1, false)] {
        let state = machine_event(replaced, Some(releasing), Some(another));
        assert_eq!(
            state.releasing.is_none(),
            is_over,
            "{replaced} of {releasing}"
        );
        let machine = &state.machines[&machine_name(replaced)];
        assert!(
            machine.probe.seen.is_none(),
            "what another machine answered"
        );
    }
}

#[test]
fn what_was_answered_at_an_address_holds_until_the_address_changes() {
    let same = machine_event(1, None, Some(|want| want.admitted = false));
    assert!(same.machines[&machine_name(1)].probe.seen.is_some());
    let moved = machine_event(1, None, Some(|want| want.address = None));
    assert!(moved.machines[&machine_name(1)].probe.seen.is_none());
}

#[test]
fn a_member_that_was_missing_in_the_last_read_need_not_be_looked_for_again() {
    for (is_read, is_suspect, reads) in [(true, false, 1), (false, false, 0), (true, true, 0)] {
        let (mut before, now) = state();
        let mut desired = machine(&mut before, 1).want.clone();
        desired.address = Some([10, 0, 0, 9].into());
        desired.deletion = Deletion::No;
        before.reads.tree_read_at = before.reads.tree_read_at.filter(|_| is_read);
        before.reads.suspect = is_suspect;
        let event = Event::Machine {
            name: machine_name(9),
            desired: Some(Box::new(desired)),
        };
        let (state, _) = after((before, now), event);
        let slots = &state.machines[&machine_name(9)].slots;
        assert!(slots.iter().all(|slot| slot.absent_reads == reads));
    }
}

#[test]
fn the_endpoint_is_asked_again_for_a_released_machine_that_reaches_its_hook_after_another_drain() {
    let since = jiff::Timestamp::UNIX_EPOCH;
    let draining = Deletion::BeforeHook { since };
    let at_hook = Deletion::AtHook { since };
    for (stage, old, new, expected) in [
        (Stage::Released, draining, at_hook, Stage::Confirming),
        (Stage::Released, at_hook, at_hook, Stage::Released),
        (Stage::Released, draining, draining, Stage::Released),
        (Stage::Serving, draining, at_hook, Stage::Serving),
    ] {
        let (mut state, now) = state();
        let leaving = machine(&mut state, 1);
        (leaving.stage, leaving.want.deletion) = (stage, old);
        let mut desired = leaving.want.clone();
        desired.deletion = new;
        let event = Event::Machine {
            name: machine_name(1),
            desired: Some(Box::new(desired)),
        };
        let (mut state, _) = after((state, now), event);
        assert_eq!(machine(&mut state, 1).stage, expected, "{old:?} {new:?}");
    }
}

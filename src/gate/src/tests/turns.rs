//! What one evaluation of all gates records about each machine, besides the decisions.

use std::time::Duration;

use crate::{
    decide::{SOON_GONE, evaluate},
    model::{
        clock::Now,
        decision::{GateCause, GateDecision, GateName},
        desired::{Deletion, ObservedCondition, ServerState},
        effect::Effect,
        machine::{Machine, Stage},
        member::JOINING,
        metric_event::MetricEvent,
        state::State,
    },
    plan::{
        schedule::{JOINING_PROBE_GAP, PROBE_GAP},
        start_calls,
    },
    tests::{
        pair::{STEP, UNHOOKED, ago, drain, machine, member, state, weigh},
        world::{World, machine_name},
    },
};
use capo_core::{GateOverride, GateState, Lookup, ProvisioningStatus, Reason};

const BEFORE_HOOK: Deletion = Deletion::BeforeHook {
    since: jiff::Timestamp::UNIX_EPOCH,
};
const AT_HOOK: Deletion = Deletion::AtHook {
    since: jiff::Timestamp::UNIX_EPOCH,
};
const AFTER_HOOK: Deletion = Deletion::AfterHook {
    since: jiff::Timestamp::UNIX_EPOCH,
};
const OUT_OF_BAND: Deletion = Deletion::OutOfBand {
    since: jiff::Timestamp::UNIX_EPOCH,
};

/// The state after one evaluation.
fn evaluated(change: impl FnOnce(&mut State, &Now)) -> State {
    let (mut state, now) = state();
    change(&mut state, &now);
    evaluate(&mut state, &now, &mut Vec::new());
    state
}

/// The first machine after one evaluation.
fn first(change: impl FnOnce(&mut State, &Now)) -> Machine {
    evaluated(change).machines[&machine_name(1)].clone()
}

#[test]
fn a_machine_waits_from_the_moment_in_which_our_hook_is_reached() {
    for (deletion, waits) in [
        (Deletion::No, false),
        (BEFORE_HOOK, false),
        (AT_HOOK, true),
        (OUT_OF_BAND, true),
        (AFTER_HOOK, false),
        (UNHOOKED, false),
    ] {
        let found = first(|state, _| machine(state, 1).want.deletion = deletion);
        assert_eq!(found.waiting_since.is_some(), waits, "{deletion:?}");
        // What was recorded before is forgotten, unless the machine still waits.
        let found = first(|state, now| {
            let machine = machine(state, 1);
            machine.want.deletion = deletion;
            machine.waiting_since = Some(now.stamp());
        });
        assert_eq!(found.waiting_since.is_some(), waits, "{deletion:?}");
    }
}

#[test]
fn a_release_begins_at_our_hook_and_not_before() {
    use crate::model::proof::Reach;
    for (deletion, stage) in [
        (Deletion::No, Stage::Serving),
        (BEFORE_HOOK, Stage::Serving),
        (AT_HOOK, Stage::Draining),
        (OUT_OF_BAND, Stage::Draining),
    ] {
        let found = first(|state, now| {
            for port in &mut state.ports {
                port.listed = Some(now.instant);
            }
            let machine = machine(state, 1);
            machine.want.deletion = deletion;
            machine.reach = Some((now.instant, Reach::Ports(vec![true, true])));
        });
        assert_eq!(found.stage, stage, "{deletion:?}");
        let is_decided = found.gates.release != GateDecision::NotEvaluated;
        assert_eq!(is_decided, stage == Stage::Draining, "{deletion:?}");
    }
}

#[test]
fn a_release_that_has_begun_goes_on_when_the_node_is_drained_once_more() {
    for (deletion, stage) in [
        (Deletion::No, Stage::Serving),
        (BEFORE_HOOK, Stage::Draining),
        (AT_HOOK, Stage::Draining),
    ] {
        let found = first(|state, now| {
            let machine = machine(state, 1);
            machine.stage = Stage::Draining;
            machine.required = Some(vec![true, true]);
            machine.want.deletion = deletion;
            machine.waiting_since = Some(now.stamp());
        });
        assert_eq!(found.stage, stage, "{deletion:?}");
        assert_eq!(found.waiting_since.is_some(), stage == Stage::Draining);
    }
}

#[test]
fn a_member_counts_as_restored_once_it_is_active_and_in_rotation_on_every_port() {
    let cases: [(fn(&mut State), bool); 7] = [
        (|_| (), false),
        (|state| drain(state, 1, 1, true), true),
        (|state| drain(state, 1, 1, false), true),
        // An operator has drained or disabled the member.
        (|state| weigh(state, 1, 1, 0, true), false),
        (|state| weigh(state, 1, 1, 1, false), false),
        (
            |state| member(state, 1, 1).provisioning = ProvisioningStatus::PendingUpdate,
            true,
        ),
        (|state| machine(state, 1).slots[1].member = None, true),
    ];
    for (case, (change, is_restoring)) in cases.into_iter().enumerate() {
        for was_restoring in [true, false] {
            let found = first(|state, _| {
                machine(state, 1).restoring = was_restoring;
                change(state);
            });
            assert_eq!(
                found.restoring,
                was_restoring && is_restoring,
                "case {case}"
            );
        }
    }
}

#[test]
fn it_is_noted_when_our_hook_was_gone_and_forgotten_when_it_is_back() {
    let (mut state, mut now) = state();
    machine(&mut state, 1).want.deletion = AFTER_HOOK;
    evaluate(&mut state, &now, &mut Vec::new());
    let gone = now.instant;
    assert_eq!(machine(&mut state, 1).hook_gone_since, Some(gone));
    assert!(machine(&mut state, 1).others.is_some());
    assert!(!state.reads.health_wanted);
    now.instant = gone + STEP;
    evaluate(&mut state, &now, &mut Vec::new());
    assert!(!state.reads.health_wanted);
    now.instant = gone + SOON_GONE;
    evaluate(&mut state, &now, &mut Vec::new());
    assert_eq!(machine(&mut state, 1).hook_gone_since, Some(gone));
    assert!(state.reads.health_wanted);
    machine(&mut state, 1).want.deletion = AT_HOOK;
    evaluate(&mut state, &now, &mut Vec::new());
    assert_eq!(machine(&mut state, 1).hook_gone_since, None);
}

fn bypass(machine: &mut Machine, now: &Now) {
    machine.want.gate_override = GateOverride::Bypass {
        until: now.wall + jiff::SignedDuration::from_secs(60),
        reason: "r".to_owned(),
    };
}

#[test]
fn a_release_that_is_opened_from_outside_the_rules_ends_and_its_member_comes_back_if_it_is_held_again()
 {
    for (stage, is_over) in [
        (Stage::Serving, false),
        (Stage::Draining, true),
        (Stage::Confirming, true),
        (Stage::Released, true),
    ] {
        let found = first(|state, now| {
            let machine = machine(state, 1);
            machine.want.deletion = AT_HOOK;
            machine.stage = stage;
            bypass(machine, now);
        });
        assert_eq!(found.gates.release, GateDecision::Bypassed);
        assert_eq!(found.stage, Stage::Serving, "{stage:?}");
        assert_eq!(found.restoring, is_over, "{stage:?}");
    }
}

#[test]
fn a_pause_leaves_a_release_as_it_is_except_for_the_last_proof() {
    for (stage, paused) in [
        (Stage::Serving, Stage::Serving),
        (Stage::Draining, Stage::Draining),
        (Stage::Removing, Stage::Removing),
        (Stage::Released, Stage::Confirming),
    ] {
        let found = first(|state, _| {
            state.desired.as_mut().unwrap().cluster.paused = true;
            let machine = machine(state, 1);
            machine.want.deletion = AT_HOOK;
            machine.stage = stage;
        });
        assert_eq!(found.gates.release, GateDecision::Held(GateCause::Paused));
        assert_eq!((found.stage, found.restoring), (paused, false));
    }
}

#[test]
fn a_machine_that_was_called_admissible_once_counts_as_admitted() {
    let offered = |change: fn(&mut State)| {
        first(|state, _| {
            machine(state, 1).was_open = false;
            machine(state, 1).want.admitted = false;
            change(state);
        })
    };
    assert!(offered(|_| ()).was_open);
    let held = offered(|state| member(state, 1, 0).provisioning = ProvisioningStatus::Error);
    assert!(!held.was_open && !held.gates.admission.is_open());
    let kept = offered(|state| {
        machine(state, 1).was_open = true;
        member(state, 1, 0).provisioning = ProvisioningStatus::Error;
    });
    assert!(kept.was_open);
}

#[test]
fn a_hold_has_the_time_at_which_it_began_whatever_its_cause_becomes() {
    let (mut state, mut now) = state();
    machine(&mut state, 1).want.deletion = AT_HOOK;
    evaluate(&mut state, &now, &mut Vec::new());
    let began = now.stamp();
    assert_eq!(machine(&mut state, 1).gates.release_since, Some(began));
    let old = machine(&mut state, 1).gates.release;
    now.instant += Duration::from_secs(1);
    machine(&mut state, 2).want.server.state = ServerState::Shutoff;
    machine(&mut state, 2).want.api_server_pod = ObservedCondition::False;
    evaluate(&mut state, &now, &mut Vec::new());
    assert_ne!(machine(&mut state, 1).gates.release, old);
    assert_eq!(machine(&mut state, 1).gates.release_since, Some(began));
    bypass(machine(&mut state, 1), &now);
    evaluate(&mut state, &now, &mut Vec::new());
    assert_eq!(machine(&mut state, 1).gates.release_since, None);
}

#[test]
fn a_released_machine_is_held_again_in_the_turn_in_which_a_bypass_takes_the_other_one() {
    let released = |bypasses: bool| {
        evaluated(|state, now| {
            state.releasing = Some(machine_name(1));
            for port in &mut state.ports {
                port.listed = Some(now.instant);
            }
            let released = machine(state, 1);
            released.want.deletion = AT_HOOK;
            released.waiting_since = Some(now.stamp());
            released.stage = Stage::Released;
            released.required = Some(vec![true, true]);
            released.proven = Some(now.instant);
            for slot in &mut released.slots {
                (slot.member, slot.absent_reads) = (None, 2);
            }
            let other = machine(state, 2);
            other.want.deletion = AT_HOOK;
            if bypasses {
                bypass(other, now);
            }
        })
    };
    let is_open = |state: &State, index| {
        let machine = &state.machines[&machine_name(index)];
        machine.gates.release.is_open()
    };
    let alone = released(false);
    assert!(is_open(&alone, 1) && !is_open(&alone, 2));
    let both = released(true);
    assert!(!is_open(&both, 1) && is_open(&both, 2));
}

#[test]
fn a_decision_is_recorded_when_its_label_or_reason_changes() {
    let decisions = |state: &mut State, now: &Now| {
        let mut effects = Vec::new();
        evaluate(state, now, &mut effects);
        let found = effects.into_iter().filter_map(|effect| match effect {
            Effect::Record(MetricEvent::Decision(GateName::Release, state, _)) => Some(state),
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    let (mut state, mut now) = state();
    assert_eq!(decisions(&mut state, &now), []);
    machine(&mut state, 1).want.deletion = AT_HOOK;
    let no_other = |state: &mut State, port| {
        member(state, 2, port).provisioning = ProvisioningStatus::Error;
    };
    no_other(&mut state, 1);
    let first = decisions(&mut state, &now);
    assert_eq!(first, [GateState::Held]);
    assert_eq!(decisions(&mut state, &now), []);
    // The same reason on another port does not count as a new decision in the metrics.
    no_other(&mut state, 0);
    let before = machine(&mut state, 1).gates.release;
    assert_eq!(decisions(&mut state, &now), []);
    assert_ne!(machine(&mut state, 1).gates.release, before);
    now.instant += Duration::from_secs(7);
    bypass(machine(&mut state, 1), &now);
    let mut effects = Vec::new();
    evaluate(&mut state, &now, &mut effects);
    let opened = MetricEvent::Decision(
        GateName::Release,
        GateState::Bypassed,
        Reason::OperatorBypass,
    );
    assert!(effects.contains(&Effect::Record(opened)));
    let ended = effects.iter().any(|effect| {
        matches!(
            effect,
            Effect::Record(MetricEvent::HoldEnded(GateName::Release, _, held))
                if *held == Duration::from_secs(7)
        )
    });
    assert!(ended, "{effects:?}");
    // Nothing waits for the gate any more.
    machine(&mut state, 1).want.deletion = Deletion::No;
    assert_eq!(decisions(&mut state, &now), []);
}

#[test]
fn a_release_that_began_goes_on_before_the_hook_and_none_begins_there() {
    let release = |stage: Stage| {
        first(move |state, _| {
            machine(state, 1).want.deletion = BEFORE_HOOK;
            machine(state, 1).stage = stage;
        })
        .gates
        .release
    };
    assert_eq!(release(Stage::Serving), GateDecision::NotEvaluated);
    let draining = release(Stage::Draining);
    assert!(matches!(draining, GateDecision::Held(_)), "{draining:?}");
}

#[test]
fn an_api_server_is_probed_again_after_the_gap_and_not_twice_at_a_time() {
    let probed_if = |joins: bool, sent: Option<Duration>, is_under_way: bool| {
        let (mut state, now) = state();
        state.reads.probes_wanted = true;
        if joins {
            weigh(&mut state, 1, 1, 1, false);
            let detail = member(&mut state, 1, 1).detail.as_mut().unwrap();
            detail.tags.push(JOINING.to_owned());
        }
        let cluster = &mut state.desired.as_mut().unwrap().cluster;
        cluster.ca_pem = Lookup::Found("PEM".to_owned());
        cluster.initialised = false;
        for machine in state.machines.values_mut() {
            machine.probe.under_way = true;
        }
        let first = &mut machine(&mut state, 1).probe;
        first.sent = sent.map(|age| ago(&now, age));
        first.under_way = is_under_way;
        let mut effects = Vec::new();
        start_calls(&mut state, &now, &mut effects);
        let probes = effects.iter().filter(
            |effect| matches!(effect, Effect::Probe { machine, .. } if *machine == machine_name(1)),
        );
        probes.count()
    };
    let probed = |sent, is_under_way| probed_if(false, sent, is_under_way);
    assert_eq!(probed(None, false), 1);
    assert_eq!(probed(Some(PROBE_GAP), false), 1);
    assert_eq!(probed(PROBE_GAP.checked_sub(STEP), false), 0);
    assert_eq!(probed(Some(PROBE_GAP), true), 0);
    // A member that was created disabled is enabled as soon as its API server is up.
    assert_eq!(probed_if(true, Some(JOINING_PROBE_GAP), false), 1);
    assert_eq!(
        probed_if(true, JOINING_PROBE_GAP.checked_sub(STEP), false),
        0
    );
    assert_eq!(probed_if(true, Some(JOINING_PROBE_GAP), true), 0);
}

#[test]
fn api_servers_are_probed_while_a_member_joins_or_health_decides() {
    assert!(!evaluated(|_, _| ()).reads.probes_wanted);
    let joining = evaluated(|state, _| {
        weigh(state, 2, 1, 1, false);
        let detail = member(state, 2, 1).detail.as_mut().unwrap();
        detail.tags.push(JOINING.to_owned());
    });
    assert!(joining.reads.probes_wanted && !joining.reads.health_wanted);
    let asked = evaluated(|state, _| machine(state, 1).want.deletion = AT_HOOK);
    assert!(asked.reads.probes_wanted && asked.reads.health_wanted);
}

#[test]
fn a_machine_that_is_paused_before_its_release_begins_holds_up_no_other_one() {
    for (stage, releasing) in [
        (Stage::Serving, Some(machine_name(2))),
        (Stage::Draining, None),
    ] {
        let state = evaluated(|state, _| {
            for index in [1, 2] {
                machine(state, index).want.deletion = AT_HOOK;
            }
            machine(state, 1).want.paused = true;
            machine(state, 1).stage = stage;
        });
        assert_eq!(state.releasing, releasing, "{stage:?}");
    }
}

#[test]
fn a_release_that_has_begun_is_carried_on_though_one_behind_it_could_begin() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    for index in 1..=3 {
        world.add_serving(index);
    }
    world.run(Duration::from_secs(600));
    let now = world.present();
    for (stage, releasing) in [(Stage::Serving, 2), (Stage::Draining, 1)] {
        let mut state = world.state.clone();
        state.reads.tree_read_at = Some(now.stamp());
        for index in [1, 2] {
            machine(&mut state, index).want.deletion = AT_HOOK;
        }
        let first = machine(&mut state, 1);
        first.stage = stage;
        // A release of the first machine was called off a moment ago.
        first.release_attempts.record(now.instant);
        evaluate(&mut state, &now, &mut Vec::new());
        assert_eq!(state.releasing, Some(machine_name(releasing)), "{stage:?}");
    }
}

//! Which machines count as leaving, and which API servers are known to be up.

use std::time::Duration;

use crate::{
    decide::{
        evaluation::Needs,
        release,
        serving::{any_release_is_open, is_known_to_be_up, is_leaving},
    },
    model::{
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{Deletion, ObservedCondition},
        evidence::Others,
        machine::{Machine, Stage},
        state::{FRESH, State},
    },
    tests::{
        pair::{STEP, UNHOOKED, ago, machine, state},
        world::machine_name,
    },
};

const SINCE: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

/// A machine at this point of its deletion and of its release.
fn at(deletion: Deletion, stage: Stage, is_open: bool) -> (State, Now) {
    let (mut known, now) = state();
    let machine = machine(&mut known, 1);
    machine.want.deletion = deletion;
    machine.stage = stage;
    machine.gates.release = if is_open {
        GateDecision::Open(GateCause::ServerDown)
    } else {
        GateDecision::Held(GateCause::Draining)
    };
    (known, now)
}

#[test]
fn a_machine_leaves_from_the_drain_or_the_opening_on() {
    use Stage::{Draining, Released, Serving};
    let before_hook = Deletion::BeforeHook { since: SINCE };
    let at_hook = Deletion::AtHook { since: SINCE };
    let out_of_band = Deletion::OutOfBand { since: SINCE };
    let after_hook = Deletion::AfterHook { since: SINCE };
    for (deletion, stage, is_open, expected) in [
        (Deletion::No, Released, true, false),
        (before_hook, Serving, true, false),
        (before_hook, Draining, false, true),
        (at_hook, Serving, false, false),
        (at_hook, Draining, false, true),
        (at_hook, Serving, true, true),
        (out_of_band, Serving, false, false),
        (out_of_band, Released, false, true),
        (out_of_band, Serving, true, true),
        (after_hook, Serving, false, true),
        (UNHOOKED, Serving, false, true),
    ] {
        let (mut state, _) = at(deletion, stage, is_open);
        let leaving = is_leaving(machine(&mut state, 1));
        assert_eq!(leaving, expected, "{deletion:?} {stage:?} {is_open}");
    }
}

#[test]
fn a_release_that_no_proof_opened_is_noticed_while_its_machine_still_serves() {
    let at_hook = Deletion::AtHook { since: SINCE };
    for (deletion, stage, is_open, expected) in [
        (at_hook, Stage::Serving, true, true),
        (at_hook, Stage::Serving, false, false),
        (at_hook, Stage::Released, true, false),
        (at_hook, Stage::Draining, false, false),
        (Deletion::No, Stage::Serving, true, false),
        (UNHOOKED, Stage::Serving, false, false),
    ] {
        let (state, _) = at(deletion, stage, is_open);
        let found = any_release_is_open(&state);
        assert_eq!(found, expected, "{deletion:?} {stage:?} {is_open}");
    }
}

#[test]
fn an_api_server_is_up_by_its_pod_or_where_there_is_none_by_its_node() {
    let up = |pod: ObservedCondition, node: ObservedCondition, kubeadm: bool| {
        let (mut state, now) = state();
        let plane = &mut state.desired.as_mut().unwrap().cluster;
        plane.kubeadm_control_plane = kubeadm;
        let machine: &mut Machine = machine(&mut state, 1);
        (machine.want.api_server_pod, machine.want.node) = (pod, node);
        machine.probe.seen = None;
        let machine = machine.clone();
        is_known_to_be_up(&state, &machine, &now)
    };
    let good = ObservedCondition::TrueSince(std::time::Instant::now());
    for (pod, node, kubeadm, expected) in [
        (good, ObservedCondition::Unknown, true, true),
        (good, ObservedCondition::False, false, true),
        (ObservedCondition::Unknown, good, true, false),
        (ObservedCondition::Unknown, good, false, true),
        (ObservedCondition::False, good, false, false),
        (
            ObservedCondition::Unknown,
            ObservedCondition::Unknown,
            false,
            false,
        ),
        (
            ObservedCondition::Unknown,
            ObservedCondition::False,
            true,
            false,
        ),
    ] {
        assert_eq!(
            up(pod, node, kubeadm),
            expected,
            "{pod:?} {node:?} {kubeadm}"
        );
    }
}

#[test]
fn a_release_stays_open_on_fresh_lists_only() {
    for (age, is_needed) in [(Duration::ZERO, false), (FRESH + STEP, true)] {
        let (mut state, now) = at(Deletion::AtHook { since: SINCE }, Stage::Released, true);
        for port in &mut state.ports {
            port.listed = Some(ago(&now, age));
        }
        state.releasing = Some(machine_name(1));
        let machine = machine(&mut state, 1).clone();
        let mut needs = Needs::default();
        let others = Some(Others::Serve);
        let name = machine_name(1);
        let found = release::rules(&state, &name, &machine, others, &now, &mut needs);
        assert!(matches!(found, GateDecision::Open(GateCause::Released(_))));
        assert_eq!(needs.lists, is_needed, "{age:?}");
    }
}

//! Which rule of a gate goes before which other rule.

use std::time::Duration;

use crate::{
    decide::precedence::blind,
    model::{
        desired::{Deletion, ServerState},
        event::Event,
        findings::Gate,
        trouble::Trouble,
    },
    tests::{
        events::trouble,
        pair,
        world::{World, machine_name},
    },
};
use capo_core::{GateOverride, GateState, Reason};

/// The decision of the release gate on the machine that leaves, as soon as everything on which it depends is known.
fn release(change: impl Fn(&mut World)) -> Option<(bool, Option<Reason>)> {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    change(&mut world);
    world.set_load_balancer();
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(1));
    let finding = world.findings.machines.get(&machine_name(1))?;
    Some(summary(&finding.release))
}

/// Whether a gate is open, and why.
fn summary(gate: &Gate) -> (bool, Option<Reason>) {
    let was_asked = gate.state != GateState::Unknown;
    (gate.is_open(), was_asked.then_some(gate.reason))
}

fn bypass(world: &mut World) {
    let until = world.present().wall + jiff::SignedDuration::from_secs(3600);
    world.desired.cluster.gate_override = GateOverride::Bypass {
        until,
        reason: "b".to_owned(),
    };
}

fn hold(world: &mut World) {
    world.change(&machine_name(1), |want| {
        want.gate_override = GateOverride::Hold {
            reason: "h".to_owned(),
        };
    });
}

#[test]
fn precedence() {
    type Change = fn(&mut World);
    let paused: Change = |world| world.desired.cluster.paused = true;
    let paused_machine: Change = |world| world.change(&machine_name(1), |want| want.paused = true);
    let deleting: Change = |world| world.desired.cluster.cluster_deleting = true;
    let disabled: Change = |world| world.desired.enabled = false;
    let held = |reason| Some((false, Some(reason)));
    let open = |reason| Some((true, Some(reason)));
    let table: [(&str, &[Change], Option<(bool, Option<Reason>)>); 12] = [
        ("nothing", &[], held(Reason::NoOtherMemberServing)),
        (
            "paused over all",
            &[paused, deleting, bypass, hold, disabled],
            held(Reason::Paused),
        ),
        (
            "machine paused over all",
            &[paused_machine, deleting, bypass],
            held(Reason::Paused),
        ),
        (
            "deleting over bypass",
            &[deleting, bypass],
            open(Reason::ClusterDeleting),
        ),
        (
            "deleting over hold",
            &[deleting, hold],
            open(Reason::ClusterDeleting),
        ),
        ("deleting", &[deleting], open(Reason::ClusterDeleting)),
        (
            "bypass over hold",
            &[bypass, hold],
            open(Reason::OperatorBypass),
        ),
        ("bypass", &[bypass], open(Reason::OperatorBypass)),
        (
            "hold over disabled",
            &[hold, disabled],
            held(Reason::OperatorHold),
        ),
        ("hold", &[hold], held(Reason::OperatorHold)),
        ("disabled", &[disabled], open(Reason::LoadBalancerDisabled)),
        (
            "disabled over the rules",
            &[disabled],
            open(Reason::LoadBalancerDisabled),
        ),
    ];
    for (name, changes, expected) in table {
        let found = release(|world| {
            for change in changes {
                change(world);
            }
        });
        assert_eq!(found, expected, "{name}");
    }
}

/// The decision of the admission gate on a new machine whose member is ACTIVE.
fn admission(change: impl Fn(&mut World)) -> Option<(bool, Option<Reason>)> {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    world.add_serving(2);
    world.add(1, false, Deletion::No);
    world.run(Duration::from_secs(200));
    change(&mut world);
    world.set_load_balancer();
    world.set_machine(&machine_name(1));
    world.run(Duration::from_secs(1));
    let finding = world.findings.machines.get(&machine_name(1))?;
    Some(summary(&finding.admission))
}

#[test]
fn admission_asks_in_this_order() {
    type Change = fn(&mut World);
    let paused: Change = |world| world.desired.cluster.paused = true;
    let paused_machine: Change = |world| world.change(&machine_name(1), |want| want.paused = true);
    let no_server: Change = |world| {
        world.change(&machine_name(1), |want| {
            want.server.state = ServerState::Other;
        });
    };
    let admitted: Change = |world| world.change(&machine_name(1), |want| want.admitted = true);
    let disabled: Change = |world| world.desired.enabled = false;
    let no_member: Change = |world| {
        world.change(&machine_name(1), |want| {
            want.address = Some(super::world::address(9));
        });
    };
    let held = |reason| Some((false, Some(reason)));
    let open = |reason| Some((true, Some(reason)));
    let table: [(&str, &[Change], Option<(bool, Option<Reason>)>); 12] = [
        ("nothing", &[], open(Reason::MembersActive)),
        ("paused", &[paused], held(Reason::Paused)),
        ("machine paused", &[paused_machine], held(Reason::Paused)),
        (
            "admitted over paused",
            &[admitted, paused, no_server],
            open(Reason::MachineAdmitted),
        ),
        (
            "paused over all else",
            &[paused, no_server, bypass, hold, disabled],
            held(Reason::Paused),
        ),
        ("no server", &[no_server], held(Reason::ServerNotReady)),
        (
            "no server over bypass",
            &[no_server, bypass],
            held(Reason::ServerNotReady),
        ),
        (
            "bypass over hold",
            &[bypass, hold, no_member],
            open(Reason::OperatorBypass),
        ),
        (
            "hold over disabled",
            &[hold, disabled],
            held(Reason::OperatorHold),
        ),
        ("disabled", &[disabled], open(Reason::LoadBalancerDisabled)),
        ("another address", &[no_member], held(Reason::MemberMissing)),
        (
            "two claim it",
            &[|world| {
                world.step(Event::Claimed(Some(machine_name(7))));
            }],
            held(Reason::AmbiguousMatch),
        ),
    ];
    for (name, changes, expected) in table {
        let found = admission(|world| {
            for change in changes {
                change(world);
            }
        });
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn an_override_that_is_refused_changes_no_gate_and_is_reported() {
    let refused = |world: &mut World| {
        world.desired.cluster.gate_override = GateOverride::Refused {
            message: "`until` is missing".to_owned(),
        };
    };
    assert_eq!(
        release(refused),
        Some((false, Some(Reason::NoOtherMemberServing)))
    );
    let mut world = World::new(&[6443], Duration::from_secs(1));
    refused(&mut world);
    world.set_load_balancer();
    world.run(Duration::from_secs(60));
    assert!(
        world
            .findings
            .verdict
            .message
            .contains("`until` is missing")
    );
}

#[test]
fn one_failed_call_holds_no_gate_and_two_in_a_row_do() {
    for (failures, expected) in [(1, false), (2, true)] {
        let (mut state, now) = pair::state();
        state.trouble = Some(Trouble {
            failures,
            ..trouble(&now)
        });
        assert_eq!(blind(&state, &now).is_some(), expected, "{failures}");
    }
}

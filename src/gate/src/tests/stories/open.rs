//! What needs no proof, and what stops every gate and write.

use super::{SECOND, gone, held, member_of, seconds, world};
use crate::{
    model::{
        desired::{Deletion, ServerState},
        findings::Gate,
    },
    tests::{
        model::Fate,
        world::{Line, World, address, machine_name},
    },
};
use capo_core::{
    ConditionStatus, FailureClass, GateMode, GateOverride, GateState, ProvisioningStatus, Reason,
};

#[test]
fn what_needs_no_proof_waits_for_nothing() {
    // The Cluster is deleted, even while OpenStack does not answer.
    let mut w = world(1);
    w.line.extend([Line::Down(FailureClass::Transient); 500]);
    w.delete(&machine_name(1));
    w.run(seconds(60));
    assert!(held(&w, 1).is_some());
    w.desired.cluster.cluster_deleting = true;
    w.set_load_balancer();
    w.run(seconds(2));
    assert!(gone(&w, 1));

    // The control plane was never initialised. This is known once health monitors have had the time to find a member
    // ONLINE.
    let mut w = World::new(&[6443], SECOND);
    w.desired.cluster.initialised = false;
    w.set_load_balancer();
    w.add(1, true, Deletion::No);
    w.delete(&machine_name(1));
    w.run(seconds(30));
    assert!(!gone(&w, 1));
    w.run(seconds(60));
    assert!(gone(&w, 1));

    // With an API server that answers, the control plane counts as initialised, whatever the status says.
    let mut w = World::new(&[6443], SECOND);
    w.desired.cluster.initialised = false;
    w.set_load_balancer();
    w.add_serving(1);
    w.delete(&machine_name(1));
    w.run(seconds(600));
    assert!(!gone(&w, 1));

    // The server of the machine is down.
    let mut w = world(2);
    for index in [1, 2] {
        w.model.up.remove(&address(index));
    }
    let now = w.now;
    w.change(&machine_name(1), |want| {
        want.server.state = ServerState::Shutoff;
        want.server.down_since = Some(now);
    });
    w.delete(&machine_name(1));
    w.run(seconds(120));
    assert!(gone(&w, 1));

    // A user removes the hook.
    let mut w = world(1);
    w.delete(&machine_name(1));
    w.run(seconds(100));
    assert!(!gone(&w, 1));
    w.change(&machine_name(1), |want| {
        if let Deletion::AtHook { since } = want.deletion {
            want.deletion = Deletion::Unhooked { since };
        }
    });
    w.run(seconds(20));
    assert!(gone(&w, 1));
    assert_eq!(member_of(&w, 1), None);
}

#[test]
fn a_machine_that_never_was_admitted_goes_when_it_does_not_serve() {
    let mut world = world(1);
    world.controllers = false;
    world.add(2, false, Deletion::No);
    world.run(seconds(30));
    world.controllers = true;
    world.delete(&machine_name(2));
    world.run(seconds(150));
    assert!(gone(&world, 2));
    assert!(!gone(&world, 1));
}

#[test]
fn paused_means_no_write_and_a_hold_goes_before_what_needs_no_proof() {
    let mut world = world(2);
    world.desired.cluster.paused = true;
    world.set_load_balancer();
    let writes = world.tally.writes;
    world.delete(&machine_name(1));
    world.add(3, false, Deletion::No);
    for member in world.model.members_mut() {
        member.provisioning = ProvisioningStatus::Error;
    }
    world.run(seconds(900));
    assert_eq!(world.tally.writes, writes);
    assert_eq!(held(&world, 1), Some(Reason::Paused));
    world.desired.cluster.paused = false;
    world.desired.cluster.gate_override = GateOverride::Hold {
        reason: "wait".to_owned(),
    };
    world.set_load_balancer();
    world.change(&machine_name(1), |want| {
        if let Deletion::AtHook { since } = want.deletion {
            want.deletion = Deletion::Unhooked { since };
        }
    });
    world.run(seconds(300));
    assert!(!gone(&world, 1));
    assert!(member_of(&world, 1).is_some());
}

#[test]
fn gate_modes_off_and_observe_never_hold() {
    for mode in [GateMode::Off, GateMode::Observe] {
        let mut world = World::new(&[6443], SECOND);
        world.settings.mode = mode;
        world.desired.cluster.gate_override = GateOverride::Hold {
            reason: "freeze".to_owned(),
        };
        world.restart();
        world
            .model
            .fates
            .extend([Fate::Fine, Fate::Fine, Fate::Fine, Fate::Lost]);
        world.add(1, false, Deletion::No);
        world.run(seconds(30));
        assert!(
            world
                .nodes
                .get(&machine_name(1))
                .is_some_and(|node| node.want.admitted)
        );
        assert_eq!(world.findings.verdict.status, ConditionStatus::False);
        world.delete(&machine_name(1));
        world.run(seconds(2));
        assert!(matches!(
            world
                .nodes
                .get(&machine_name(1))
                .map(|node| node.want.deletion),
            Some(Deletion::Unhooked { .. })
        ));
        world.run(seconds(300));
        assert!(gone(&world, 1));
    }
}

#[test]
fn what_needs_no_proof_opens_on_a_fresh_read_only() {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.controllers = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(400));
    let trees = world.tally.trees;
    world.latency = seconds(1);
    let now = world.now;
    world.change(&machine_name(1), |want| {
        want.server.state = ServerState::Shutoff;
        want.server.down_since = now.checked_sub(seconds(30));
        want.server.read_at = Some(now);
    });
    world.delete(&machine_name(1));
    assert!(held(&world, 1).is_some());
    world.run(seconds(2));
    assert_eq!(held(&world, 1), None);
    assert!(world.tally.trees > trees);
}

/// The admission gate of a machine whose member stays PENDING.
fn admission(change: impl Fn(&mut World)) -> Option<Gate> {
    let mut world = world(1);
    world.controllers = false;
    world.model.fates.push(Fate::Hangs(600));
    let name = world.add(2, false, Deletion::No);
    world.run(seconds(10));
    change(&mut world);
    world.set_load_balancer();
    world.run(SECOND);
    let finding = world.findings.machines.get(&name);
    finding.map(|finding| finding.admission.clone())
}

#[test]
fn admission_has_the_precedence_of_every_gate_and_observe_reports_a_hold() {
    let hold = GateOverride::Hold {
        reason: "freeze".to_owned(),
    };
    let under_hold = admission(|world| world.desired.cluster.gate_override = hold.clone());
    assert!(
        matches!(
            under_hold,
            Some(Gate {
                state: GateState::Held,
                reason: Reason::OperatorHold,
                ..
            })
        ),
        "{under_hold:?}"
    );
    let deleting = admission(|world| {
        world.desired.cluster.gate_override = hold.clone();
        world.desired.cluster.cluster_deleting = true;
    });
    assert!(deleting.as_ref().is_some_and(Gate::is_open), "{deleting:?}");
    let paused = admission(|world| {
        world.desired.cluster.cluster_deleting = true;
        world.desired.cluster.paused = true;
    });
    assert!(
        matches!(
            paused,
            Some(Gate {
                state: GateState::Held,
                reason: Reason::Paused,
                ..
            })
        ),
        "{paused:?}"
    );
    let observed = admission(|world| {
        world.desired.cluster.gate_override = hold.clone();
        world.state.settings.mode = GateMode::Observe;
    });
    let Some(Gate {
        state: GateState::Open,
        message,
        ..
    }) = observed
    else {
        panic!("{observed:?}");
    };
    assert!(
        message.contains("only observes")
            && message.contains("An annotation by the operator holds it"),
        "{message}"
    );
}

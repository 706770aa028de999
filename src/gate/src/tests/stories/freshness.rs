//! A gate depends on what is true now: on reads that Octavia can't revert, and on no read that is too old when a
//! controller acts on the gate.

use std::collections::BTreeSet;

use super::{SECOND, gone, held, member_of, run_with_reads_of_servers, seconds, world};
use crate::{
    model::{call::Call, desired::Deletion, event::Event, findings::Gate, machine::Stage},
    report::report,
    tests::world::{AtEndpoint, Line, World, address, machine_name},
};
use capo_core::{FailureClass, GateState, ProvisioningStatus, Reason};

/// A third machine whose member Octavia shows as ACTIVE while the pool is still PENDING.
fn with_a_pending_pool() -> World {
    let mut world = world(2);
    world.add(3, false, Deletion::No);
    let is_active = |world: &World| member_of(world, 3) == Some(ProvisioningStatus::Active);
    while !is_active(&world) {
        world.run(SECOND / 20);
        world.model.advance(world.now);
        assert!(world.at() < 1000.0);
    }
    for pool in &mut world.model.pools {
        pool.provisioning = ProvisioningStatus::PendingUpdate;
    }
    world.tally.trees = 0;
    world
}

fn read_trees(world: &mut World, trees: u32) {
    while world.tally.trees < trees {
        world.run(SECOND / 10);
        assert!(world.at() < 1000.0);
    }
    world.run(SECOND / 10);
}

#[test]
fn a_member_that_is_active_in_a_pending_pool_counts_once_two_reads_have_seen_it() {
    let mut world = with_a_pending_pool();
    read_trees(&mut world, 1);
    assert_eq!(world.tally.admissions, 0);
    read_trees(&mut world, 2);
    assert_eq!(world.tally.admissions, 1);
}

#[test]
fn a_member_whose_creation_octavia_reverts_is_not_admitted_on_the_first_read() {
    let mut world = with_a_pending_pool();
    read_trees(&mut world, 1);
    for member in world.model.members_mut() {
        if member.address == address(3) {
            member.provisioning = ProvisioningStatus::Error;
        }
    }
    read_trees(&mut world, 2);
    assert_eq!(world.tally.admissions, 0);
}

#[test]
fn weights_and_admin_states_of_the_others_are_read_again_right_before_the_hook_goes() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    while member_of(&world, 1).is_some() {
        world.run(SECOND / 10);
        assert!(world.at() < 1000.0);
    }
    // Requests are answered by some server. The operator has disabled the only other member since.
    world.endpoint = AtEndpoint::Lies;
    for member in world.model.members_mut() {
        member.admin_up = false;
    }
    world.run(seconds(60));
    assert!(!gone(&world, 1), "{:?}", held(&world, 1));
    assert!(member_of(&world, 1).is_some());
}

/// A world in which the release gate of machine 1 is open and its hook is still there.
fn released() -> World {
    let mut world = world(2);
    world.controllers = false;
    world.delete(&machine_name(1));
    run_with_reads_of_servers(&mut world, seconds(60));
    let finding = &world.findings.machines[&machine_name(1)];
    assert!(finding.release.is_open(), "{:?}", finding.release);
    world
}

#[test]
fn after_a_pause_a_release_that_was_open_needs_answers_and_weights_again() {
    let mut world = released();
    world.desired.cluster.paused = true;
    world.set_load_balancer();
    run_with_reads_of_servers(&mut world, seconds(90));
    for member in world.model.members_mut() {
        member.admin_up = false;
    }
    world.desired.cluster.paused = false;
    world.set_load_balancer();
    world.step(Event::Nudged);
    run_with_reads_of_servers(&mut world, seconds(30));
    assert!(member_of(&world, 1).is_some());
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
}

/// The tree does not show weights and admin states. Kubernetes is unreachable for a while, so the hook is still there.
#[test]
fn a_release_is_acted_on_while_the_lists_of_members_are_fresh_too() {
    let mut world = released();
    let mut lists = BTreeSet::new();
    for _ in 0..600 {
        run_with_reads_of_servers(&mut world, SECOND / 10);
        let (now, fresh_for) = (world.present(), world.state.fresh_for());
        let findings = report(&world.state, &now);
        let gate = &findings.machines[&machine_name(1)].release;
        let listed = world.state.ports[0].listed.unwrap();
        let expected = now.since(listed) <= fresh_for;
        assert_eq!(findings.may_act_on(gate, now.instant), expected, "{gate:?}");
        lists.insert(listed);
    }
    // The lists are read again for as long as Kubernetes is unreachable.
    assert!(lists.len() > 2, "{lists:?}");
}

/// The state of members decides whether a machine serves or has ever served.
#[test]
fn every_gate_that_rests_on_members_is_acted_on_while_they_are_fresh_only() {
    let mut findings = report(&world(1).state, &world(1).present());
    let now = findings.fresh_until.unwrap();
    let later = now + SECOND;
    let open = |reason| Gate::open(reason, "");
    for (reason, acts) in [
        (Reason::MembersActive, false),
        (Reason::MachineReleased, false),
        (Reason::MachineDoesNotServe, false),
        (Reason::MachineNeverServed, false),
        (Reason::ServerGone, true),
        (Reason::LoadBalancerDisabled, true),
    ] {
        assert!(findings.may_act_on(&open(reason), now), "{reason:?}");
        assert_eq!(
            findings.may_act_on(&open(reason), later),
            acts,
            "{reason:?}"
        );
    }
    // A gate that holds is never acted on, and a bypass at any time.
    for reason in [Reason::MemberPending, Reason::MembersActive] {
        let held = Gate::held(reason, "", world(1).present().wall);
        assert!(!findings.may_act_on(&held, now), "{reason:?}");
        let bypassed = Gate {
            state: GateState::Bypassed,
            ..open(reason)
        };
        assert!(findings.may_act_on(&bypassed, later), "{reason:?}");
    }
    // A read in which everything has vanished shows nothing to act on.
    let mut suspect = world(1).state;
    suspect.reads.suspect = true;
    let findings_of_it = report(&suspect, &world(1).present());
    for reason in [Reason::MachineReleased, Reason::MachineNeverServed] {
        let gate = open(reason);
        assert!(!findings_of_it.may_act_on(&gate, now), "{reason:?}");
    }
    // Without a load balancer there is nothing to read.
    findings.fresh_until = None;
    assert!(findings.may_act_on(&open(Reason::MachineNeverServed), later));
    assert!(!findings.may_act_on(&open(Reason::MembersActive), later));
}

#[test]
fn a_gate_that_opened_long_ago_is_not_acted_on_before_a_new_read() {
    let mut world = world(2);
    world.controllers = false;
    let name = world.add(3, false, Deletion::No);
    world.run(seconds(10));
    let may_act = |world: &mut World| {
        let now = world.present();
        let findings = report(&world.state, &now);
        let gate = &findings.machines[&name].admission;
        assert!(gate.is_open(), "{gate:?}");
        findings.may_act_on(gate, now.instant)
    };
    assert!(may_act(&mut world));
    // Kubernetes was unreachable for a while.
    world.run(seconds(60));
    assert!(!may_act(&mut world));
    world.step(Event::Nudged);
    world.run(seconds(3));
    assert!(may_act(&mut world));
}

/// Octavia and its health manager are down, so what they show first when they come back is two hours old.
#[test]
fn requests_that_were_answered_long_ago_are_made_again() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    let is_confirming =
        |world: &World| world.state.machines[&machine_name(1)].stage == Stage::Confirming;
    while !is_confirming(&world) {
        world.run(SECOND / 20);
        assert!(world.at() < 1_000.0);
    }
    world.fault = |call| match call {
        Call::Write(_) => None,
        _ => Some(Line::Down(FailureClass::Transient)),
    };
    world.model.health_unreported.insert(address(2));
    world.run(seconds(120));
    world.fall(address(2));
    world.run(seconds(7_200));
    assert!(!gone(&world, 1));
    world.fault = |_| None;
    world.run(seconds(120));
    assert!(!gone(&world, 1));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
}

/// Kubernetes accepts no writes for a while, so the hook is still there.
#[test]
fn a_release_that_is_open_for_long_rests_on_requests_of_the_last_minute() {
    let mut world = world(2);
    world.controllers = false;
    world.delete(&machine_name(1));
    run_with_reads_of_servers(&mut world, seconds(60));
    assert!(world.findings.machines[&machine_name(1)].release.is_open());
    let requests = world.tally.requests;
    run_with_reads_of_servers(&mut world, seconds(600));
    assert!(world.tally.requests >= requests + 9 * 5);
    world.model.health_unreported.insert(address(2));
    world.fall(address(2));
    run_with_reads_of_servers(&mut world, seconds(80));
    assert!(!world.findings.machines[&machine_name(1)].release.is_open());
}

//! A gate rests on what is true now: reads that can't be reverted, and none that is old when the gate is acted on.

use super::{SECOND, gone, held, member_of, seconds, world};
use crate::{
    model::{desired::Deletion, event::Event, findings::Gate},
    report::report,
    tests::world::{AtEndpoint, World, address, machine_name},
};
use capo_core::ProvisioningStatus;

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
    // Requests are answered, by whatever; the operator has disabled the only other member meanwhile.
    world.endpoint = AtEndpoint::Lies;
    for member in world.model.members_mut() {
        member.admin_up = false;
    }
    world.run(seconds(60));
    assert!(!gone(&world, 1), "{:?}", held(&world, 1));
    assert!(member_of(&world, 1).is_some());
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
        assert!(matches!(gate, Gate::Open { .. }), "{gate:?}");
        findings.may_act_on(gate, now.instant)
    };
    assert!(may_act(&mut world));
    // Kubernetes could not be reached for a while.
    world.run(seconds(60));
    assert!(!may_act(&mut world));
    world.step(Event::Nudged);
    world.run(seconds(3));
    assert!(may_act(&mut world));
}

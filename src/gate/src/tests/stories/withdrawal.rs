//! A write that waits for the request budget is sent only if it is still wanted.

use super::{SECOND, gone, member_of, seconds, world};
use crate::{
    model::desired::{Deletion, ServerState},
    tests::{
        model::Fate,
        world::{World, address, machine_name},
    },
};
use capo_core::ProvisioningStatus;

/// The seconds for which every call waits for the request budget.
const WAIT: u64 = 30;

/// Runs the world until a write waits for the request budget.
fn until_a_write_waits(world: &mut World) {
    let is_write = |world: &World| {
        world
            .state
            .call
            .as_ref()
            .is_some_and(|call| matches!(call.purpose, crate::model::call::Purpose::Write(_)))
    };
    let begun = world.at();
    while !is_write(world) {
        world.run(SECOND / 10);
        if world.at() > begun + 1000.0 {
            world.fail("no write");
        }
    }
}

#[test]
fn a_write_in_the_queue_is_not_sent_once_the_cluster_is_paused() {
    let mut world = world(1);
    world.queue_wait = seconds(WAIT);
    world.add(2, false, Deletion::No);
    until_a_write_waits(&mut world);
    let written = world.model.writes.len();
    world.desired.cluster.paused = true;
    world.set_load_balancer();
    world.run(seconds(300));
    assert_eq!(world.model.writes.len(), written);
    world.desired.cluster.paused = false;
    world.set_load_balancer();
    world.run(seconds(300));
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Active));
}

#[test]
fn a_drain_in_the_queue_is_not_sent_once_the_other_one_is_unhealthy() {
    let mut world = world(2);
    world.queue_wait = seconds(WAIT);
    world.delete(&machine_name(1));
    until_a_write_waits(&mut world);
    world.change(&machine_name(2), |want| {
        want.api_server_pod = crate::model::desired::ObservedCondition::False;
    });
    world.run(seconds(600));
    assert_eq!(world.tally.drains, 0);
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
}

#[test]
fn a_member_in_the_queue_is_not_created_for_a_machine_that_is_gone() {
    let mut world = world(1);
    world.queue_wait = seconds(WAIT);
    let name = world.add(2, false, Deletion::No);
    until_a_write_waits(&mut world);
    world.turn(crate::tests::world::Todo::Finish(name));
    world.run(seconds(300));
    assert!(
        !world
            .model
            .members()
            .any(|member| member.address == address(2))
    );
}

/// The release had begun by the rules when the server was shut down.
#[test]
fn the_deletion_of_a_member_is_sent_whose_release_opened_without_the_rules() {
    let mut world = World::new(&[6443, 8132], SECOND);
    world.settings.drain_grace = seconds(300);
    world.restart();
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(600));
    world.delete(&machine_name(1));
    while world.tally.drains < 2 {
        world.run(SECOND);
        assert!(world.at() < 1_000.0);
    }
    world.fall(address(1));
    let down_since = world.now.checked_sub(seconds(30));
    world.change(&machine_name(1), |want| {
        want.server.state = ServerState::Shutoff;
        want.server.down_since = down_since;
    });
    world.run(seconds(600));
    assert!(gone(&world, 1) && member_of(&world, 1).is_none());
}

/// A release was called off while its member was in ERROR.
#[test]
fn the_deletion_is_sent_that_replaces_a_member_whose_release_was_called_off() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    while world.tally.drains == 0 {
        world.run(SECOND / 10);
    }
    world.change(&machine_name(2), |want| {
        want.api_server_pod = crate::model::desired::ObservedCondition::False;
    });
    // The drain, the write that puts the member back and the repair: every operation fails.
    world.model.fates = vec![Fate::Fails; 3];
    world.run(seconds(120));
    let good = crate::model::desired::ObservedCondition::TrueSince(world.now);
    world.change(&machine_name(2), |want| want.api_server_pod = good);
    world.noting = true;
    world.run(seconds(300));
    let withdrawn = world.log.iter().filter(|line| line.contains("withdrawn"));
    assert_eq!(withdrawn.count(), 0);
}

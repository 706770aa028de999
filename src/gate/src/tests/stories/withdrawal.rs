//! A write that waits for the request budget is sent only if it is still wanted.

use super::{SECOND, gone, member_of, seconds, world};
use crate::{
    model::desired::Deletion,
    tests::world::{World, address, machine_name},
};
use capo_core::ProvisioningStatus;

/// Every call waits this long for the request budget.
const WAIT: u64 = 30;

/// A write waits for the request budget.
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
    world.hand_over_load_balancer();
    world.run(seconds(300));
    assert_eq!(world.model.writes.len(), written);
    world.desired.cluster.paused = false;
    world.hand_over_load_balancer();
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
        want.api_server_pod = crate::model::desired::Health::Bad;
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

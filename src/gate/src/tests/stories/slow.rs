//! Octavia answers slowly, or calls wait for the request budget. Gates open all the same.

use std::time::Duration;

use super::{SECOND, gone, held, seconds};
use crate::{
    model::desired::Deletion,
    tests::world::{World, machine_name},
};

/// The seconds that Octavia takes for every answer.
const SLOW: [u64; 4] = [5, 8, 12, 25];

fn slow(ports: &[u16], latency: Duration, queue_wait: Duration) -> World {
    let mut world = World::new(ports, SECOND);
    for index in 1..=2 {
        world.add_serving(index);
    }
    world.run(seconds(400));
    world.latency = latency;
    world.queue_wait = queue_wait;
    world
}

fn is_admitted(world: &World, index: u8) -> bool {
    world
        .nodes
        .get(&machine_name(index))
        .is_some_and(|node| node.want.admitted)
}

#[test]
fn a_machine_whose_member_is_active_is_admitted_however_slow_octavia_is() {
    for (ports, latency) in [
        (&[6443][..], 12),
        (&[6443, 8132][..], 12),
        (&[6443][..], 25),
    ] {
        let mut world = slow(ports, seconds(latency), Duration::ZERO);
        world
            .model
            .up
            .insert(crate::tests::world::address(3), world.now);
        world.add(3, false, Deletion::No);
        world.run(seconds(20 * latency));
        assert!(is_admitted(&world, 3), "{} ports, {latency} s", ports.len());
    }
}

#[test]
fn a_release_ends_however_slow_octavia_is() {
    for ports in [&[6443][..], &[6443, 8132][..]] {
        for latency in SLOW {
            let mut world = slow(ports, seconds(latency), Duration::ZERO);
            world.delete(&machine_name(1));
            world.run(seconds(300 + 40 * latency));
            let ports = ports.len();
            assert!(
                gone(&world, 1),
                "{ports} ports, {latency} s: {:?}",
                held(&world, 1)
            );
        }
    }
}

/// If the tree and the lists are read one after the other, each is out of date when the other one arrives.
#[test]
fn a_release_begins_however_long_the_queue_of_our_own_budget_is() {
    for queue_wait in [8, 16, 30, 59] {
        let mut world = slow(&[6443], Duration::from_millis(20), seconds(queue_wait));
        world.delete(&machine_name(1));
        world.run(seconds(30 * queue_wait));
        assert!(gone(&world, 1), "{queue_wait} s: {:?}", held(&world, 1));
    }
}

/// A call that waits in our own queue is not old when it is sent.
#[test]
fn a_read_is_as_old_as_its_request_and_not_as_its_place_in_the_queue() {
    let mut world = slow(&[6443, 8132], SECOND, seconds(40));
    world
        .model
        .up
        .insert(crate::tests::world::address(3), world.now);
    world.add(3, false, Deletion::No);
    world.run(seconds(2_000));
    assert!(is_admitted(&world, 3));
    world.delete(&machine_name(1));
    world.run(seconds(3_000));
    assert!(gone(&world, 1), "{:?}", held(&world, 1));
}

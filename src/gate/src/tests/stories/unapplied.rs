//! The data path does not follow Octavia: it goes on sending clients to a machine whose member Octavia shows as
//! drained, and even as deleted.

use super::{SECOND, gone, member_of, seconds, world};
use crate::tests::{
    explore::is_deep,
    world::{AtEndpoint, World, machine_name},
};

/// That many machines behind a settled load balancer, whose data path does not change any more.
fn unapplied(machines: u8, change: fn(&mut World)) -> World {
    let mut world = World::new(&[6443], SECOND);
    change(&mut world);
    world.set_load_balancer();
    for index in 1..=machines {
        world.add_serving(index);
    }
    world.run(seconds(400));
    world.set_endpoint(AtEndpoint::Unchanged);
    world.delete(&machine_name(1));
    world
}

fn ovn(world: &mut World) {
    world.model.ovn = true;
    world.desired.provider = "ovn".to_owned();
}

/// A machine that goes on getting its share of the clients is never let go, and is let go when the data path follows
/// again.
fn stays(way: &str, change: fn(&mut World)) {
    let (numbers, hours): (&[u8], _) = if is_deep() {
        (&[2, 3, 4, 5, 6, 7], 6)
    } else {
        (&[2, 3, 7], 2)
    };
    for machines in numbers {
        let mut world = unapplied(*machines, change);
        world.run(seconds(hours * 3_600));
        assert!(!gone(&world, 1), "{machines} machines, {way}");
        assert!(member_of(&world, 1).is_some(), "{machines} machines, {way}");
        world.set_endpoint(AtEndpoint::LoadBalancer);
        world.run(seconds(900));
        assert!(gone(&world, 1), "{machines} machines, {way}");
    }
}

#[test]
fn a_machine_that_still_gets_clients_in_turn_stays_however_many_others_there_are() {
    stays("in turn", |_| ());
}

#[test]
fn a_machine_of_a_busy_load_balancer_that_still_gets_clients_stays_however_many_others_there_are() {
    stays("busy", |world| world.model.busy = true);
}

#[test]
fn a_machine_that_still_gets_clients_from_ovn_stays_however_many_others_there_are() {
    stays("OVN", ovn);
}

/// Each of these endpoints answers everything, so enough answers in a row come.
#[test]
fn a_slow_endpoint_of_many_machines_is_waited_for() {
    let mut world = world(5);
    world.reply_time = seconds(2);
    world.delete(&machine_name(1));
    world.run(seconds(200));
    assert!(gone(&world, 1));
    assert_eq!(world.tally.restores, 0);
}

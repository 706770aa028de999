//! Members that get no new connections: some were drained by capo-rs, others by an operator.

use super::{SECOND, gone, seconds, world};
use crate::{
    model::{desired::Deletion, member::LEAVING, octavia::Change},
    tests::world::{World, address, machine_name},
};

/// The weight of a machine's member, and whether it has the tag of a release.
fn drained(world: &World, index: u8) -> Option<(u32, bool)> {
    let mut members = world.model.members();
    let member = members.find(|member| member.address == address(index))?;
    Some((member.weight, member.tags.iter().any(|tag| tag == LEAVING)))
}

fn drain(world: &mut World, index: u8, by_us: bool) {
    for member in world.model.members_mut() {
        if member.address == address(index) {
            (member.weight, member.applied) = (0, (0, true));
            if by_us {
                member.tags.push(LEAVING.to_owned());
            }
        }
    }
}

#[test]
fn the_weight_of_a_member_that_an_operator_has_drained_stays() {
    let mut world = world(3);
    drain(&mut world, 2, false);
    world.model.operation = seconds(20);
    world.delete(&machine_name(1));
    world.run(SECOND);
    world.delete(&machine_name(2));
    while !gone(&world, 1) {
        world.run(SECOND);
        assert!(world.at() < 1_000.0);
    }
    let restores = world.model.writes.iter().filter(
        |change| matches!(change, Change::UpdateMember { update, .. } if update.weight == Some(1)),
    );
    assert_eq!(restores.count(), 0);
}

/// The machine was removed by hand in the middle of a release, and created again under the same name at the same
/// address.
#[test]
fn a_member_that_is_marked_as_leaving_is_put_back_for_a_machine_that_stays() {
    let mut world = world(2);
    drain(&mut world, 1, true);
    world.restart();
    world.run(seconds(60));
    assert_eq!(drained(&world, 1), Some((1, false)));
}

#[test]
fn a_drained_member_carries_the_mark_of_its_release() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    while world.tally.drains == 0 {
        world.run(SECOND / 10);
    }
    world.run(SECOND);
    assert_eq!(drained(&world, 1), Some((0, true)));
    assert_eq!(world.nodes[&machine_name(2)].want.deletion, Deletion::No);
}

/// The first of two machines, whose member an operator gave the weight 5, has just been drained, and keeps its
/// connections for an hour.
fn draining_for_an_hour() -> World {
    let mut world = World::new(&[6443], SECOND);
    world.settings.drain_grace = seconds(3_600);
    world.restart();
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(400));
    for member in world.model.members_mut() {
        if member.address == address(1) {
            (member.weight, member.applied) = (5, (5, true));
        }
    }
    world.delete(&machine_name(1));
    while world.tally.drains == 0 {
        world.run(SECOND / 10);
    }
    world
}

/// Nova does not answer, so it is unknown whether the other machine's server runs. Its health monitor shows that it
/// does not serve.
#[test]
fn a_member_that_an_earlier_process_drained_comes_back_while_nova_is_down_and_no_other_serves() {
    let mut world = draining_for_an_hour();
    world.run(seconds(10));
    world.nova = false;
    world.fall(address(2));
    world.run(seconds(5));
    world.restart();
    world.run(seconds(90));
    assert_eq!(drained(&world, 1), Some((5, false)));
    assert!(!gone(&world, 1));
}

/// Nothing shows that the other machine does not serve.
#[test]
fn a_member_that_an_earlier_process_drained_comes_back_if_it_stays_unknown_whether_others_serve() {
    let mut world = draining_for_an_hour();
    world.nova = false;
    world.restart();
    world.run(seconds(100));
    assert_eq!(drained(&world, 1), Some((0, true)));
    world.run(seconds(60));
    assert_eq!(drained(&world, 1), Some((5, false)));
    assert!(!gone(&world, 1));
}

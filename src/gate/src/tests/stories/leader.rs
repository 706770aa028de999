//! What a new leader does before it knows every machine.

use super::{seconds, world_of};
use crate::{
    model::{desired::Deletion, octavia::Change},
    tests::world::{Todo, machine_name},
};

/// The first machine that is handed over lacks its member, and those that serve are not known yet.
#[test]
fn a_new_leader_changes_no_member_before_every_machine_was_handed_over() {
    let mut world = world_of(&[2, 3]);
    world.desired.cluster.paused = true;
    world.hand_over_load_balancer();
    world.add(1, false, Deletion::No);
    world.desired.cluster.paused = false;
    // The caches of the new process are behind: one machine is handed over every minute.
    world.lag = seconds(60);
    let before = world.model.writes.len();
    world.restart();
    world.run(seconds(110));
    assert_eq!(world.model.writes.get(before..), Some(&[][..]));
    world.run(seconds(60));
    let first = world.model.writes.get(before);
    let joins = |change: &Change| {
        matches!(
            change,
            Change::CreateMember {
                admin_up: false,
                ..
            }
        )
    };
    assert!(first.is_some_and(joins), "{first:?}");
}

/// The machine that is known first goes before the others are known.
#[test]
fn a_machine_that_is_gone_is_waited_for_no_more() {
    let mut world = world_of(&[2, 3]);
    world.desired.cluster.paused = true;
    world.hand_over_load_balancer();
    world.add(1, false, Deletion::No);
    world.add(4, false, Deletion::No);
    world.desired.cluster.paused = false;
    world.lag = seconds(60);
    world.restart();
    world.run(seconds(10));
    world.lag = seconds(0);
    world.turn(Todo::Finish(machine_name(1)));
    world.run(seconds(300));
    assert!(super::member_of(&world, 4).is_some());
}

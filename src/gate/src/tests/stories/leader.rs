//! What a new leader does before it knows every machine.

use super::{seconds, world_of};
use crate::{
    model::{desired::Deletion, octavia::Change},
    tests::{
        model::Fate,
        world::{Todo, machine_name},
    },
};
use capo_core::ProvisioningStatus;

/// The first machine that is handed over has no member, and the machines that serve are not known yet.
#[test]
fn a_new_leader_changes_no_member_before_every_machine_was_handed_over() {
    let mut world = world_of(&[2, 3]);
    world.desired.cluster.paused = true;
    world.set_load_balancer();
    world.add(1, false, Deletion::No);
    world.desired.cluster.paused = false;
    // The caches of the new process are behind: a machine is handed over every minute.
    world.lag = seconds(60);
    let before = world.model.writes.len();
    world.restart();
    world.run(seconds(110));
    assert_eq!(world.model.writes.get(before..), Some(&[][..]));
    world.run(seconds(60));
    let first = world.model.writes.get(before);
    let joins =
        |change: &Change| matches!(change, Change::CreateMember { new, .. } if !new.admin_state_up);
    assert!(first.is_some_and(joins), "{first:?}");
}

/// A PUT of its own values would turn a member ACTIVE that was never plugged into its network, and its machine would be
/// admitted. The member gets this PUT only if no other machine may serve.
#[test]
fn a_new_leader_repairs_no_failed_member_before_it_knows_the_machines_that_serve() {
    let mut world = world_of(&[2, 3]);
    // This process ends while Octavia creates the member, and the creation fails.
    world.model.fates = vec![Fate::Fails];
    let before = world.model.writes.len() + 1;
    world.add(1, false, Deletion::No);
    for _ in 0..100 {
        if world.model.writes.len() < before {
            world.run(std::time::Duration::from_millis(100));
        }
    }
    assert_eq!(world.model.writes.len(), before);
    world.lag = seconds(60);
    world.restart();
    world.run(seconds(110));
    assert_eq!(world.model.writes.get(before..), Some(&[][..]));
    assert_eq!(super::member_of(&world, 1), Some(ProvisioningStatus::Error));
    assert!(!world.nodes[&machine_name(1)].want.admitted);
    world.run(seconds(400));
    let first = world.model.writes.get(before);
    assert!(
        matches!(first, Some(Change::DeleteMember { .. })),
        "{first:?}"
    );
    assert!(world.nodes[&machine_name(1)].want.admitted);
}

/// The machine that is handed over first is deleted before the others are known.
#[test]
fn a_machine_that_is_gone_is_waited_for_no_more() {
    let mut world = world_of(&[2, 3]);
    world.desired.cluster.paused = true;
    world.set_load_balancer();
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

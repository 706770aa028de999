//! Machines whose hook is gone while their API servers still run. The control plane provider, another hook or a drain
//! may hold such a Machine for hours.

use super::{gone, member_of, run_with_reads_of_servers, seconds, world};
use crate::{
    model::desired::{Deletion, ServerState},
    tests::world::{Todo, World, address, machine_name},
};
use capo_core::ProvisioningStatus;

/// Machine 1 was released by the rules, and its API server goes on running.
fn released() -> World {
    let mut world = world(2);
    world.controllers = false;
    let since = world.present().wall;
    world.delete(&machine_name(1));
    run_with_reads_of_servers(&mut world, seconds(60));
    assert_eq!(member_of(&world, 1), None);
    assert!(world.findings.machines[&machine_name(1)].release.is_open());
    world.controllers = true;
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::AfterHook { since };
    });
    world
}

#[test]
fn the_member_is_created_again_when_no_other_one_serves_any_more() {
    let mut world = released();
    world.run(seconds(120));
    assert_eq!(member_of(&world, 1), None);
    world.fall(address(2));
    world.run(seconds(120));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    assert!(world.model.members().all(|member| member.admin_up));
    // The other machine serves again, so this machine's member is removed for good.
    world.model.up.insert(address(2), world.now);
    world.run(seconds(180));
    assert_eq!(member_of(&world, 1), None);
}

/// A release before the drain removes the members before the Node is drained, which may take hours.
#[test]
fn the_member_is_created_again_during_a_drain_when_no_other_one_serves_any_more() {
    let mut world = world(2);
    world.controllers = false;
    let since = world.present().wall;
    world.delete(&machine_name(1));
    run_with_reads_of_servers(&mut world, seconds(60));
    assert!(world.findings.machines[&machine_name(1)].release.is_open());
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::BeforeHook { since };
    });
    run_with_reads_of_servers(&mut world, seconds(3_600));
    assert_eq!(member_of(&world, 1), None);
    world.fall(address(2));
    run_with_reads_of_servers(&mut world, seconds(180));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    assert!(world.model.members().all(|member| member.admin_up));
    // The drain ends while no other machine serves, so the hook after it stays.
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::AtHook { since };
    });
    run_with_reads_of_servers(&mut world, seconds(180));
    assert!(!world.findings.machines[&machine_name(1)].release.is_open());
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
}

#[test]
fn the_member_is_enabled_though_octavia_still_shows_one_whose_server_is_down() {
    let mut world = released();
    world.change(&machine_name(2), |want| {
        want.server.state = ServerState::Shutoff;
    });
    run_with_reads_of_servers(&mut world, seconds(300));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    assert!(world.model.members().all(|member| member.admin_up));
}

#[test]
fn the_member_goes_with_its_server_although_no_other_one_serves() {
    let mut world = released();
    world.fall(address(2));
    world.run(seconds(120));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    world.turn(Todo::Unhook(machine_name(1)));
    world.run(seconds(60));
    assert_eq!(member_of(&world, 1), None);
    assert!(gone(&world, 1));
}

#[test]
fn a_dead_api_server_gets_no_member_again() {
    for shut_off in [true, false] {
        let mut world = released();
        world.fall(address(1));
        world.change(&machine_name(1), |want| {
            if shut_off {
                want.server.state = ServerState::Shutoff;
            } else {
                want.api_server_pod = crate::model::desired::ObservedCondition::False;
            }
        });
        world.fall(address(2));
        world.run(seconds(300));
        assert_eq!(member_of(&world, 1), None, "{shut_off}");
    }
}

#[test]
fn the_last_member_stays_when_a_user_removes_the_hook_until_its_machine_is_deleted() {
    let mut world = world(1);
    world.delete(&machine_name(1));
    world.run(seconds(60));
    let since = world.present().wall;
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::AfterHook { since };
    });
    world.run(seconds(600));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    world.turn(Todo::Unhook(machine_name(1)));
    world.run(seconds(60));
    assert!(gone(&world, 1));
    assert_eq!(member_of(&world, 1), None);
}

#[test]
fn the_member_is_created_again_though_nova_does_not_answer() {
    let mut world = released();
    world.run(seconds(120));
    world.nova = false;
    world.run(seconds(120));
    world.fall(address(2));
    world.run(seconds(120));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
}

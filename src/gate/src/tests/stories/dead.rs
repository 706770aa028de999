//! Machines whose API servers are down while their servers are ACTIVE.

use super::{SECOND, gone, held, member_of, run_with_reads_of_servers, seconds, world};
use crate::{
    model::{desired::ObservedCondition, machine::Stage},
    report::report,
    tests::world::{AtEndpoint, World, address, machine_name},
};
use capo_core::{ProvisioningStatus, Reason};

#[test]
fn a_dead_machine_leaves_though_no_other_serves() {
    let mut world = world(1);
    world.fall(address(1));
    world.change(&machine_name(1), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    world.delete(&machine_name(1));
    world.run(seconds(20));
    assert!(!gone(&world, 1));
    world.run(seconds(120));
    assert!(gone(&world, 1));
    assert_eq!(world.tally.requests, 0);
}

/// Kubernetes is unreachable for a while, so the hook is still there when the read that the decision depends on is old.
#[test]
fn what_the_release_of_a_dead_machine_rests_on_is_read_again_until_its_hook_is_gone() {
    let mut world = world(1);
    world.controllers = false;
    world.fall(address(1));
    world.change(&machine_name(1), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    world.delete(&machine_name(1));
    run_with_reads_of_servers(&mut world, seconds(150));
    let mut longest = 0;
    let mut waits = 0;
    for _ in 0..200 {
        run_with_reads_of_servers(&mut world, SECOND);
        let now = world.present();
        let findings = report(&world.state, &now);
        let gate = &findings.machines[&machine_name(1)].release;
        assert!(gate.is_open(), "{gate:?}");
        waits = if findings.may_act_on(gate, now.instant) {
            0
        } else {
            waits + 1
        };
        longest = longest.max(waits);
    }
    assert!(longest <= 2, "{longest} s");
}

#[test]
fn a_dead_machine_leaves_though_the_members_of_the_others_are_in_error() {
    let mut world = world(3);
    world.fall(address(1));
    world.change(&machine_name(1), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    for index in [2, 3] {
        // The machine is paused, so that its members are not repaired.
        world.change(&machine_name(index), |want| want.paused = true);
    }
    for member in world.model.members_mut() {
        if member.address != address(1) {
            member.provisioning = ProvisioningStatus::Error;
        }
    }
    world.delete(&machine_name(1));
    world.run(seconds(150));
    assert!(gone(&world, 1));
    assert_eq!(member_of(&world, 1), None);
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Error));
}

#[test]
fn a_dead_machine_at_the_head_of_the_line_does_not_hold_up_a_live_one_behind_it() {
    let mut world = world(3);
    world.fall(address(1));
    world.delete(&machine_name(1));
    world.run(seconds(1));
    world.delete(&machine_name(2));
    world.run(seconds(300));
    assert!(gone(&world, 1) && gone(&world, 2) && !gone(&world, 3));
}

#[test]
fn a_machine_that_only_its_monitor_or_only_cluster_api_finds_dead_is_held() {
    for by_monitor in [true, false] {
        let mut world = world(1);
        if by_monitor {
            world.fall(address(1));
        } else {
            world.change(&machine_name(1), |want| {
                want.api_server_pod = ObservedCondition::False;
            });
        }
        world.delete(&machine_name(1));
        world.run(seconds(1_800));
        assert!(!gone(&world, 1), "{by_monitor}");
    }
}

#[test]
fn the_last_one_that_serves_does_not_hold_up_a_dead_one_behind_it() {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(200));
    // Without a monitor only Cluster API shows that the second machine is dead.
    world.fall(address(2));
    world.change(&machine_name(2), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    world.delete(&machine_name(1));
    world.run(seconds(30));
    world.delete(&machine_name(2));
    world.run(seconds(120));
    assert!(gone(&world, 2) && !gone(&world, 1));
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
}

/// Cluster API found the API server unhealthy for a moment before the deletion, and this stays known as long as the
/// machine exists. The API server has recovered since.
fn recovered() -> World {
    let mut world = world(2);
    world.delete(&machine_name(1));
    world.change(&machine_name(1), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    let is_confirming = |world: &World| {
        let machine = world.state.machines.get(&machine_name(1));
        machine.is_some_and(|machine| machine.stage == Stage::Confirming)
    };
    // The last proof takes less than a tenth of a second.
    while !is_confirming(&world) {
        world.run(SECOND / 100);
        assert!(world.at() < 1_000.0);
    }
    world
}

/// That its members are absent shows nothing, because capo-rs has deleted them.
#[test]
fn a_machine_whose_members_were_deleted_for_its_release_is_not_taken_for_dead() {
    let mut world = recovered();
    world.set_endpoint(AtEndpoint::Stranger);
    world.run(seconds(120));
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(300));
    assert!(gone(&world, 1));
}

#[test]
fn a_machine_whose_members_an_earlier_process_deleted_is_not_taken_for_dead() {
    let mut world = recovered();
    world.fall(address(2));
    world.restart();
    world.run(seconds(600));
    assert!(!gone(&world, 1));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    assert!(world.model.members().all(|member| member.admin_up));
}

/// OVN shows a member that is disabled as OFFLINE, whether or not its API server runs.
#[test]
fn a_machine_whose_member_was_disabled_for_its_release_is_not_taken_for_dead() {
    let mut world = World::new(&[6443], SECOND);
    world.model.ovn = true;
    world.desired.provider = "ovn".to_owned();
    world.settings.drain_grace = seconds(600);
    world.restart();
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(400));
    world.delete(&machine_name(1));
    world.change(&machine_name(1), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    world.run(seconds(20));
    assert!(world.model.members().any(|member| !member.admin_up));
    world.fall(address(2));
    world.run(seconds(500));
    assert!(!gone(&world, 1));
    assert!(world.model.members().all(|member| member.admin_up));
}

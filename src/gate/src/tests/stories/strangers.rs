//! Another cluster's API server answers the manager at a machine's tenant address. Many clusters use the same private
//! addresses, so such an answer shows nothing about the machine.

use super::{SECOND, gone, member_of, seconds, world};
use crate::{
    model::{
        desired::{Deletion, ObservedCondition},
        octavia::Change,
    },
    tests::{
        model::Fate,
        world::{World, address, machine_name},
    },
};
use capo_core::ProvisioningStatus;

#[test]
fn a_stranger_at_the_address_of_the_other_machine_does_not_hold_a_release() {
    for silent in [false, true] {
        let mut world = world(1);
        world.model.silent = silent;
        world.strangers = [address(1), address(2)].into();
        // One replica, with surge: the second machine is created first.
        world.model.up.insert(address(2), world.now);
        let new = world.add(2, false, Deletion::No);
        // KubeadmControlPlane checks the pod of the API server, and not the machine's address.
        let now = world.now;
        world.change(&new, |want| {
            want.api_server_pod = ObservedCondition::TrueSince(now);
        });
        world.run(seconds(300));
        world.delete(&machine_name(1));
        world.run(seconds(300));
        assert!(gone(&world, 1), "{silent}");
        assert!(!gone(&world, 2), "{silent}");
    }
}

#[test]
fn a_stranger_does_not_show_that_a_control_plane_was_initialised() {
    let mut world = World::new(&[6443], SECOND);
    world.desired.cluster.initialised = false;
    world.strangers.insert(address(1));
    world.set_load_balancer();
    // Its API server never comes up, and KubeadmControlPlane replaces the machine.
    world.add(1, true, Deletion::No);
    world.delete(&machine_name(1));
    world.run(seconds(100));
    assert!(gone(&world, 1));
}

#[test]
fn a_member_in_error_is_replaced_beside_one_at_whose_address_a_stranger_answers() {
    let mut world = world(2);
    world.strangers.insert(address(2));
    // The PUT of the member's own values fails.
    world.model.fates = vec![Fate::Fails];
    for member in world.model.members_mut() {
        if member.address == address(1) {
            member.provisioning = ProvisioningStatus::Error;
        }
    }
    world.run(seconds(1_500));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    let is_removal = |write: &&Change| matches!(write, Change::DeleteMember { .. });
    assert_eq!(world.model.writes.iter().filter(is_removal).count(), 1);
}

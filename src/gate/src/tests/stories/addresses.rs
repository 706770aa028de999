//! Addresses that are given to another machine, or that change.

use super::{SECOND, member_of, seconds, world};
use crate::{
    model::desired::Deletion,
    tests::world::{NAME, World, address, machine_name},
};
use capo_core::ProvisioningStatus;

fn named(world: &World, index: u8) -> Vec<std::net::IpAddr> {
    let name = format!("{NAME}-6443-{}", machine_name(index).name);
    let members = world.model.members();
    members
        .filter(|member| member.name == name)
        .map(|member| member.address)
        .collect()
}

fn is_admitted(world: &World, index: u8) -> bool {
    world.nodes[&machine_name(index)].want.admitted
}

/// The machine is gone, but its member was left in the load balancer.
fn vanish(world: &mut World, index: u8) {
    let name = machine_name(index);
    world.fall(address(index));
    if let Some(node) = world.nodes.get_mut(&name) {
        node.gone = true;
    }
    world.set_machine(&name);
}

#[test]
fn a_left_over_member_goes_and_the_machine_that_has_its_address_now_is_admitted() {
    for others in [2, 1] {
        let mut world = world(others);
        vanish(&mut world, 1);
        let name = world.add(3, false, Deletion::No);
        world.change(&name, |want| want.address = Some(address(1)));
        world.run(seconds(200));
        assert!(named(&world, 1).is_empty(), "{others}");
        assert_eq!(named(&world, 3), [address(1)], "{others}");
        assert!(is_admitted(&world, 3), "{others}");
    }
}

#[test]
fn the_left_over_member_of_a_machine_that_exists_stays() {
    let mut world = world(2);
    // This process does not know the machine yet; Kubernetes does.
    world.restart();
    world.run(SECOND * 2);
    if let Some(node) = world.nodes.get_mut(&machine_name(1)) {
        node.known = false;
    }
    world.state.machines.remove(&machine_name(1));
    let name = world.add(3, false, Deletion::No);
    world.change(&name, |want| want.address = Some(address(1)));
    world.run(seconds(600));
    assert_eq!(named(&world, 1), [address(1)]);
    assert!(!is_admitted(&world, 3));
    let said = world.findings.machines[&name].verdict.message.clone();
    assert!(
        said.contains("of machine cp-1 still has its address 10.0.0.1"),
        "{said}"
    );
}

#[test]
fn a_machine_whose_address_changed_gets_a_member_there_before_the_old_one_goes() {
    for machines in [1, 3] {
        let mut world = world(machines);
        world.model.up.insert(address(9), world.now);
        world.change(&machine_name(1), |want| want.address = Some(address(9)));
        let mut seen_both = false;
        for _ in 0..200 {
            world.run(SECOND);
            let found = named(&world, 1);
            assert!(!found.is_empty(), "{machines}");
            seen_both |= found.len() == 2;
        }
        assert!(seen_both, "{machines}");
        assert_eq!(named(&world, 1), [address(9)], "{machines}");
        assert_eq!(member_of(&world, 9), Some(ProvisioningStatus::Active));
    }
}

#[test]
fn a_machine_that_is_created_again_under_the_same_name_has_nothing_of_the_old_one() {
    let mut world = world(1);
    world.model.up.insert(address(2), world.now);
    let name = world.add(2, false, Deletion::No);
    world.run(seconds(60));
    assert!(is_admitted(&world, 2));
    // This process has seen neither the end of the old machine nor a moment without a machine of this name.
    world.fall(address(2));
    world.fall(address(1));
    world.change(&name, |want| {
        want.uid = Some("another".to_owned());
        want.address = None;
        want.admitted = false;
        want.has_node = false;
        want.server.state = crate::model::desired::ServerState::Other;
    });
    world.run(seconds(60));
    // The machine was never admitted and does not serve, so no gate holds it.
    world.delete(&name);
    world.run(seconds(300));
    assert!(super::gone(&world, 2));
}

//! The manager does not reach the endpoint, and Cluster API does: a machine goes without a proof once others have
//! served for 90 s without a break.

use super::{SECOND, gone, seconds};
use crate::{
    model::desired::ObservedCondition,
    tests::world::{AtEndpoint, World, address, machine_name},
};
use capo_core::GateOverride;

/// Two machines behind a load balancer without a health monitor. The first one waits for its release.
fn unreachable() -> World {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(400));
    world.desired.cluster.remote_connection = ObservedCondition::TrueSince(world.now);
    world.set_endpoint(AtEndpoint::Unreachable);
    world.set_load_balancer();
    world.delete(&machine_name(1));
    world
}

#[test]
fn it_goes_after_90_s() {
    let mut world = unreachable();
    world.run(seconds(85));
    assert_eq!(world.tally.drains, 0);
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

/// What happens while another decision precedes the rules is not watched, so it does not count.
#[test]
fn the_90_s_begin_again_after_a_hold() {
    let mut world = unreachable();
    world.run(seconds(60));
    let hold = GateOverride::Hold {
        reason: "wait".to_owned(),
    };
    world.change(&machine_name(1), |want| want.gate_override = hold);
    world.run(seconds(600));
    world.fall(address(2));
    world.run(seconds(120));
    world.model.up.insert(address(2), world.now);
    world.change(&machine_name(1), |want| {
        want.gate_override = GateOverride::None;
    });
    world.run(seconds(80));
    assert_eq!(world.tally.drains, 0);
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

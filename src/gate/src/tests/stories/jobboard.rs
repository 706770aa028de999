//! amphorav2 may have a jobboard: another worker resumes the operation of a worker that died.

use std::time::Duration;

use super::{member_of, seconds, world};
use crate::{
    model::{desired::Deletion, octavia::Change},
    tests::{
        model::Fate,
        world::{World, address, machine_name},
    },
};
use capo_core::ProvisioningStatus;

/// A third machine, whose member stays PENDING_CREATE under an ACTIVE load balancer.
fn orphaned(provider: &str, fate: Fate) -> World {
    let mut world = world(2);
    world.desired.provider = provider.to_owned();
    world.set_load_balancer();
    world.model.writes.clear();
    world.model.fates = vec![fate];
    world.model.up.insert(address(3), world.now);
    world.add(3, false, Deletion::No);
    world
}

fn deletions(world: &World) -> usize {
    let is_deletion = |change: &&Change| matches!(change, Change::DeleteMember { .. });
    world.model.writes.iter().filter(is_deletion).count()
}

#[test]
fn an_operation_that_is_resumed_after_five_minutes_is_left_alone_with_amphorav2_alone() {
    for (provider, repairs) in [("amphorav2", 0), ("amphora", 1)] {
        let mut world = orphaned(provider, Fate::Late(300));
        world.run(seconds(290));
        assert_eq!(deletions(&world), repairs, "{provider}");
        world.run(seconds(300));
        assert_eq!(deletions(&world), repairs, "{provider}");
        assert!(world.nodes[&machine_name(3)].want.admitted, "{provider}");
    }
}

#[test]
fn an_operation_that_no_worker_resumes_is_repeated_at_the_alert_threshold() {
    let mut world = orphaned("amphorav2", Fate::Lost);
    let alert = world.settings.alert_after;
    world.run(alert);
    assert_eq!(deletions(&world), 0);
    assert_eq!(
        member_of(&world, 3),
        Some(ProvisioningStatus::PendingCreate)
    );
    world.run(Duration::from_mins(4));
    assert_eq!(deletions(&world), 1);
    assert!(world.nodes[&machine_name(3)].want.admitted);
}

/// The first machine is to be released, and its drain stays PENDING_UPDATE under an ACTIVE load balancer.
fn drain_is_lost(provider: &str) -> World {
    let mut world = world(2);
    world.desired.provider = provider.to_owned();
    world.set_load_balancer();
    world.model.fates = vec![Fate::Lost];
    world.delete(&machine_name(1));
    world.run(seconds(90));
    world
}

/// A worker that resumed the drain after the member was put back would leave it at weight 0 without the tag of the
/// release, as an operator does.
#[test]
fn a_drain_that_another_worker_may_resume_is_not_undone_while_others_serve() {
    assert!(drain_is_lost("amphora").tally.restores > 0);
    let mut world = drain_is_lost("amphorav2");
    world.run(seconds(120));
    assert_eq!(world.tally.restores, 0);
    // From now on the member is needed, so it is put back all the same.
    world.fall(address(2));
    world.run(seconds(120));
    assert!(world.tally.restores > 0);
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
}

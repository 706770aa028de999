//! The load balancer itself and its listeners, pools and monitors: created, tracked, repaired.

use std::time::Duration;

use super::{SECOND, gone, held, member_of, seconds, world};
use crate::{
    model::{desired::Deletion, event::Event, octavia::Change},
    tests::{
        model::{Fate, Model},
        world::{AtEndpoint, Line, World, machine_name},
    },
};
use capo_core::{FailureClass, MonitorType, ProvisioningStatus, Reason};

#[test]
fn structure_is_made_once_even_when_replies_are_lost() {
    let mut world = World::new(&[6443, 8132], SECOND);
    for _ in 0..3 {
        world.line.extend([Line::ReplyLost; 7]);
        world.run(seconds(40));
    }
    world.line.clear();
    world.run(seconds(120));
    assert!(world.findings.infrastructure_ready);
    assert_eq!(
        (world.model.listeners.len(), world.model.pools.len()),
        (2, 2)
    );
}

#[test]
fn an_unattached_pool_is_attached_and_a_provider_without_monitors_is_accepted() {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.run(seconds(60));
    assert!(world.findings.infrastructure_ready);
    for pool in &mut world.model.pools {
        pool.listener = None;
    }
    world.run(seconds(600));
    assert!(world.findings.infrastructure_ready);
    assert_eq!(world.model.pools.len(), 1);
    assert!(world.model.pools.iter().all(|pool| pool.listener.is_some()));
}

#[test]
fn a_lost_pool_gets_a_put_before_its_members() {
    let mut world = world(1);
    world.model.fates.push(Fate::LostPool);
    world.add(2, false, Deletion::No);
    world.run(seconds(400));
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Active));
    assert!(world.findings.infrastructure_ready);
}

#[test]
fn a_claimed_load_balancer_is_not_written() {
    use Event;
    let mut world = world(1);
    let writes = world.tally.writes;
    world.step(Event::Claimed(Some(capo_core::ObjectName::new("a", "b"))));
    world.add(2, false, Deletion::No);
    world.run(seconds(100));
    assert_eq!(world.tally.writes, writes);
    assert_eq!(world.findings.verdict.reason, Reason::AmbiguousMatch);
    world.step(Event::Claimed(None));
    world.run(seconds(100));
    assert!(member_of(&world, 2).is_some());
}

#[test]
fn a_vanished_load_balancer_is_told_and_a_new_one_is_filled() {
    let mut world = world(2);
    world.model.absent = true;
    world.run(seconds(400));
    assert!(world.findings.absent);
    assert_eq!(world.findings.verdict.reason, Reason::LoadBalancerError);
    world.delete(&machine_name(1));
    world.run(seconds(100));
    assert!(held(&world, 1).is_some());
    let up = world.model.up.clone();
    world.model = Model::new(SECOND);
    world.model.up = up;
    world.desired.id = capo_core::Lookup::Found("lb-2".into());
    world.set_load_balancer();
    world.run(seconds(400));
    assert!(gone(&world, 1), "{:?}", world.findings.machines);
    assert!(member_of(&world, 2).is_some());
}

#[test]
fn a_load_balancer_that_hangs_for_good_holds_warns_and_lets_an_unhooked_server_go() {
    let mut world = world(2);
    world.model.fates.push(Fate::Hangs(1_000_000));
    world.add(3, false, Deletion::No);
    world.run(seconds(100));
    assert!(!world.findings.counts_in_ready);
    world.run(seconds(100));
    assert!(world.findings.counts_in_ready);
    world.delete(&machine_name(1));
    world.change(&machine_name(1), |want| {
        if let Deletion::AtHook { since } = want.deletion {
            want.deletion = Deletion::Unhooked { since };
        }
    });
    world.run(seconds(300));
    assert!(!gone(&world, 1));
    world.run(seconds(700));
    assert!(gone(&world, 1));
    world.run(seconds(1500));
    let text = &world.findings.verdict.message;
    assert!(text.contains("stuck"), "{text}");
}

/// A restriction that Octavia does not accept has no effect.
#[test]
fn ranges_are_shown_once_octavia_has_applied_them() {
    let mut world = World::new(&[6443, 8132], SECOND);
    let ranges = |text: &str| Some(vec![text.parse().unwrap()]);
    let old = ranges("192.0.2.0/24");
    world.desired.allowed_cidrs.clone_from(&old);
    world.set_load_balancer();
    world.add_serving(1);
    world.run(seconds(200));
    assert_eq!(world.findings.allowed_cidrs, old);
    world.model.operation = seconds(30);
    world.desired.allowed_cidrs = ranges("198.51.100.0/24");
    world.set_load_balancer();
    let begun = world.at();
    while world.at() < begun + 60.0 {
        // The second listener is changed after the operation on the first one has ended.
        assert_ne!(world.findings.allowed_cidrs, world.desired.allowed_cidrs);
        world.run(SECOND / 10);
    }
    world.run(seconds(60));
    assert_eq!(world.findings.allowed_cidrs, world.desired.allowed_cidrs);
    world.line.extend([Line::Down(FailureClass::Quota); 90]);
    world.desired.allowed_cidrs = ranges("203.0.113.0/24");
    world.set_load_balancer();
    world.run(seconds(60));
    assert_ne!(world.findings.allowed_cidrs, world.desired.allowed_cidrs);
}

/// Between the creation of a listener and the first list that shows its source ranges, the ranges are not known.
#[test]
fn ranges_that_are_added_are_settled_only_when_the_listener_has_them() {
    // The moments: before the listener is created, while its POST is under way, in the middle of the other operations,
    // long after them.
    for moment in [1, 50, 3_000, 400_000] {
        let mut world = World::new(&[6443], SECOND);
        world.add_serving(1);
        world.run(Duration::from_millis(moment));
        world.desired.generation = 2;
        world.desired.allowed_cidrs = "198.51.100.0/24".parse().ok().map(|range| vec![range]);
        world.set_load_balancer();
        let mut settled_after = None;
        for tenth in 0..600 {
            let has_them = world.model.listeners.iter().all(|listener| {
                Some(&listener.allowed_cidrs) == world.desired.allowed_cidrs.as_ref()
            });
            if world.findings.allowed_cidrs == world.desired.allowed_cidrs {
                assert!(has_them, "shown {tenth} tenths after {moment} ms");
            }
            if world.findings.settled_generation == Some(2) {
                assert!(
                    has_them,
                    "shown as settled {tenth} tenths after {moment} ms"
                );
                settled_after.get_or_insert(tenth);
            }
            world.run(Duration::from_millis(100));
        }
        assert!(
            settled_after.is_some_and(|tenths| tenths < 300),
            "{moment}: {settled_after:?}"
        );
    }
}

/// The parts of the only pool, and the number of deletions.
fn parts(world: &World) -> (Vec<String>, usize) {
    let pool = world.model.pools.first();
    let monitor = pool.and_then(|pool| pool.monitor.as_ref());
    let ids = [
        world
            .model
            .listeners
            .first()
            .map(|listener| listener.id.to_string()),
        pool.map(|pool| pool.id.to_string()),
        monitor.map(|(id, ..)| id.to_string()),
    ];
    let is_deletion = |change: &&Change| matches!(change, Change::DeletePart { .. });
    let deletions = world.model.writes.iter().filter(is_deletion).count();
    (ids.into_iter().flatten().collect(), deletions)
}

#[test]
fn a_monitor_that_stays_in_error_after_a_put_is_replaced_and_nothing_else() {
    let mut world = world(2);
    let (before, _) = parts(&world);
    // The PUT of its own values fails as well.
    world.model.fates.push(Fate::Fails);
    if let Some((_, _, status)) = &mut world.model.pools[0].monitor {
        *status = ProvisioningStatus::Error;
    }
    world.run(seconds(1_200));
    let (after, deletions) = parts(&world);
    assert_eq!(deletions, 1, "{:?}", world.model.writes);
    assert_eq!(before[..2], after[..2]);
    assert_ne!(before[2], after[2]);
    assert!(world.findings.infrastructure_ready);
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Active));
}

#[test]
fn a_pool_in_error_is_replaced_only_while_nothing_is_in_it() {
    for (machines, replaced) in [(0, true), (1, false)] {
        let mut world = if machines == 0 {
            let mut empty = World::new(&[6443], SECOND);
            empty.run(seconds(60));
            empty
        } else {
            world(machines)
        };
        let (before, _) = parts(&world);
        // Every such PUT fails until one is not followed by a replacement.
        let failing = if replaced { 1 } else { 2 };
        world.model.fates.extend(vec![Fate::Fails; failing]);
        world.model.pools[0].provisioning = ProvisioningStatus::Error;
        world.run(seconds(1_000));
        let (_, deletions) = parts(&world);
        assert_eq!(deletions > 0, replaced, "{:?}", world.model.writes);
        world.run(seconds(2_000));
        let (after, _) = parts(&world);
        assert_eq!(before[1] != after[1], replaced);
        assert!(world.findings.infrastructure_ready);
    }
}

fn monitor_types(world: &World) -> Vec<MonitorType> {
    let pools = world.model.pools.iter();
    pools.map(|pool| pool.monitor_type.clone()).collect()
}

fn want_type(world: &mut World, wanted: Option<MonitorType>) {
    world.desired.generation += 1;
    world.desired.monitor_type = wanted;
    world.set_load_balancer();
}

/// Octavia can't change the type, so the monitor is deleted and created again. Each port is complete before the next
/// one.
#[test]
fn a_monitor_of_another_type_is_replaced_on_the_port_of_the_endpoint_alone() {
    use MonitorType::{Https, Tcp};
    let mut world = World::new(&[6443, 8132], SECOND);
    world.add_serving(1);
    world.run(seconds(400));
    // Nothing is known of what listens on an additional port.
    for (wanted, expected) in [(Https, [Https, Tcp]), (Tcp, [Tcp, Tcp])] {
        world.model.writes.clear();
        want_type(&mut world, Some(wanted));
        world.run(seconds(200));
        assert_eq!(monitor_types(&world), expected);
        assert_eq!(world.model.writes.len(), 2, "{:?}", world.model.writes);
        let generation = Some(world.desired.generation);
        assert_eq!(world.findings.settled_generation, generation);
        assert!(world.findings.infrastructure_ready);
    }
    // If no type is desired, the type of an existing monitor stays.
    want_type(&mut world, Some(Https));
    world.run(seconds(200));
    world.model.writes.clear();
    want_type(&mut world, None);
    world.run(seconds(2_400));
    assert!(world.model.writes.is_empty(), "{:?}", world.model.writes);
}

#[test]
fn the_type_of_a_monitor_is_not_changed_while_a_machine_leaves() {
    let mut world = world(2);
    // The proof of its release never succeeds.
    world.endpoint = AtEndpoint::Stranger;
    world.delete(&machine_name(1));
    want_type(&mut world, Some(MonitorType::Https));
    world.run(seconds(600));
    assert!(held(&world, 1).is_some());
    assert_eq!(monitor_types(&world), [MonitorType::Tcp]);
    world.endpoint = AtEndpoint::LoadBalancer;
    world.run(seconds(1_200));
    assert!(gone(&world, 1));
    assert_eq!(monitor_types(&world), [MonitorType::Https]);
}

#[test]
fn a_provider_without_monitors_of_the_desired_type_gets_one_that_connects() {
    let mut world = world(1);
    world.model.only_tcp = true;
    world.model.writes.clear();
    want_type(&mut world, Some(MonitorType::Https));
    world.run(seconds(4_000));
    assert_eq!(monitor_types(&world), [MonitorType::Tcp]);
    assert!(world.findings.infrastructure_ready);
    // The writes are one deletion, the refused POST, and the POST that was accepted.
    assert!(world.model.writes.len() <= 3, "{:?}", world.model.writes);
}

fn break_monitor(world: &mut World) -> String {
    let (id, _, status) = world.model.pools[0].monitor.as_mut().unwrap();
    *status = ProvisioningStatus::Error;
    id.to_string()
}

/// Failures that are far apart do not count as one series.
#[test]
fn what_was_well_for_long_is_repaired_as_soon_as_the_first_time() {
    let mut world = world(1);
    for _ in 0..5 {
        break_monitor(&mut world);
        world.run(seconds(3_600));
        assert!(world.findings.infrastructure_ready);
    }
    world.model.fates.push(Fate::Fails);
    let broken = break_monitor(&mut world);
    // The next read finds the monitor broken within 5 min, and 1 min passes between the PUT that fails and the
    // replacement.
    world.run(seconds(450));
    let (after, _) = parts(&world);
    assert_ne!(after[2], broken);
    assert!(world.findings.infrastructure_ready);
}

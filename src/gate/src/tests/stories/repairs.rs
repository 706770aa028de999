//! How often a member is repaired, and what happens to a write that is under way.

use super::{SECOND, seconds, world};
use crate::{
    model::{
        desired::{Deletion, DesiredMachine, ServerState},
        octavia::Change,
    },
    tests::{
        model::Fate,
        world::{World, machine_name},
    },
};
use capo_core::{Lookup, ProvisioningStatus};

/// How many times members were created or got a PUT of their own values.
fn attempts(world: &World) -> usize {
    let repairs = world.model.writes.iter().filter(|write| match write {
        Change::DeleteMember { .. } => true,
        Change::UpdateMember { update, .. } => {
            update.weight.is_none() && update.admin_state_up.is_none()
        }
        _ => false,
    });
    repairs.count()
}

/// Notes when members were deleted or got a PUT of their own values, in seconds since the first time.
fn run_and_note(world: &mut World, known: &mut usize, times: &mut Vec<f64>, duration: u64) {
    for _ in 0..duration {
        world.run(SECOND);
        while *known < attempts(world) {
            *known += 1;
            times.push(world.at());
        }
    }
}

#[test]
fn a_new_member_that_never_gets_well_is_repaired_at_most_five_times_in_ten_minutes() {
    for fate in [Fate::Fails, Fate::Lost] {
        for restart in [None, Some(30), Some(100), Some(200), Some(400), Some(500)] {
            let mut world = world(2);
            world.model.fates = vec![fate; 200];
            let mut known = attempts(&world);
            let mut times = Vec::new();
            world.add(3, false, Deletion::No);
            if let Some(restart) = restart {
                run_and_note(&mut world, &mut known, &mut times, restart);
                world.restart();
            }
            run_and_note(&mut world, &mut known, &mut times, 4_200);
            let first = times.first().copied().unwrap_or_default();
            if restart.is_none() {
                // Each attempt takes the time of two operations and the reads after them.
                let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
                for (gap, minutes) in gaps.zip([1.0, 2.0, 5.0, 10.0, 10.0]) {
                    let pause = minutes * 60.0;
                    assert!(gap >= pause && gap < pause + 20.0, "{fate:?}: {times:?}");
                }
            }
            let early = times.iter().filter(|time| **time < first + 600.0).count();
            assert!((3..=5).contains(&early), "{fate:?} {restart:?}: {times:?}");
            // After that, there is an attempt every ten minutes.
            let late: Vec<f64> = times
                .into_iter()
                .filter(|time| *time >= first + 1_200.0)
                .collect();
            assert!(late.len() >= 4, "{fate:?} {restart:?}: {late:?}");
            for pair in late.windows(2) {
                assert!(
                    pair.last() >= pair.first().map(|before| before + 600.0).as_ref(),
                    "{fate:?} {restart:?}: {late:?}"
                );
            }
            // The member recovers as soon as Octavia does.
            world.model.fates.clear();
            world.run(seconds(700));
            assert!(world.nodes[&machine_name(3)].want.admitted, "{fate:?}");
        }
    }
}

#[test]
fn a_lookup_that_fails_changes_nothing_of_what_is_known() {
    let mut world = world(2);
    world.desired.id = Lookup::Unknown;
    world.set_load_balancer();
    world.delete(&machine_name(1));
    world.run(seconds(60));
    assert!(super::gone(&world, 1));
}

#[test]
fn a_load_balancer_that_was_not_looked_up_opens_no_gate() {
    let mut world = World::new(&[6443], SECOND);
    world.desired.id = Lookup::Unknown;
    world.restart();
    world.add_serving(1);
    world.add_serving(2);
    let unhook = |want: &mut DesiredMachine| {
        want.deletion = Deletion::Unhooked {
            since: "2026-01-01T00:00:00Z".parse().unwrap_or_default(),
        };
    };
    world.change(&machine_name(1), unhook);
    world.delete(&machine_name(2));
    world.run(seconds(900));
    assert!(!super::gone(&world, 1) && !super::gone(&world, 2));
    world.desired.id = Lookup::Absent;
    world.set_load_balancer();
    world.run(seconds(10));
    assert!(super::gone(&world, 1) && !super::gone(&world, 2));
}

#[test]
fn a_write_under_way_is_not_forgotten_when_the_load_balancer_is_another_one() {
    let mut world = world(1);
    world.latency = seconds(20);
    world.add(2, false, Deletion::No);
    world.run(seconds(30));
    for id in ["lb-2", "lb-3", "lb-4"] {
        world.desired.id = Lookup::Found(id.into());
        world.set_load_balancer();
        // The model fails if a second call is made while the first one is under way.
        world.run(seconds(3));
    }
    world.latency = SECOND;
    world.run(seconds(600));
    assert_eq!(
        super::member_of(&world, 2),
        Some(ProvisioningStatus::Active)
    );
}

/// After a restart the controllers hand over one machine after the other, some of them after the first read of the
/// tree.
#[test]
fn what_was_broken_before_a_restart_is_repaired_no_sooner_where_its_machine_is_handed_over_late() {
    for restart in [30, 100, 200, 400] {
        let mut world = world(2);
        world.model.fates = vec![Fate::Fails; 200];
        world.add(3, false, Deletion::No);
        let mut known = attempts(&world);
        let mut times = Vec::new();
        run_and_note(&mut world, &mut known, &mut times, restart);
        world.lag = seconds(4);
        world.restart();
        run_and_note(&mut world, &mut known, &mut times, 595 - restart);
        assert!((3..=5).contains(&times.len()), "{restart}: {times:?}");
    }
}

#[test]
fn a_replacement_that_can_not_be_completed_does_not_keep_other_members_from_being_repaired() {
    let mut world = world(2);
    world.model.fates = vec![Fate::Fails];
    let third = world.add(3, false, Deletion::No);
    let is_deletion = |change: &Change| matches!(change, Change::DeleteMember { .. });
    while !world.model.writes.iter().any(is_deletion) {
        world.run(SECOND / 10);
        assert!(world.at() < 1_000.0);
    }
    world.change(&third, |want| want.server.state = ServerState::Absent);
    world.run(seconds(10));
    world.model.fates = vec![Fate::Fails];
    let fourth = world.add(4, false, Deletion::No);
    world.run(seconds(120));
    assert!(world.nodes[&fourth].want.admitted);
}

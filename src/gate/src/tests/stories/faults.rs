//! Calls of one kind fail or are refused again and again, while all other calls are answered.

use super::{SECOND, gone, held, member_of, seconds, world};
use crate::{
    model::{call::Call, desired::Deletion, event::Event, octavia::Change},
    tests::{
        model::Fate,
        world::{Line, World, address, machine_name},
    },
};
use capo_core::{FailureClass, ProvisioningStatus, Reason};

const MINUTE: u64 = 60;

fn change(call: &Call) -> Option<&Change> {
    match call {
        Call::Write(change) => Some(change),
        _ => None,
    }
}

fn lists_fail(call: &Call) -> Option<Line> {
    matches!(call, Call::Members { .. }).then_some(Line::Down(FailureClass::Transient))
}

fn structure_fails(call: &Call) -> Option<Line> {
    matches!(call, Call::ListenersAndPools).then_some(Line::Down(FailureClass::Denied))
}

fn posts_fail(call: &Call) -> Option<Line> {
    matches!(change(call), Some(Change::CreateMember { .. }))
        .then_some(Line::Down(FailureClass::Transient))
}

fn deletions_fail(call: &Call) -> Option<Line> {
    matches!(change(call), Some(Change::DeleteMember { .. }))
        .then_some(Line::Down(FailureClass::Transient))
}

fn is_repair_put(change: &Change) -> bool {
    matches!(
        change,
        Change::UpdateMember { update, .. }
            if update.weight.is_none() && update.admin_state_up.is_none()
    )
}

/// Writes that repair a member are carried out, but their answers are lost.
fn repairs_are_not_answered(call: &Call) -> Option<Line> {
    change(call)
        .is_some_and(|change| {
            is_repair_put(change) || matches!(change, Change::DeleteMember { .. })
        })
        .then_some(Line::ReplyLost)
}

/// Another client changes the load balancer whenever a member is to be created. Between these moments it reads ACTIVE.
fn creations_meet_a_lock(call: &Call) -> Option<Line> {
    matches!(change(call), Some(Change::CreateMember { .. }))
        .then_some(Line::Down(FailureClass::Conflict))
}

fn nothing_is_answered(_: &Call) -> Option<Line> {
    Some(Line::Down(FailureClass::Transient))
}

fn drains_are_denied(call: &Call) -> Option<Line> {
    let is_drain = matches!(
        change(call),
        Some(Change::UpdateMember { update, .. }) if update.weight == Some(0)
    );
    is_drain.then_some(Line::Down(FailureClass::Denied))
}

fn deletions_are_denied(call: &Call) -> Option<Line> {
    matches!(change(call), Some(Change::DeleteMember { .. }))
        .then_some(Line::Down(FailureClass::Denied))
}

fn message(world: &World, index: u8) -> String {
    let release = &world.findings.machines[&machine_name(index)].release;
    assert!(release.is_held(), "{release:?}");
    release.message.clone()
}

#[test]
fn a_list_that_keeps_failing_is_read_ever_less_often_and_is_the_reason_of_the_hold() {
    let mut world = world(3);
    world.fault = lists_fail;
    world.delete(&machine_name(1));
    world.run(seconds(MINUTE));
    let calls = world.tally.calls;
    world.run(seconds(10 * MINUTE));
    // The tree is read every 15 s, and the list every 8 to 30 s.
    let calls = world.tally.calls - calls;
    assert!(calls <= 120, "{calls}");
    assert_eq!(held(&world, 1), Some(Reason::OpenStackUnavailable));
    let text = message(&world, 1);
    assert!(text.contains("the model answers Transient"), "{text}");
    // The pause ends soon after the trouble.
    world.fault = |_| None;
    world.run(seconds(MINUTE));
    assert!(gone(&world, 1), "{}", message(&world, 1));
}

#[test]
fn a_machine_is_admitted_though_the_lists_of_members_fail() {
    let mut world = world(2);
    world.fault = lists_fail;
    world.step(Event::Nudged);
    world.run(seconds(MINUTE));
    world.add(3, false, Deletion::No);
    world.run(seconds(2 * MINUTE));
    assert!(
        world.nodes[&machine_name(3)].want.admitted,
        "{:?}",
        world.findings.machines[&machine_name(3)].admission
    );
}

#[test]
fn a_structure_that_keeps_being_denied_is_read_ever_less_often() {
    let mut world = world(1);
    world.fault = structure_fails;
    world.state.reads.listeners_and_pools_due = true;
    world.run(seconds(5 * MINUTE));
    let calls = world.tally.calls;
    world.run(seconds(10 * MINUTE));
    let calls = world.tally.calls - calls;
    assert!(calls <= 20, "{calls}");
}

#[test]
fn a_member_whose_post_keeps_failing_is_posted_at_most_six_times_in_ten_minutes() {
    let mut world = world(2);
    let writes = world.tally.writes;
    world.fault = posts_fail;
    world.add(3, false, Deletion::No);
    world.run(seconds(10 * MINUTE));
    let writes = world.tally.writes - writes;
    assert!((4..=6).contains(&writes), "{writes}");
    let admission = &world.findings.machines[&machine_name(3)].admission;
    assert!(
        admission.is_held()
            && admission.reason == Reason::MemberMissing
            && admission.message.contains("the model answers Transient"),
        "{admission:?}"
    );
    world.fault = |_| None;
    world.run(seconds(10 * MINUTE));
    assert!(world.nodes[&machine_name(3)].want.admitted);
}

#[test]
fn a_removal_whose_deletion_keeps_failing_is_tried_again_and_named() {
    let mut world = world(3);
    world.fault = deletions_fail;
    world.delete(&machine_name(1));
    world.run(seconds(MINUTE));
    let text = message(&world, 1);
    assert!(text.contains("the model answers Transient"), "{text}");
    let deletes = |world: &World| world.tally.writes;
    let before = deletes(&world);
    world.run(seconds(10 * MINUTE));
    assert!(
        deletes(&world) - before <= 20,
        "{}",
        deletes(&world) - before
    );
    world.fault = |_| None;
    world.run(seconds(11 * MINUTE));
    assert!(gone(&world, 1), "{}", message(&world, 1));
}

#[test]
fn repairs_whose_answers_are_lost_are_counted_as_attempts() {
    let mut world = world(2);
    world.fault = repairs_are_not_answered;
    // Every member that is repaired or created again is broken again.
    world.model.fates = vec![Fate::Fails; 200];
    let name = world.add(3, false, Deletion::No);
    let mut repairs = 0;
    let mut seen = world.model.writes.len();
    for _ in 0..600 {
        world.run(SECOND);
        for change in &world.model.writes[seen..] {
            repairs +=
                usize::from(is_repair_put(change) || matches!(change, Change::DeleteMember { .. }));
        }
        seen = world.model.writes.len();
    }
    assert!((3..=5).contains(&repairs), "{repairs}");
    assert!(!world.nodes[&name].want.admitted);
}

#[test]
fn a_drain_that_is_denied_is_named_and_called_off_and_lets_the_next_one_go_first() {
    let mut world = world(3);
    world.fault = drains_are_denied;
    world.delete(&machine_name(1));
    world.run(seconds(MINUTE));
    assert_eq!(held(&world, 1), Some(Reason::MemberDraining));
    let text = message(&world, 1);
    assert!(text.contains("the model answers Denied"), "{text}");
    let writes = world.tally.writes;
    world.run(seconds(10 * MINUTE));
    assert!(
        world.tally.writes - writes <= 12,
        "{}",
        world.tally.writes - writes
    );
    let text = message(&world, 1);
    assert!(text.contains("the model answers Denied"), "{text}");
    world.fault = |_| None;
    world.run(seconds(11 * MINUTE));
    assert!(gone(&world, 1), "{}", message(&world, 1));
}

#[test]
fn a_member_whose_deletion_is_denied_goes_back_into_service() {
    let mut world = world(3);
    world.fault = deletions_are_denied;
    world.delete(&machine_name(1));
    world.run(seconds(MINUTE));
    let text = message(&world, 1);
    assert!(text.contains("the model answers Denied"), "{text}");
    let is_in_service = |world: &World| {
        let mut members = world.model.members();
        members.any(|member| member.address == address(1) && member.weight > 0)
    };
    assert!(!is_in_service(&world));
    let mut times = 0;
    for _ in 0..10 * MINUTE {
        world.run(SECOND);
        times += u32::from(is_in_service(&world));
    }
    assert!(times > 0, "{}", message(&world, 1));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    world.fault = |_| None;
    world.run(seconds(21 * MINUTE));
    assert!(gone(&world, 1), "{}", message(&world, 1));
}

#[test]
fn a_repair_that_was_denied_long_ago_does_not_put_off_a_release() {
    let mut world = world(3);
    world.fault = |call| {
        let is_repair = change(call).is_some_and(is_repair_put);
        is_repair.then_some(Line::Down(FailureClass::Denied))
    };
    world.fall(address(1));
    for member in world.model.members_mut() {
        if member.address == address(1) {
            member.provisioning = ProvisioningStatus::Error;
        }
    }
    world.run(seconds(20 * MINUTE));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Error));
    world.delete(&machine_name(1));
    world.run(seconds(MINUTE));
    assert!(gone(&world, 1), "{}", message(&world, 1));
}

/// An operator enables a member while a health monitor stays broken, so the load balancer never settles.
#[test]
fn what_an_operator_enables_is_seen_while_the_load_balancer_does_not_settle() {
    let mut world = world(2);
    for member in world.model.members_mut() {
        member.admin_up = member.address != address(2);
    }
    for pool in &mut world.model.pools {
        let monitor = pool.monitor.as_mut();
        monitor.unwrap().2 = ProvisioningStatus::Error;
    }
    world.model.fates = vec![Fate::Fails; 200];
    world.run(seconds(30 * MINUTE));
    world.delete(&machine_name(1));
    world.run(seconds(30 * MINUTE));
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    for member in world.model.members_mut() {
        member.admin_up = true;
    }
    let writes = world.tally.drains;
    world.run(seconds(9 * MINUTE));
    assert!(world.tally.drains > writes, "{}", message(&world, 1));
}

#[test]
fn a_left_over_member_whose_deletion_ends_in_error_is_deleted_at_most_four_times_in_ten_minutes() {
    for fault in [
        |_: &Call| None,
        deletions_fail as fn(&Call) -> Option<Line>,
        deletions_are_denied,
    ] {
        let mut world = world(3);
        let name = machine_name(3);
        if let Some(node) = world.nodes.get_mut(&name) {
            node.gone = true;
        }
        world.set_machine(&name);
        world.model.fates = vec![Fate::Fails; 200];
        world.fault = fault;
        world.run(seconds(10 * MINUTE));
        assert!(
            (2..=4).contains(&world.tally.prunes),
            "{}",
            world.tally.prunes
        );
        world.model.fates.clear();
        world.fault = |_| None;
        world.run(seconds(11 * MINUTE));
        assert_eq!(member_of(&world, 3), None);
    }
}

#[test]
fn a_machine_is_released_though_the_lists_of_listeners_and_pools_fail() {
    let mut world = world(3);
    world.fault = structure_fails;
    world.state.reads.listeners_and_pools_due = true;
    world.run(seconds(2 * MINUTE));
    world.delete(&machine_name(1));
    world.run(seconds(MINUTE));
    assert!(gone(&world, 1), "{}", message(&world, 1));
}

#[test]
fn a_member_is_created_though_a_monitor_is_missing_and_can_not_be_looked_for() {
    let mut world = world(2);
    world.fault = structure_fails;
    world.model.pools.first_mut().unwrap().monitor = None;
    world.run(seconds(MINUTE));
    world.add(3, false, Deletion::No);
    world.run(seconds(MINUTE));
    assert!(world.nodes[&machine_name(3)].want.admitted);
}

#[test]
fn a_write_that_keeps_meeting_a_lock_is_made_ever_less_often_and_named() {
    let mut world = world(2);
    let writes = world.tally.writes;
    world.fault = creations_meet_a_lock;
    world.add(3, false, Deletion::No);
    world.run(seconds(10 * MINUTE));
    let writes = world.tally.writes - writes;
    assert!((10..=15).contains(&writes), "{writes}");
    let admission = &world.findings.machines[&machine_name(3)].admission;
    assert!(
        admission.is_held() && admission.message.contains("the model answers Conflict"),
        "{admission:?}"
    );
    world.fault = |_| None;
    world.run(seconds(10 * MINUTE));
    assert!(world.nodes[&machine_name(3)].want.admitted);
}

#[test]
fn a_deletion_that_ends_in_error_again_is_called_off_and_lets_the_next_one_go_first() {
    let mut world = world(3);
    world.model.fates = vec![Fate::Fine, Fate::Fails, Fate::Fails];
    world.delete(&machine_name(1));
    world.run(SECOND);
    world.delete(&machine_name(2));
    let begun = world.at();
    while !gone(&world, 2) {
        world.run(SECOND);
        assert!(world.at() < begun + 150.0, "{}", message(&world, 1));
    }
    assert!(!gone(&world, 1));
    assert_eq!(world.tally.restores, 1);
    let said = message(&world, 1);
    assert!(said.contains("ends in ERROR"), "{said}");
    world.run(seconds(10 * MINUTE));
    assert!(gone(&world, 1));
}

#[test]
fn a_deletion_that_ends_in_error_once_is_repeated_and_not_called_off() {
    let mut world = world(2);
    world.model.fates = vec![Fate::Fine, Fate::Fails];
    world.delete(&machine_name(1));
    let begun = world.at();
    while !gone(&world, 1) {
        world.run(SECOND);
        assert!(world.at() < begun + 150.0, "{}", message(&world, 1));
    }
    assert_eq!(world.tally.restores, 0);
}

#[test]
fn a_member_that_can_not_be_put_back_is_not_written_in_a_hot_loop() {
    let mut world = world(3);
    world.model.fates = vec![Fate::Fails; 100];
    world.delete(&machine_name(1));
    world.run(seconds(10 * MINUTE));
    // For each of the attempts at 0, 1, 3 and 8 minutes: two deletions, and the write that puts the member back.
    assert!(world.tally.writes <= 20, "{}", world.tally.writes);
}

#[test]
fn a_machine_without_our_hook_waits_no_longer_for_octavia_than_until_the_alert() {
    let mut world = world(2);
    world.fault = nothing_is_answered;
    let since = world.present().wall;
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::Unhooked { since };
    });
    world.run(seconds(11 * MINUTE));
    assert!(!gone(&world, 1));
    world.run(seconds(2 * MINUTE));
    assert!(gone(&world, 1));
}

//! What a write that Octavia accepted changes in the state.

use std::{sync::LazyLock, time::Instant};

use crate::{
    apply::write::{accepted, refused},
    model::{
        attempts::{Attempts, Refusal},
        call::{Operation, Sets, Write},
        clock::Now,
        octavia::Written,
        part::PartKind,
        port::Port,
        state::State,
    },
    tests::{
        model::failure,
        pair::{machine, member, state},
        world::machine_name,
    },
};
use capo_core::{
    FailureClass, MonitorType,
    octavia::{Member, MonitorParameters},
};

pub(crate) const PARAMETERS: MonitorParameters = MonitorParameters {
    delay: 1,
    timeout: 2,
    max_retries: 3,
    max_retries_down: 4,
};

/// When the first write in a row was refused.
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

fn refusal() -> Refusal {
    Refusal {
        class: FailureClass::Quota,
        message: "q".to_owned(),
        since: *FIRST,
    }
}

/// The state before a write: no read is due, and the last attempt at every write was refused.
pub(crate) fn before() -> (State, Now) {
    let (mut state, now) = state();
    state.reads.listeners_and_pools_due = false;
    for port in &mut state.ports {
        (port.members_due, port.monitor_parameters_due) = (false, false);
        port.refusal = Some(refusal());
    }
    let slot = &mut machine(&mut state, 1).slots[1];
    slot.refusal = Some(refusal());
    slot.attempts = Attempts::inherited(now.instant);
    (state, now)
}

/// Applies that Octavia accepted a write, with an answer that shows nothing.
fn accept(state: &mut State, write: &Write, now: &Now) {
    accepted(state, write, None, now.instant, now, Written::default());
}

/// The state after Octavia accepted a write of the second port.
fn done(write: &Write, sets: Option<Sets>, written: Written) -> (State, Now) {
    let (mut state, now) = before();
    accepted(&mut state, write, sets, now.instant, &now, written);
    let untouched = &state.ports[0];
    assert_eq!(untouched.refusal, Some(refusal()));
    assert!(!untouched.members_due && !untouched.monitor_parameters_due);
    (state, now)
}

fn part(write: &Write, sets: Option<Sets>) -> (bool, Port, Now) {
    let (state, now) = done(write, sets, Written::default());
    (
        state.reads.listeners_and_pools_due,
        state.ports[1].clone(),
        now,
    )
}

#[test]
fn a_part_that_was_made_is_known_as_it_was_made() {
    let make = |part| Write::CreatePart { port: 8132, part };
    let range = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
    let ranges = vec![range("10.2.0.0/16"), range("10.1.0.0/16")];
    let (_, listener, _) = part(
        &make(PartKind::Listener),
        Some(Sets::Cidrs(Some(ranges.clone()))),
    );
    let sorted = vec![range("10.1.0.0/16"), range("10.2.0.0/16")];
    assert_eq!(listener.cidrs, Some(sorted.clone()));
    assert_eq!(listener.refusal, None);
    let (_, listener, _) = part(&make(PartKind::Listener), Some(Sets::Cidrs(None)));
    assert_eq!(listener.cidrs, None);
    let (_, pool, _) = part(&make(PartKind::Pool), None);
    assert_eq!(pool.refusal, None);
    let sets = Sets::Monitor(MonitorType::Tcp, PARAMETERS);
    let (_, monitor, _) = part(&make(PartKind::Monitor), Some(sets));
    assert_eq!(
        (monitor.monitor_parameters, monitor.monitor_parameters_due),
        (Some(PARAMETERS), false)
    );
    let cidrs = Write::Cidrs { port: 8132 };
    let (_, changed, _) = part(&cidrs, Some(Sets::Cidrs(Some(ranges))));
    assert_eq!((changed.cidrs, changed.refusal), (Some(sorted), None));
    let parameters = Write::MonitorParameters { port: 8132 };
    let (_, changed, _) = part(&parameters, Some(Sets::MonitorParameters(PARAMETERS)));
    assert_eq!(
        (changed.monitor_parameters, changed.refusal),
        (Some(PARAMETERS), None)
    );
}

#[test]
fn what_a_change_of_a_part_leaves_unknown_is_read_again() {
    let kind = PartKind::Pool;
    let (is_due, repaired, now) = part(
        &Write::RepairPart {
            port: 8132,
            part: kind,
        },
        None,
    );
    assert!(!is_due && repaired.refusal.is_some());
    assert_eq!(repaired.attempts.count, 1);
    let last_put = repaired.last_put.unwrap();
    assert_eq!(last_put.at, now.instant);
    let (is_due, replaced, now) = part(
        &Write::ReplacePart {
            port: 8132,
            part: kind,
        },
        None,
    );
    assert!(is_due && replaced.members_due && replaced.monitor_parameters_due);
    assert_eq!(replaced.attempts.next, Some(now.instant));
    assert_eq!(replaced.last_put, None);
    let (is_due, retyped, _) = part(&Write::Retype { port: 8132 }, None);
    assert!(is_due && retyped.monitor_parameters_due && !retyped.members_due);
    assert_eq!((retyped.retypes.count, retyped.refusal), (1, None));
    let (mut state, now) = before();
    state.ports[1].stray_pool = Some("stray".into());
    let attach = Write::Attach { port: 8132 };
    accept(&mut state, &attach, &now);
    assert_eq!(
        (&state.ports[1].stray_pool, &state.ports[1].refusal),
        (&None, &None)
    );
}

pub(crate) fn write_of(operation: Operation) -> Write {
    Write::Member {
        machine: machine_name(1),
        port: 8132,
        operation,
    }
}

#[test]
fn the_answer_to_a_write_of_a_member_has_its_detail_or_the_list_is_read() {
    for operation in Operation::ALL {
        let (state, _) = done(&write_of(operation), None, Written::default());
        let is_due = operation != Operation::Delete;
        assert_eq!(state.ports[1].members_due, is_due, "{operation:?}");
    }
    let (mut state, now) = before();
    let shown = |id: &capo_core::ids::MemberId| Member {
        id: id.clone(),
        weight: 5,
        ..Member::default()
    };
    let known = member(&mut state, 1, 1).id.clone();
    for id in [known, "new".into()] {
        let written = Written {
            part: None,
            member: Some(Box::new(shown(&id))),
        };
        let write = write_of(Operation::Drain);
        accepted(&mut state, &write, None, now.instant, &now, written);
    }
    assert_eq!(member(&mut state, 1, 1).weight(), Some(5));
    assert_eq!(state.ports[1].details_ahead, [shown(&"new".into()).into()]);
    assert!(!state.ports[1].members_due);
}

#[test]
fn a_write_of_a_member_is_noted_with_what_it_changes() {
    use Operation::{Create, Delete, Drain, Enable, Repair, Replace, Restore};
    for operation in Operation::ALL {
        let (mut state, now) = before();
        let earlier = now.instant;
        let slot = &mut machine(&mut state, 1).slots[1];
        slot.deleted = Some(earlier);
        slot.put_tried = true;
        slot.deletions = 1;
        slot.absent_reads = 3;
        let write = write_of(operation);
        accepted(&mut state, &write, None, earlier, &now, Written::default());
        let slot = &machine(&mut state, 1).slots[1];
        assert_eq!(slot.refusal, None, "{operation:?}");
        let creates = matches!(operation, Create | Replace);
        assert_eq!(slot.posted, creates.then_some((earlier, operation)));
        let is_deleted = !creates && operation != Restore;
        assert_eq!(slot.deleted.is_some(), is_deleted, "{operation:?}");
        assert_eq!(slot.put_tried, !creates, "{operation:?}");
        assert_eq!(slot.absent_reads, if creates { 0 } else { 3 });
        let made = match operation {
            // The attempts that were counted until now were refusals.
            Create => 0,
            Delete | Repair | Restore => 2,
            Replace | Drain | Enable => 1,
        };
        assert_eq!(slot.attempts.count, made, "{operation:?}");
        let deletions = match operation {
            Delete => 2,
            _ => u32::from(!creates),
        };
        assert_eq!(slot.deletions, deletions, "{operation:?}");
    }
    let (mut state, now) = before();
    machine(&mut state, 1).slots[1].put_tried = false;
    let repair = write_of(Repair);
    accept(&mut state, &repair, &now);
    assert!(machine(&mut state, 1).slots[1].put_tried);
}

#[test]
fn a_left_over_member_is_deleted_again_after_a_pause_only() {
    let outcomes = [
        (None, 1),
        (Some(FailureClass::Quota), 1),
        (Some(FailureClass::Transient), 1),
        (Some(FailureClass::Conflict), 0),
        (Some(FailureClass::NotSent), 0),
    ];
    for (class, made) in outcomes {
        let (mut state, now) = before();
        let member = state.ports[1].members[0].id.clone();
        let prune = Write::Prune { port: 8132, member };
        match class {
            None => accept(&mut state, &prune, &now),
            Some(class) => refused(&mut state, &prune, None, failure(class), &now),
        }
        let prunes = |state: &State, index: usize| state.ports[1].members[index].prunes.count;
        assert_eq!(prunes(&state, 0), made, "{class:?}");
        assert_eq!(prunes(&state, 1), 0, "{class:?}");
    }
}

#[test]
fn from_the_tenth_lock_in_a_row_on_a_write_waits_as_after_a_refusal() {
    for class in [FailureClass::Locked, FailureClass::Conflict] {
        let (mut state, now) = before();
        let member = state.ports[1].members[0].id.clone();
        let prune = Write::Prune { port: 8132, member };
        let repair = Write::RepairPart {
            port: 8132,
            part: PartKind::Monitor,
        };
        let replace = write_of(Operation::Replace);
        let waits = |state: &mut State| {
            let slot = machine(state, 1).slots[1].attempts.is_due(now.instant);
            let port = &state.ports[1];
            let left_over = port.members[0].prunes.is_due(now.instant);
            [!slot, !port.attempts.is_due(now.instant), !left_over]
        };
        machine(&mut state, 1).slots[1].attempts = Attempts::default();
        for count in 1..=10 {
            for write in [&replace, &repair, &prune] {
                refused(&mut state, write, None, failure(class), &now);
            }
            assert_eq!(waits(&mut state), [count == 10; 3], "{count}");
        }
        let refusal = machine(&mut state, 1).slots[1].refusal.clone();
        assert_eq!(refusal.map(|refusal| refusal.class), Some(class));
        // An accepted deletion ends the row.
        accept(&mut state, &prune, &now);
        assert_eq!(state.ports[1].members[0].failures, 0);
    }
}

//! What a write that failed changes in the state.

use crate::{
    apply::write::{is_unsettling, outcome, refused},
    model::{
        call::{Operation, Sets, Write},
        desired::Deletion,
        metric_event::OperationOutcome,
        octavia::Written,
        part::PartKind,
        state::State,
    },
    tests::{
        model::failure,
        pair::{UNHOOKED, machine, member},
        written::{PARAMETERS, before, write_of},
    },
};
use capo_core::{FailureClass, MonitorType};

/// The state after a write of the second port failed.
fn failed(write: &Write, class: FailureClass) -> State {
    let (mut state, now) = before();
    state.reads.settling = None;
    state.ports[1].refusal = None;
    machine(&mut state, 1).slots[1].refusal = None;
    refused(&mut state, write, None, failure(class), &now);
    state
}

const REFUSED: [FailureClass; 6] = [
    FailureClass::Denied,
    FailureClass::Quota,
    FailureClass::Invalid,
    FailureClass::InUse,
    FailureClass::Duplicate,
    FailureClass::NotImplemented,
];
const UNKNOWN: [FailureClass; 5] = [
    FailureClass::Transient,
    FailureClass::Throttled,
    FailureClass::Auth,
    FailureClass::NoService,
    FailureClass::NotSent,
];

fn part_writes() -> [Write; 6] {
    let part = PartKind::Pool;
    [
        Write::CreatePart { port: 8132, part },
        Write::Attach { port: 8132 },
        Write::RepairPart { port: 8132, part },
        Write::ReplacePart { port: 8132, part },
        Write::Retype { port: 8132 },
        Write::Cidrs { port: 8132 },
    ]
}

#[test]
fn a_refused_write_is_repeated_after_a_while_with_its_reason() {
    for class in REFUSED {
        for write in part_writes() {
            let state = failed(&write, class);
            let port = &state.ports[1];
            assert_eq!(
                port.refusal.as_ref().map(|refusal| refusal.class),
                Some(class)
            );
            assert_eq!(port.attempts.count, 1, "{write:?}");
            let is_repair = matches!(write, Write::RepairPart { .. });
            assert_eq!(port.last_put.is_some(), is_repair, "{write:?}");
            assert!(state.trouble.is_none() && state.reads.settling.is_none());
            assert_eq!(
                state.reads.listeners_and_pools_due,
                class == FailureClass::Duplicate
            );
        }
        let mut state = failed(&write_of(Operation::Create), class);
        assert!(!state.reads.listeners_and_pools_due, "{class:?}");
        let slot = &machine(&mut state, 1).slots[1];
        assert_eq!(
            slot.refusal.as_ref().map(|refusal| refusal.class),
            Some(class)
        );
        assert_eq!(slot.attempts.count, 2);
    }
}

#[test]
fn after_a_write_whose_outcome_is_unknown_what_it_may_have_changed_is_read_again() {
    for class in UNKNOWN {
        for write in part_writes() {
            let state = failed(&write, class);
            let is_repair = matches!(write, Write::RepairPart { .. });
            assert_eq!(state.reads.listeners_and_pools_due, !is_repair, "{write:?}");
            assert!(state.trouble.is_some() && state.ports[1].refusal.is_none());
            // Octavia may have carried out a repair, so it counts as an attempt. A write that was not sent does not.
            let repairs = matches!(write, Write::RepairPart { .. } | Write::ReplacePart { .. });
            let is_counted = repairs && class != FailureClass::NotSent;
            assert_eq!(state.ports[1].attempts.count, u32::from(is_counted));
        }
        let parameters = failed(&Write::MonitorParameters { port: 8132 }, class);
        assert!(
            parameters.ports[1].monitor_parameters_due
                && !parameters.ports[0].monitor_parameters_due
        );
        assert!(!parameters.reads.listeners_and_pools_due);
        let mut drained = failed(&write_of(Operation::Drain), class);
        assert_eq!(member(&mut drained, 1, 1).detail, None);
        assert!(member(&mut drained, 1, 0).detail.is_some());
        assert!(member(&mut drained, 2, 1).detail.is_some());
        assert!(drained.ports[1].members_due && !drained.ports[0].members_due);
        assert!(drained.trouble.is_some());
    }
}

#[test]
fn the_third_write_in_a_row_without_an_answer_waits_as_after_a_refusal() {
    let (mut state, now) = before();
    state.ports[1].refusal = None;
    machine(&mut state, 1).slots[1].refusal = None;
    let create = write_of(Operation::Create);
    let before_that = machine(&mut state, 1).slots[1].attempts.count;
    let make = Write::CreatePart {
        port: 8132,
        part: PartKind::Pool,
    };
    for count in 1..=4 {
        for write in [&create, &make] {
            let failure = failure(FailureClass::Transient);
            refused(&mut state, write, None, failure, &now);
        }
        let waits = u32::saturating_sub(count, 2);
        let port = &state.ports[1];
        assert_eq!(port.refusal.is_some(), waits > 0, "{count}");
        assert_eq!(port.attempts.count, waits, "{count}");
        let slot = &machine(&mut state, 1).slots[1];
        assert_eq!(slot.refusal.is_some(), waits > 0, "{count}");
        assert_eq!(slot.attempts.count, before_that + waits, "{count}");
    }
}

#[test]
fn a_deletion_without_an_answer_is_an_attempt_at_a_repair_where_the_machine_stays() {
    for (deletion, is_counted) in [(Deletion::No, true), (UNHOOKED, false)] {
        let (mut state, now) = before();
        machine(&mut state, 1).want.deletion = deletion;
        let before = machine(&mut state, 1).slots[1].attempts.count;
        let failure = failure(FailureClass::Transient);
        refused(
            &mut state,
            &write_of(Operation::Delete),
            None,
            failure,
            &now,
        );
        let slot = &machine(&mut state, 1).slots[1];
        assert_eq!(slot.attempts.count - before, u32::from(is_counted));
        assert_eq!(slot.deleted.is_some(), is_counted);
    }
}

#[test]
fn a_load_balancer_that_takes_no_writes_is_read_until_it_does() {
    for class in [FailureClass::Locked, FailureClass::Conflict] {
        for write in part_writes() {
            let state = failed(&write, class);
            assert_eq!(state.reads.settling.map(|settling| settling.reads), Some(0));
            assert!(state.trouble.is_none() && state.ports[1].refusal.is_none());
            assert!(!state.reads.listeners_and_pools_due && state.ports[1].attempts.count == 0);
        }
    }
}

#[test]
fn what_is_not_found_is_deleted_or_has_the_structure_read() {
    let mut deleted = failed(&write_of(Operation::Delete), FailureClass::NotFound);
    let slot = &machine(&mut deleted, 1).slots[1];
    assert!(slot.deleted.is_some() && slot.refusal.is_none());
    assert_eq!(slot.attempts.count, 2);
    assert!(!deleted.reads.listeners_and_pools_due);
    let mut updated = failed(&write_of(Operation::Repair), FailureClass::NotFound);
    let slot = &machine(&mut updated, 1).slots[1];
    assert!(slot.deleted.is_none() && slot.refusal.is_some());
    assert!(updated.reads.listeners_and_pools_due);
}

#[test]
fn a_provider_without_monitors_of_a_type_gets_one_that_connects_and_then_none() {
    let write = Write::CreatePart {
        port: 8132,
        part: PartKind::Monitor,
    };
    for (wanted, is_type_refused) in [(MonitorType::Https, true), (MonitorType::Tcp, false)] {
        let (mut state, now) = before();
        let sets = Sets::Monitor(wanted.clone(), PARAMETERS);
        let failure = failure(FailureClass::NotImplemented);
        refused(&mut state, &write, Some(&sets), failure, &now);
        let port = &state.ports[1];
        assert_eq!(port.type_refused, is_type_refused, "{wanted:?}");
        assert_eq!(port.monitor_refused, !is_type_refused, "{wanted:?}");
        assert_eq!(port.attempts.count, 0);
    }
    let other = Write::CreatePart {
        port: 8132,
        part: PartKind::Pool,
    };
    let state = failed(&other, FailureClass::NotImplemented);
    assert!(!state.ports[1].type_refused && !state.ports[1].monitor_refused);
    assert_eq!(state.ports[1].attempts.count, 1);
}

#[test]
fn an_outcome_has_its_name_for_the_metrics_and_says_whether_earlier_reads_count() {
    use FailureClass::{
        Auth, Conflict, Denied, Duplicate, InUse, Invalid, Locked, NoService, NotFound,
        NotImplemented, NotSent, Quota, Throttled, Transient,
    };
    assert_eq!(outcome(&Ok(Written::default())), OperationOutcome::Success);
    for (class, expected, unsettles) in [
        (Locked, OperationOutcome::Conflict, true),
        (Conflict, OperationOutcome::Conflict, true),
        (Duplicate, OperationOutcome::Duplicate, true),
        (NotFound, OperationOutcome::Error, true),
        (Transient, OperationOutcome::Error, true),
        (Throttled, OperationOutcome::Error, true),
        (Auth, OperationOutcome::Error, true),
        (NoService, OperationOutcome::Error, true),
        (Denied, OperationOutcome::Error, false),
        (Quota, OperationOutcome::Error, false),
        (Invalid, OperationOutcome::Error, false),
        (InUse, OperationOutcome::Error, false),
        (NotImplemented, OperationOutcome::Error, false),
        (NotSent, OperationOutcome::Error, false),
    ] {
        let failure = failure(class);
        assert_eq!(is_unsettling(&failure), unsettles, "{class:?}");
        assert_eq!(outcome(&Err(failure)), expected, "{class:?}");
    }
}

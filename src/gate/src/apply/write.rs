//! The outcome of a write: known from the answer, to be repeated later, or reported as refused.

use crate::{
    apply::trouble::in_trouble,
    model::{
        attempts::{Attempts, Refusal},
        call::{Operation, Sets, Write},
        clock::Now,
        machine::Slot,
        member::MemberDetail,
        metric_event::OperationOutcome,
        octavia::{Answer, Failure, Written},
        part::PartKind,
        port::Port,
        state::{Ladder, State},
    },
};
use capo_core::{FailureClass, MonitorType, ObjectName};

/// Earlier reads no longer count: the write may have been carried out, or another object exists now.
pub(crate) fn is_unsettling(failure: &Failure) -> bool {
    !matches!(
        failure.class,
        FailureClass::Denied
            | FailureClass::Quota
            | FailureClass::Invalid
            | FailureClass::InUse
            | FailureClass::NotImplemented
            | FailureClass::LeaseLost
    )
}

pub(crate) fn outcome(answer: &Answer<Written>) -> OperationOutcome {
    match answer {
        Ok(_) => OperationOutcome::Success,
        Err(failure) => match failure.class {
            FailureClass::Locked | FailureClass::Conflict => OperationOutcome::Conflict,
            FailureClass::Duplicate => OperationOutcome::Duplicate,
            _ => OperationOutcome::Error,
        },
    }
}

pub(crate) fn port_mut(state: &mut State, number: u16) -> Option<&mut Port> {
    state.ports.iter_mut().find(|port| port.number == number)
}

fn slot_mut<'a>(state: &'a mut State, machine: &ObjectName, number: u16) -> Option<&'a mut Slot> {
    let index = state.ports.iter().position(|port| port.number == number)?;
    state.machines.get_mut(machine)?.slots.get_mut(index)
}

pub(crate) fn accepted(
    state: &mut State,
    write: &Write,
    sets: Option<Sets>,
    sent: std::time::Instant,
    now: &Now,
    written: Written,
) {
    match write {
        Write::MakePart { port, part } => {
            let Some(port) = port_mut(state, *port) else {
                return;
            };
            port.refusal = None;
            match (part, sets) {
                (PartKind::Listener, Some(Sets::Cidrs(cidrs))) => {
                    port.cidrs = cidrs.map(sorted);
                }
                (PartKind::Pool, _) => port.members_due = false,
                (PartKind::Monitor, Some(Sets::Monitor(_, numbers))) => {
                    port.numbers = Some(numbers);
                    port.numbers_due = false;
                }
                _ => {}
            }
        }
        Write::Attach { port } => {
            if let Some(port) = port_mut(state, *port) {
                port.stray_pool = None;
                port.refusal = None;
            }
        }
        Write::RepairPart { port, part } => {
            if let Some(port) = port_mut(state, *port) {
                port.attempts.made(now.instant);
                port.note_push(*part, now.instant);
            }
        }
        Write::ReplacePart { port, .. } => {
            state.reads.structure_due = true;
            if let Some(port) = port_mut(state, *port) {
                // The part is created again as soon as the deleted one is gone.
                port.attempts.go_on(now.instant);
                port.pushed = None;
                port.members_due = true;
                port.numbers_due = true;
            }
        }
        Write::Retype { port } => {
            state.reads.structure_due = true;
            if let Some(port) = port_mut(state, *port) {
                port.retypes.made(now.instant);
                port.refusal = None;
                port.numbers_due = true;
            }
        }
        Write::Numbers { port } => {
            if let (Some(port), Some(Sets::Numbers(numbers))) = (port_mut(state, *port), sets) {
                port.numbers = Some(numbers);
                port.refusal = None;
            }
        }
        Write::Cidrs { port } => {
            if let (Some(port), Some(Sets::Cidrs(cidrs))) = (port_mut(state, *port), sets) {
                port.cidrs = cidrs.map(sorted);
                port.refusal = None;
            }
        }
        Write::Prune { machine, .. } => {
            state.lookups.remove(machine);
        }
        Write::Member {
            machine,
            port,
            operation,
        } => {
            match written.member {
                Some(member) => know_detail(state, *port, (*member).into()),
                None => {
                    if let Some(port) = port_mut(state, *port) {
                        port.members_due |= *operation != Operation::Delete;
                    }
                }
            }
            let Some(slot) = slot_mut(state, machine, *port) else {
                return;
            };
            slot.refusal = None;
            match operation {
                Operation::Create | Operation::Replace | Operation::Adopt => {
                    slot.posted = Some((sent, *operation));
                    if *operation == Operation::Create {
                        // What was counted until now were refusals. A replacement is one more repair.
                        slot.attempts = Attempts::default();
                    }
                    slot.deleted = None;
                    slot.put_tried = false;
                    slot.absent_reads = 0;
                }
                Operation::Delete => {
                    slot.deleted = Some(sent);
                    slot.attempts.made(now.instant);
                }
                Operation::Repair => {
                    slot.put_tried = true;
                    slot.attempts.made(now.instant);
                }
                Operation::Restore => slot.deleted = None,
                Operation::Drain | Operation::Enable => {}
            }
        }
    }
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list
}

fn know_detail(state: &mut State, number: u16, detail: MemberDetail) {
    let Some(port) = port_mut(state, number) else {
        return;
    };
    match port
        .members
        .iter_mut()
        .find(|member| member.id == detail.id)
    {
        Some(member) => member.detail = Some(detail),
        None => port.details_ahead.push(detail),
    }
}

/// Weight, admin state and tags may have the old or the new values; the next list shows which.
fn forget_detail(state: &mut State, machine: &ObjectName, number: u16) {
    let member = slot_mut(state, machine, number).and_then(|slot| slot.member);
    let Some(port) = port_mut(state, number) else {
        return;
    };
    port.members_due = true;
    if let Some(member) = member.and_then(|index| port.members.get_mut(index)) {
        member.detail = None;
    }
}

pub(crate) fn refused(
    state: &mut State,
    write: &Write,
    sets: Option<&Sets>,
    failure: Failure,
    now: &Now,
) {
    match failure.class {
        FailureClass::Locked | FailureClass::Conflict => {
            // The load balancer is read until it takes writes again.
            state.reads.ladder = Some(Ladder::from(now.instant));
            return;
        }
        FailureClass::NotFound => {
            if let Write::Member {
                machine,
                port,
                operation: Operation::Delete,
            } = write
                && let Some(slot) = slot_mut(state, machine, *port)
            {
                slot.deleted = Some(now.instant);
                slot.attempts.made(now.instant);
                return;
            }
            state.reads.structure_due = true;
        }
        FailureClass::Transient
        | FailureClass::Throttled
        | FailureClass::Auth
        | FailureClass::NoService
        | FailureClass::LeaseLost => {
            // It is unknown whether the write was done.
            match write {
                Write::MakePart { .. }
                | Write::Attach { .. }
                | Write::Cidrs { .. }
                | Write::ReplacePart { .. }
                | Write::Retype { .. } => {
                    state.reads.structure_due = true;
                }
                Write::Numbers { port } => {
                    if let Some(port) = port_mut(state, *port) {
                        port.numbers_due = true;
                    }
                }
                Write::Member { machine, port, .. } => forget_detail(state, machine, *port),
                Write::RepairPart { .. } | Write::Prune { .. } => {}
            }
            in_trouble(state, failure, now);
            return;
        }
        FailureClass::Duplicate => {
            state.reads.structure_due |= !matches!(write, Write::Member { .. });
        }
        FailureClass::NotImplemented => {
            if let Write::MakePart {
                port,
                part: PartKind::Monitor,
            } = write
                && let Some(port) = port_mut(state, *port)
            {
                // A monitor that connects by TCP is better than none.
                match sets {
                    Some(Sets::Monitor(wanted, _)) if *wanted != MonitorType::Tcp => {
                        port.type_refused = true;
                    }
                    _ => port.monitor_refused = true,
                }
                return;
            }
        }
        FailureClass::Denied
        | FailureClass::Quota
        | FailureClass::Invalid
        | FailureClass::InUse => {}
    }
    let refusal = Refusal {
        class: failure.class,
        message: failure.message,
    };
    attempted(state, write, now, refusal);
}

/// The write is not repeated at once.
fn attempted(state: &mut State, write: &Write, now: &Now, refusal: Refusal) {
    match write {
        Write::MakePart { port, .. }
        | Write::Attach { port }
        | Write::RepairPart { port, .. }
        | Write::ReplacePart { port, .. }
        | Write::Retype { port }
        | Write::Numbers { port }
        | Write::Cidrs { port } => {
            if let Some(port) = port_mut(state, *port) {
                port.attempts.made(now.instant);
                if let Write::RepairPart { part, .. } = write {
                    port.note_push(*part, now.instant);
                }
                port.refusal = Some(refusal);
            }
        }
        Write::Member { machine, port, .. } => {
            if let Some(slot) = slot_mut(state, machine, *port) {
                slot.attempts.made(now.instant);
                slot.refusal = Some(refusal);
            }
        }
        Write::Prune { machine, .. } => {
            if let Some(lookup) = state.lookups.get_mut(machine) {
                lookup.absent = false;
            }
        }
    }
}

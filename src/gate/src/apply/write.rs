//! Applies the outcome of a write: takes over what Octavia accepted, and notes when to repeat what Octavia did not
//! answer or refused.

use crate::{
    apply::trouble::in_trouble,
    model::{
        attempts::{Attempts, Refusal},
        call::{Operation, Sets, Write},
        clock::Now,
        desired::Deletion,
        machine::Slot,
        member::{Member, MemberDetail},
        metric_event::OperationOutcome,
        octavia::{Answer, Failure, Written},
        part::PartKind,
        port::Port,
        state::{SettlingReads, State},
    },
};
use capo_core::{FailureClass, MonitorType, ObjectName, ids::MemberId};

/// Whether a failed write makes earlier reads unreliable, because it may have been carried out, or because another
/// object exists now.
pub(crate) fn is_unsettling(failure: &Failure) -> bool {
    !matches!(
        failure.class,
        FailureClass::Denied
            | FailureClass::Quota
            | FailureClass::Invalid
            | FailureClass::InUse
            | FailureClass::NotImplemented
            | FailureClass::NotSent
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
    let index = state.port_index(number)?;
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
    if let Some(port) = write.part_of().and_then(|port| port_mut(state, port)) {
        port.failures = 0;
    }
    match write {
        Write::CreatePart { port, part } => {
            let Some(port) = port_mut(state, *port) else {
                return;
            };
            port.refusal = None;
            match (part, sets) {
                (PartKind::Listener, Some(Sets::Cidrs(cidrs))) => {
                    port.cidrs = cidrs.map(sorted);
                }
                (PartKind::Monitor, Some(Sets::Monitor(_, parameters))) => {
                    port.monitor_parameters = Some(parameters);
                    port.monitor_parameters_due = false;
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
                port.attempts.record(now.instant);
                port.note_repair_put(*part, now.instant);
            }
        }
        Write::ReplacePart { port, .. } => {
            state.reads.listeners_and_pools_due = true;
            if let Some(port) = port_mut(state, *port) {
                // The part is created again as soon as the deleted one is gone.
                port.attempts.allow_at_once(now.instant);
                port.last_put = None;
                port.members_due = true;
                port.monitor_parameters_due = true;
            }
        }
        Write::Retype { port } => {
            state.reads.listeners_and_pools_due = true;
            if let Some(port) = port_mut(state, *port) {
                port.retypes.record(now.instant);
                port.refusal = None;
                port.monitor_parameters_due = true;
            }
        }
        Write::MonitorParameters { port } => {
            if let (Some(port), Some(Sets::MonitorParameters(parameters))) =
                (port_mut(state, *port), sets)
            {
                port.monitor_parameters = Some(parameters);
                port.refusal = None;
            }
        }
        Write::Cidrs { port } => {
            if let (Some(port), Some(Sets::Cidrs(cidrs))) = (port_mut(state, *port), sets) {
                port.cidrs = cidrs.map(sorted);
                port.refusal = None;
            }
        }
        Write::Prune { port, member } => {
            if let Some(left_over) = left_over(state, *port, member) {
                left_over.failures = 0;
            }
            note_attempt(state, write, now);
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
            if let Some(slot) = slot_mut(state, machine, *port) {
                member_accepted(slot, *operation, sent, now);
            }
        }
    }
}

/// Takes note of a write to the machine's member that Octavia accepted.
fn member_accepted(slot: &mut Slot, operation: Operation, sent: std::time::Instant, now: &Now) {
    slot.refusal = None;
    slot.failures = 0;
    match operation {
        Operation::Create | Operation::Replace => {
            slot.posted = Some((sent, operation));
            if operation == Operation::Create {
                // The attempts that were counted until now were refusals. A replacement counts as one more repair.
                slot.attempts = Attempts::default();
            }
            slot.deleted = None;
            slot.deletions = 0;
            slot.put_tried = false;
            slot.absent_reads = 0;
        }
        Operation::Delete => {
            slot.deleted = Some(sent);
            slot.deletions = slot.deletions.saturating_add(1);
            slot.attempts.record(now.instant);
        }
        Operation::Repair => {
            slot.put_tried = true;
            slot.attempts.record(now.instant);
        }
        Operation::Restore => {
            slot.deleted = None;
            slot.attempts.record(now.instant);
        }
        Operation::Drain | Operation::Enable => {}
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

/// Forgets the weight, admin state and tags of a member, which may have the old or the new values. The next list shows
/// which.
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
            // The load balancer is read until it accepts writes again.
            state.reads.settling = Some(SettlingReads::from(now.instant));
            if count_failure(state, write) >= LOCKED {
                note_attempt(state, write, now);
                note_refusal(state, write, &failure, now);
            }
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
                slot.attempts.record(now.instant);
                return;
            }
            state.reads.listeners_and_pools_due = true;
        }
        FailureClass::Transient
        | FailureClass::Throttled
        | FailureClass::Auth
        | FailureClass::NoService
        | FailureClass::NotSent => {
            // The write may have been done, unless it was not sent: then the read that is requested here only costs a
            // call.
            match write {
                Write::CreatePart { .. }
                | Write::Attach { .. }
                | Write::Cidrs { .. }
                | Write::ReplacePart { .. }
                | Write::Retype { .. } => {
                    state.reads.listeners_and_pools_due = true;
                }
                Write::MonitorParameters { port } => {
                    if let Some(port) = port_mut(state, *port) {
                        port.monitor_parameters_due = true;
                    }
                }
                Write::Member { machine, port, .. } => forget_detail(state, machine, *port),
                Write::RepairPart { .. } | Write::Prune { .. } => {}
            }
            if failure.class != FailureClass::NotSent {
                unanswered(state, write, &failure, now);
            }
            in_trouble(state, failure, now);
            return;
        }
        FailureClass::Duplicate => {
            state.reads.listeners_and_pools_due |= !matches!(write, Write::Member { .. });
        }
        FailureClass::NotImplemented => {
            if let Write::CreatePart {
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
    note_attempt(state, write, now);
    note_refusal(state, write, &failure, now);
}

/// After this many unanswered writes in a row, the next one waits as long as after a refusal. Before that, the next one
/// follows within seconds.
const UNANSWERED: u32 = 3;
/// After this many writes in a row that meet a locked load balancer, the next one waits as long as after a refusal. The
/// limit is higher than [`UNANSWERED`], because a write is sent only after the load balancer was read as ACTIVE, so
/// even a busy one accepts a write long before this limit.
const LOCKED: u32 = 10;

/// Counts a write whose outcome is unknown. A repair counts as an attempt at once, because Octavia may have carried it
/// out.
fn unanswered(state: &mut State, write: &Write, failure: &Failure, now: &Now) {
    let count = count_failure(state, write);
    let repairs = match write {
        Write::Member {
            machine,
            port,
            operation,
        } => {
            let stays = state
                .machines
                .get(machine)
                .is_some_and(|machine| machine.want.deletion == Deletion::No);
            let recreates = *operation == Operation::Delete && stays;
            if recreates && let Some(slot) = slot_mut(state, machine, *port) {
                slot.deleted = Some(now.instant);
            }
            recreates || *operation == Operation::Repair
        }
        Write::RepairPart { .. } | Write::ReplacePart { .. } | Write::Prune { .. } => true,
        _ => false,
    };
    if repairs || count >= UNANSWERED {
        note_attempt(state, write, now);
    }
    if count >= UNANSWERED {
        note_refusal(state, write, failure, now);
    }
}

/// Counts a write that had no result, and returns how many such writes of that member, or of that port's parts, were
/// made in a row.
fn count_failure(state: &mut State, write: &Write) -> u32 {
    let failures = match write {
        Write::Member { machine, port, .. } => {
            slot_mut(state, machine, *port).map(|slot| &mut slot.failures)
        }
        Write::Prune { port, member } => {
            left_over(state, *port, member).map(|known| &mut known.failures)
        }
        _ => {
            let port = write.part_of().and_then(|port| port_mut(state, port));
            port.map(|port| &mut port.failures)
        }
    };
    failures.map_or(0, |failures| {
        *failures = failures.saturating_add(1);
        *failures
    })
}

fn left_over<'a>(state: &'a mut State, port: u16, id: &MemberId) -> Option<&'a mut Member> {
    let mut members = port_mut(state, port)?.members.iter_mut();
    members.find(|known| known.id == *id)
}

/// Notes an attempt, so that the write is not repeated at once.
fn note_attempt(state: &mut State, write: &Write, now: &Now) {
    match write {
        Write::Member { machine, port, .. } => {
            if let Some(slot) = slot_mut(state, machine, *port) {
                slot.attempts.record(now.instant);
            }
        }
        Write::Prune { port, member } => {
            if let Some(left_over) = left_over(state, *port, member) {
                left_over.prunes.record(now.instant);
            }
        }
        _ => {
            if let Some(port) = write.part_of().and_then(|port| port_mut(state, port)) {
                port.attempts.record(now.instant);
                if let Write::RepairPart { part, .. } = write {
                    port.note_repair_put(*part, now.instant);
                }
            }
        }
    }
}

/// Notes the refusal of a write, for the messages.
fn note_refusal(state: &mut State, write: &Write, failure: &Failure, now: &Now) {
    let refusal = if let Write::Member { machine, port, .. } = write {
        slot_mut(state, machine, *port).map(|slot| &mut slot.refusal)
    } else {
        let port = write.part_of().and_then(|port| port_mut(state, port));
        port.map(|port| &mut port.refusal)
    };
    if let Some(refusal) = refusal {
        let since = refusal.as_ref().map_or(now.instant, |first| first.since);
        *refusal = Some(Refusal {
            class: failure.class,
            message: failure.message.clone(),
            since,
        });
    }
}

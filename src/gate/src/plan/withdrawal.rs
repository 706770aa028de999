//! Whether a write that waits for the request budget may still be sent.

use crate::{
    decide::{classify, serving},
    model::{
        call::{Operation, Purpose, Write},
        decision::GateDecision,
        machine::Machine,
        member::{Class, Owner},
        state::State,
    },
    plan::{
        members::may_enable,
        todo::{MemberPlace, places},
    },
};
use capo_core::ObjectName;

/// Whether the call under way would still be made now. A call may wait for the request budget for up to a minute, and a
/// write must not be sent if the cluster was paused or the release was called off in the meantime.
pub fn is_call_wanted(state: &State) -> bool {
    let Some(call) = &state.call else {
        return false;
    };
    let Purpose::Write(write) = &call.purpose else {
        return true;
    };
    let may_write =
        !call.outdated && !state.is_paused() && state.claimed_by.is_none() && state.credentials;
    may_write
        && match write {
            Write::Member {
                machine,
                port,
                operation,
            } => {
                state
                    .machines
                    .get(machine)
                    .is_some_and(|machine| is_operation_wanted(state, machine, *port, *operation))
                    && (*operation != Operation::Enable || may_be_enabled(state, machine, *port))
            }
            Write::Prune { port, member } => {
                let port = state.ports.iter().find(|known| known.number == *port);
                let members = port.into_iter().flat_map(|port| &port.members);
                let is_left_over = |owner| matches!(owner, Owner::NotHandedOver | Owner::NameOnly);
                members
                    .into_iter()
                    .any(|known| known.id == *member && is_left_over(known.owner))
            }
            _ => true,
        }
}

fn is_operation_wanted(state: &State, machine: &Machine, port: u16, operation: Operation) -> bool {
    let is_stopped = [machine.gates.release, machine.gates.finalizer]
        .iter()
        .any(|gate| matches!(gate, GateDecision::Held(cause) if cause.forbids_writes()));
    !machine.want.paused
        && match operation {
            Operation::Drain => !is_stopped && serving::is_leaving(machine),
            Operation::Delete => {
                !is_stopped
                    && (serving::is_not_needed(state, machine)
                        || is_to_be_replaced(state, machine, port))
            }
            Operation::Create | Operation::Replace | Operation::Enable => {
                !serving::is_not_needed(state, machine)
            }
            Operation::Restore | Operation::Repair => true,
        }
}

/// Whether there still is a reason to enable a member that was created disabled.
fn may_be_enabled(state: &State, machine: &ObjectName, port: u16) -> bool {
    let Some(now) = &state.last_step else {
        return false;
    };
    let is_there = |place: MemberPlace<'_>| place.name == machine && place.port.number == port;
    places(state).any(|(place, _)| is_there(place) && may_enable(state, place, now))
}

/// Whether the machine's member of a port is to be replaced.
fn is_to_be_replaced(state: &State, machine: &Machine, number: u16) -> bool {
    let mut slots = machine.slots.iter().zip(&state.ports);
    slots.any(|(slot, port)| {
        let class = classify::slot(slot, port, state.orphan_span());
        port.number == number && matches!(class, Class::Error | Class::Orphaned)
    })
}

//! Whether a write that waits for the request budget may still be sent.

use crate::{
    decide::serving,
    model::{
        call::{Operation, Purpose, Write},
        decision::GateDecision,
        machine::Machine,
        state::State,
    },
};

/// Whether the call under way would still be made. A call waits for the request budget for up to a minute, and a write must
/// not be sent when the cluster was paused or the release was called off in the meantime.
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
                machine, operation, ..
            } => state
                .machines
                .get(machine)
                .is_some_and(|machine| is_operation_wanted(state, machine, *operation)),
            _ => true,
        }
}

fn is_operation_wanted(state: &State, machine: &Machine, operation: Operation) -> bool {
    let is_stopped = [machine.gates.release, machine.gates.finalizer]
        .iter()
        .any(|gate| matches!(gate, GateDecision::Held(cause) if cause.is_a_stop()));
    !machine.want.paused
        && match operation {
            Operation::Drain => !is_stopped && serving::is_leaving(machine),
            Operation::Delete => !is_stopped && !machine.restoring,
            Operation::Create | Operation::Replace | Operation::Adopt | Operation::Enable => {
                !serving::is_not_needed(state, machine)
            }
            Operation::Restore | Operation::Repair => true,
        }
}

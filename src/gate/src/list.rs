//! The questions of the always-open list that are answered by what was seen over time.

use super::{
    desired::{Health, ServerState},
    serves::{self, Serving},
    state::{Machine, Now, State},
};
use capo_core::ObjectName;
use capo_core::OperatingStatus;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tri {
    Yes,
    Maybe,
    No,
}

/// The control plane was never initialised, as far as Kubernetes says and this process saw.
pub(super) fn never_initialised(state: &State, now: &Now) -> Tri {
    let Some(desired) = &state.desired else {
        return Tri::Maybe;
    };
    // A Machine with a healthy Node says so before its cluster's pass does.
    let joined = |machine: &Machine| matches!(machine.want.node, Health::Good(_));
    if desired.cluster.initialised || state.answered || state.machines.values().any(joined) {
        return Tri::No;
    }
    let Some(watched) = state.watched_since else {
        return Tri::Maybe;
    };
    if now.since(watched) < state.online_span() {
        return Tri::Maybe;
    }
    let unprobed = state
        .machines
        .values()
        .any(|machine| serves::can_probe(state, machine) && machine.probe.seen.is_none());
    if unprobed { Tri::Maybe } else { Tri::Yes }
}

/// The machine was never admitted and serves no port.
pub(super) fn never_served(state: &State, name: &ObjectName, machine: &Machine, now: &Now) -> Tri {
    if machine.may_be_admitted() {
        return Tri::No;
    }
    if state
        .desired
        .as_ref()
        .is_some_and(|desired| desired.id.is_some())
        && state.reads.tree.is_none()
    {
        return Tri::Maybe;
    }
    let held = machine.asked.map(|asked| asked.since.instant);
    let mut answer = Tri::Yes;
    for port in state.ports.iter().enumerate() {
        match serves::serves(state, (name, machine), port, held, true, now) {
            Serving::Yes(_) => return Tri::No,
            Serving::NotYet(_) => answer = Tri::Maybe,
            Serving::No(_) => {}
        }
    }
    answer
}

/// The machine's server is down, and nothing says that it serves all the same.
pub(super) fn server_down(state: &State, name: &ObjectName, machine: &Machine, now: &Now) -> Tri {
    let server = &machine.want.server;
    if !matches!(server.state, ServerState::Absent | ServerState::Shutoff) || server.down_reads < 2
    {
        return Tri::No;
    }
    // The same credential must still see this load balancer, or else it may just be blind.
    let sees = state.balancer.provisioning.is_some() && state.balancer.not_found == 0;
    if !sees
        || state
            .desired
            .as_ref()
            .is_none_or(|desired| desired.id.is_none())
    {
        return Tri::No;
    }
    if !serves::server_is_recent(machine, now) {
        return Tri::Maybe;
    }
    let against = serves::against(state, name, machine, now).is_some();
    let waited = machine
        .asked
        .is_some_and(|asked| now.since(asked.since.instant) >= state.online_span());
    let mut answer = Tri::Yes;
    for (slot, port) in machine.slots.iter().zip(&state.ports) {
        let Some(member) = slot.member.and_then(|index| port.members.get(index)) else {
            continue;
        };
        let online = member.operating == OperatingStatus::Online && !against;
        if port.monitor.is_some() && !against && !waited {
            answer = Tri::Maybe;
        } else if online {
            return Tri::No;
        }
    }
    answer
}

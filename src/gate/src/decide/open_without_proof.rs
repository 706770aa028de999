//! The cases in which a release needs no proof and that depend on several reads.

use crate::{
    decide::serving,
    model::{
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{ObservedCondition, ServerState},
        evidence::{Certainty, Serving},
        machine::{Machine, Slot},
        port::Port,
        state::State,
    },
};
use capo_core::OperatingStatus;

/// Whether the control plane was never initialised, as far as Kubernetes and this process's own observations show.
pub(crate) fn never_initialised(state: &State, now: &Now) -> Certainty {
    let Some(desired) = &state.desired else {
        return Certainty::Maybe;
    };
    // A healthy Node shows that the control plane is initialised earlier than the next reconciliation of the cluster
    // does.
    let joined = |machine: &Machine| matches!(machine.want.node, ObservedCondition::TrueSince(_));
    if desired.cluster.initialised || state.answered || state.machines.values().any(joined) {
        return Certainty::No;
    }
    let Some(watched) = state.watched_since else {
        return Certainty::Maybe;
    };
    if now.since(watched) < state.online_span() {
        return Certainty::Maybe;
    }
    let unprobed = state
        .machines
        .values()
        .any(|machine| serving::may_be_probed(state, machine) && machine.probe.seen.is_none());
    if unprobed {
        Certainty::Maybe
    } else {
        Certainty::Yes
    }
}

/// Whether the machine was never admitted and serves no port.
pub(crate) fn never_served(state: &State, machine: &Machine, now: &Now) -> Certainty {
    if machine.may_be_admitted() {
        return Certainty::No;
    }
    if !state.has_no_balancer() && state.reads.tree_read_at.is_none() {
        return Certainty::Maybe;
    }
    if serving::is_ready(machine, now) {
        return Certainty::No;
    }
    // The answer of a probe that was sent before the machine waited for its release may be out of date.
    let is_probed = machine
        .probe
        .seen
        .zip(machine.waiting_since)
        .is_some_and(|((sent, _), waiting)| sent >= waiting.instant);
    let mut answer = if serving::may_be_probed(state, machine) && !is_probed {
        Certainty::Maybe
    } else {
        Certainty::Yes
    };
    for port in state.indexed_ports() {
        if serving::is_online_in_error(machine, port) {
            return Certainty::No;
        }
        match serving::serves_at_present(state, machine, port, now) {
            Serving::Yes(_) => return Certainty::No,
            Serving::NotYet(_) => answer = Certainty::Maybe,
            Serving::No(_) => {}
        }
    }
    answer
}

/// Whether the machine's server is down and nothing shows that the machine still serves.
pub(crate) fn server_down(state: &State, machine: &Machine, now: &Now) -> Certainty {
    let server = &machine.want.server;
    let is_down = matches!(server.state, ServerState::Absent | ServerState::Shutoff);
    // If this process has never seen the machine's member, the credentials may lead to another load balancer in another
    // project.
    let was_seen = machine.slots.iter().any(|slot| slot.was_seen);
    if !is_down || !server.is_down_for_good() || !was_seen {
        return Certainty::No;
    }
    // The same credentials must still see this load balancer. Otherwise they may merely not see the server either.
    let sees = state.balancer.provisioning.is_some() && state.balancer.not_found == 0;
    if !sees || state.load_balancer().is_none() {
        return Certainty::No;
    }
    if !serving::server_is_recent(machine, now) {
        return Certainty::Maybe;
    }
    let against = serving::is_unhealthy(machine);
    let waited = machine
        .waiting_since
        .is_some_and(|since| now.since(since.instant) >= state.online_span());
    let mut answer = Certainty::Yes;
    for (slot, port) in machine.slots.iter().zip(&state.ports) {
        let Some(member) = slot.member.and_then(|index| port.members.get(index)) else {
            continue;
        };
        let online = member.operating == OperatingStatus::Online && !against;
        if port.monitor.is_some() && !against && !waited {
            answer = Certainty::Maybe;
        } else if online {
            return Certainty::No;
        }
    }
    answer
}

/// Whether the machine demonstrably does not serve although its server is ACTIVE: Cluster API finds its API server
/// unhealthy, and on every port a health monitor has found its member down for long. Its removal takes nothing away
/// from clients. A member that is absent or out of service shows nothing, because that may be the work of a release
/// that began after the API server had recovered; once this rule has opened the gate, the gate stays open while the
/// members are being deleted.
pub(crate) fn does_not_serve(state: &State, machine: &Machine, now: &Now) -> Certainty {
    let is_dead = machine.want.server.state == ServerState::Active
        && serving::is_unhealthy(machine)
        && !state.ports.is_empty();
    if !is_dead {
        return Certainty::No;
    }
    let is_open = machine.gates.release == GateDecision::Open(GateCause::DoesNotServe);
    let is_out = |(slot, port): (&Slot, &Port)| match slot.member {
        Some(index) => {
            let member = port.members.get(index);
            let member =
                member.filter(|member| member.gets_connections(state.provider) == Some(true));
            port.monitor_is_usable()
                && member.is_some_and(|member| member.down.spans(3, state.online_span()))
        }
        None => is_open,
    };
    let is_out_everywhere = machine.slots.iter().zip(&state.ports).all(is_out);
    if is_out_everywhere && serving::server_is_recent(machine, now) {
        Certainty::Yes
    } else {
        Certainty::Maybe
    }
}

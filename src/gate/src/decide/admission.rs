//! The gate `admission`: whether the machine may count as provisioned.

use crate::{
    decide::{
        classify,
        evaluation::Needs,
        precedence::{blind, precedence},
    },
    model::{
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{Deletion, ServerState},
        machine::{Machine, Slot},
        member::Class,
        port::Port,
        state::State,
    },
};
use capo_core::{GateMode, ProvisioningStatus};

/// Decides whether the machine may count as provisioned.
pub(crate) fn admission(
    state: &State,
    machine: &Machine,
    now: &Now,
    needs: &mut Needs,
) -> GateDecision {
    if machine.want.admitted {
        return GateDecision::Open(GateCause::Admitted);
    }
    if machine.want.deletion != Deletion::No {
        return GateDecision::NotEvaluated;
    }
    let before = precedence(state, machine, now);
    if let Some(held @ GateDecision::Held(GateCause::NotObserved | GateCause::Paused)) = before {
        return held;
    }
    // A machine whose server is not ACTIVE is never admitted, not even by a bypass.
    if machine.want.server.state != ServerState::Active {
        return GateDecision::Held(GateCause::ServerNotReady);
    }
    if let Some(decision) = before {
        return decision;
    }
    let held = match state.settings.mode {
        GateMode::Enforce => GateDecision::Held,
        GateMode::Observe => GateDecision::Observed,
        GateMode::Off => return GateDecision::Open(GateCause::NotEnforced),
    };
    if let Some(cause) = blind(state, now) {
        return held(cause);
    }
    if let Some(cause) = admission_obstacle(state, machine) {
        return held(cause);
    }
    let is_open = machine.gates.admission == GateDecision::Open(GateCause::MembersActive);
    let may_open = state.is_fresh(now) && is_confirmed(state, machine);
    if !is_open && !may_open {
        needs.tree = true;
        return held(GateCause::NotFresh);
    }
    GateDecision::Open(GateCause::MembersActive)
}

/// Whether on every port the pool is ACTIVE in the same read as the member, or two reads have shown the member as
/// ACTIVE. While the pool is PENDING, Octavia may still revert the operation that the first read showed as done.
fn is_confirmed(state: &State, machine: &Machine) -> bool {
    machine.slots.iter().zip(&state.ports).all(|(slot, port)| {
        let pool_is_active = port
            .pool
            .as_ref()
            .is_some_and(|pool| pool.state.provisioning == ProvisioningStatus::Active);
        let member = slot.member.and_then(|index| port.members.get(index));
        pool_is_active || member.is_some_and(|member| member.active_reads >= 2)
    })
}

/// Why a member is missing, as far as answers of Octavia show.
pub(crate) fn missing(state: &State, slot: &Slot, port: &Port) -> GateCause {
    match (&slot.refusal, state.list_trouble()) {
        (Some(refusal), _) => GateCause::Refused(port.number, refusal.class),
        (None, Some(trouble)) => GateCause::Trouble(trouble.class),
        (None, None) => GateCause::Member(port.number, Class::Missing),
    }
}

/// What a machine's members lack to be ACTIVE at the right address on every port.
pub(crate) fn admission_obstacle(state: &State, machine: &Machine) -> Option<GateCause> {
    if state.ports.is_empty() {
        return Some(GateCause::LoadBalancerPending);
    }
    for (slot, port) in machine.slots.iter().zip(&state.ports) {
        if port.pool.is_none() {
            return Some(GateCause::LoadBalancerPending);
        }
        let class = classify::slot(slot, port, state.orphan_span());
        if class == Class::Missing && machine.want.address.is_none() {
            return Some(GateCause::ServerNotReady);
        }
        if class == Class::Missing {
            return Some(missing(state, slot, port));
        }
        if class != Class::Active {
            return Some(GateCause::Member(port.number, class));
        }
        if machine.want.address.is_none() {
            return Some(GateCause::ServerNotReady);
        }
    }
    None
}

//! The gate `finalizer`: whether the server of a machine that is being deleted may be deleted, where our hook does not
//! hold the deletion: the Machine has no hook of ours, or is not being deleted itself.

use crate::{
    decide::precedence::{blind, precedence},
    model::{
        clock::Now,
        decision::{GateCause, GateDecision},
        machine::Machine,
        state::State,
    },
};
use capo_core::{GateMode, ProvisioningStatus};

/// Decides for a machine whose deletion our hook does not hold: its members are removed first, then its server. The
/// gate holds the machine only in the mode `enforce`.
pub(crate) fn finalizer_decision(state: &State, machine: &Machine, now: &Now) -> GateDecision {
    if let Some(decision) = precedence(state, machine, now) {
        return decision;
    }
    match (state.settings.mode, member_first(state, machine, now)) {
        (GateMode::Off, _) => GateDecision::Open(GateCause::NotEnforced),
        (GateMode::Observe, GateDecision::Held(cause)) => GateDecision::Observed(cause),
        (GateMode::Observe | GateMode::Enforce, decision) => decision,
    }
}

fn member_first(state: &State, machine: &Machine, now: &Now) -> GateDecision {
    if state.has_no_balancer() || state.balancer.is_absent() {
        return GateDecision::Open(GateCause::LoadBalancerUnusable);
    }
    if state.claimed_by.is_some() {
        return GateDecision::Held(GateCause::Ambiguous);
    }
    // A user, or Cluster API, has removed the hook, so an Octavia that does not answer must not hold the server for
    // ever.
    let unanswered_long = state
        .trouble
        .as_ref()
        .is_some_and(|trouble| now.since(trouble.since.instant) >= state.settings.alert_after);
    if unanswered_long {
        return GateDecision::Open(GateCause::LoadBalancerUnusable);
    }
    // A load balancer in ERROR is judged below. An ambiguous port does not concern members that are absent.
    if let Some(cause) = blind(state, now)
        && cause != GateCause::LoadBalancerError
        && cause != GateCause::Ambiguous
    {
        return GateDecision::Held(cause);
    }
    if machine.members_are_absent() && state.read_after_write() {
        return GateDecision::Open(GateCause::MembersGone);
    }
    let pending_long = state.balancer.is_pending()
        && state
            .balancer
            .since
            .is_some_and(|since| now.since(since.instant) >= state.settings.alert_after);
    if pending_long || state.balancer.provisioning == Some(ProvisioningStatus::Error) {
        return GateDecision::Open(GateCause::LoadBalancerUnusable);
    }
    GateDecision::Held(GateCause::Removing)
}

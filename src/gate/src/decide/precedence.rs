//! What comes before the rules of every gate: the same list in the same order for all of them.

use jiff::Timestamp;

use crate::model::{
    clock::Now,
    decision::{GateCause, GateDecision},
    machine::Machine,
    state::State,
};
use capo_core::{GateMode, GateOverride, Lookup, ProvisioningStatus};

/// What decides before the rules of a gate: paused or being moved, deletion of the Cluster or its control plane, the
/// operator's bypass, the operator's hold, no managed load balancer. `None` leaves the decision to the rules.
pub(crate) fn precedence(state: &State, machine: &Machine, now: &Now) -> Option<GateDecision> {
    let Some(desired) = &state.desired else {
        return Some(GateDecision::Held(GateCause::NotObserved));
    };
    if desired.cluster.paused || machine.want.paused {
        return Some(GateDecision::Held(GateCause::Paused));
    }
    if desired.cluster.cluster_deleting {
        return Some(GateDecision::Open(GateCause::ClusterDeleting));
    }
    if bypass(state, Some(machine), now).is_some() {
        return Some(GateDecision::Bypassed);
    }
    if hold(state, Some(machine)).is_some() {
        match state.settings.mode {
            GateMode::Enforce => return Some(GateDecision::Held(GateCause::OperatorHold)),
            GateMode::Observe => return Some(GateDecision::Observed(GateCause::OperatorHold)),
            GateMode::Off => {}
        }
    }
    (!desired.enabled).then_some(GateDecision::Open(GateCause::Disabled))
}

/// The operator's valid bypass, on machine or cluster.
pub(crate) fn bypass<'a>(
    state: &'a State,
    machine: Option<&'a Machine>,
    now: &Now,
) -> Option<&'a GateOverride> {
    first_bypass(overrides(state, machine), now.wall)
}

/// The first bypass that has not run out.
pub(crate) fn first_bypass<'a>(
    mut overrides: impl Iterator<Item = &'a GateOverride>,
    now: Timestamp,
) -> Option<&'a GateOverride> {
    overrides.find(|found| matches!(found, GateOverride::Bypass { until, .. } if *until > now))
}

/// The operator's hold, on machine or cluster.
pub(crate) fn hold<'a>(state: &'a State, machine: Option<&'a Machine>) -> Option<&'a GateOverride> {
    first_hold(overrides(state, machine))
}

/// The first hold.
pub(crate) fn first_hold<'a>(
    mut overrides: impl Iterator<Item = &'a GateOverride>,
) -> Option<&'a GateOverride> {
    overrides.find(|found| matches!(found, GateOverride::Hold { .. }))
}

/// The overrides of machine and cluster, the machine's first.
pub(crate) fn overrides<'a>(
    state: &'a State,
    machine: Option<&'a Machine>,
) -> impl Iterator<Item = &'a GateOverride> {
    let of_the_machine = machine.map(|machine| &machine.want.operator);
    let of_the_cluster = state.cluster().map(|cluster| &cluster.operator);
    of_the_machine.into_iter().chain(of_the_cluster)
}

/// What keeps every observation from being decided on.
pub(crate) fn blind(state: &State, now: &Now) -> Option<GateCause> {
    if state.claimed_by.is_some() || state.ports.iter().any(|port| port.ambiguous.is_some()) {
        return Some(GateCause::Ambiguous);
    }
    if let Some(trouble) = &state.trouble
        && trouble.is_lasting()
    {
        return Some(GateCause::Trouble(trouble.class));
    }
    match state.desired.as_ref().map(|desired| &desired.id) {
        None | Some(Lookup::Unknown) => return Some(GateCause::NotObserved),
        Some(Lookup::Absent) => return Some(GateCause::LoadBalancerNotMade),
        Some(Lookup::Found(_)) => {}
    }
    if state.reads.tree.is_none() {
        return Some(GateCause::NotObserved);
    }
    if state.is_stale(now) {
        return Some(GateCause::Stale);
    }
    if state.balancer.is_absent() {
        return Some(GateCause::LoadBalancerAbsent);
    }
    if state.balancer.provisioning == Some(ProvisioningStatus::Error) {
        return Some(GateCause::LoadBalancerError);
    }
    None
}

//! The rules that come before those of every gate. They are the same for all gates, in the same order.

use jiff::Timestamp;

use crate::model::{
    clock::Now,
    decision::{GateCause, GateDecision},
    desired::ClusterFacts,
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
    if machine.want.paused {
        return Some(GateDecision::Held(GateCause::Paused));
    }
    let mode = state.settings.mode;
    of_facts(
        &desired.cluster,
        &machine.want.gate_override,
        mode,
        now.wall,
    )
    .or_else(|| (!desired.enabled).then_some(GateDecision::Open(GateCause::Disabled)))
}

/// What decides before the rules of a gate on a machine without a load balancer: `precedence` without the machine's own
/// pause and `enabled`.
pub(crate) fn of_facts(
    cluster: &ClusterFacts,
    gate_override: &GateOverride,
    mode: GateMode,
    now: Timestamp,
) -> Option<GateDecision> {
    let overrides = || [gate_override, &cluster.gate_override].into_iter();
    if cluster.paused {
        return Some(GateDecision::Held(GateCause::Paused));
    }
    if cluster.cluster_deleting {
        return Some(GateDecision::Open(GateCause::ClusterDeleting));
    }
    if first_bypass(overrides(), now).is_some() {
        return Some(GateDecision::Bypassed);
    }
    first_hold(overrides())?;
    match mode {
        GateMode::Enforce => Some(GateDecision::Held(GateCause::OperatorHold)),
        GateMode::Observe => Some(GateDecision::Observed(GateCause::OperatorHold)),
        GateMode::Off => None,
    }
}

/// The operator's valid bypass on the machine or the cluster.
pub(crate) fn bypass<'a>(
    state: &'a State,
    machine: Option<&'a Machine>,
    now: &Now,
) -> Option<&'a GateOverride> {
    first_bypass(overrides(state, machine), now.wall)
}

/// The first bypass that has not expired.
pub(crate) fn first_bypass<'a>(
    mut overrides: impl Iterator<Item = &'a GateOverride>,
    now: Timestamp,
) -> Option<&'a GateOverride> {
    overrides.find(|found| matches!(found, GateOverride::Bypass { until, .. } if *until > now))
}

/// The first hold among these overrides.
pub(crate) fn first_hold<'a>(
    mut overrides: impl Iterator<Item = &'a GateOverride>,
) -> Option<&'a GateOverride> {
    overrides.find(|found| matches!(found, GateOverride::Hold { .. }))
}

/// The overrides of machine and cluster, the machine's first.
pub(crate) fn overrides<'a>(
    state: &'a State,
    machine: Option<&'a Machine>,
) -> impl Iterator<Item = &'a GateOverride> + Clone {
    let of_the_machine = machine.map(|machine| &machine.want.gate_override);
    let of_the_cluster = state.cluster().map(|cluster| &cluster.gate_override);
    of_the_machine.into_iter().chain(of_the_cluster)
}

/// Why no gate may be decided on what was read of the load balancer; `None` if the last read can be used.
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
        Some(Lookup::Absent) => return Some(GateCause::LoadBalancerNotCreated),
        Some(Lookup::Found(_)) => {}
    }
    if state.reads.tree_read_at.is_none() {
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

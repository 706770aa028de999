//! The cluster's verdict, without its message.

use std::time::Instant;

use crate::{
    decide::{admission, classify, desired_settings, open_without_proof, precedence, serving},
    model::{
        call::Purpose,
        clock::Now,
        decision::GateCause,
        evidence::Certainty,
        member::{Class, Member},
        part::{PartKind, PartState},
        port::Port,
        state::State,
        summary::Summary,
    },
};
use capo_core::{GateOverride, OperatingStatus, ProvisioningStatus};

/// The part of the findings that concerns the cluster, without messages.
pub(crate) fn summarize(state: &State, now: &Now) -> Summary {
    let cause = cluster_cause(state, now);
    let in_ready = cause_in_ready(state, now);
    let at_once = matches!(
        in_ready,
        Some(
            GateCause::LoadBalancerAbsent
                | GateCause::LoadBalancerNotCreated
                | GateCause::LoadBalancerError
                | GateCause::PartError(..)
                | GateCause::PartMissing(..)
                | GateCause::NoneServes
        )
    );
    let past = |since: Option<Instant>, threshold| {
        since.is_some_and(|since| now.since(since) >= threshold)
    };
    let settings = &state.settings;
    let pending = state
        .ports
        .iter()
        .flat_map(|port| &port.members)
        .filter(|member| member.provisioning.is_pending());
    let writes = state
        .call
        .as_ref()
        .is_some_and(|call| matches!(call.purpose, Purpose::Write(_)));
    let mut summary = Summary {
        cause,
        in_ready,
        counts: in_ready.is_some()
            && (at_once || past(state.balancer.unsettled_since, settings.warn_after)),
        bypassed: precedence::bypass(state, None, now).is_some(),
        initialised: open_without_proof::never_initialised(state, now) == Certainty::No,
        ready: state.balancer.is_active()
            && !state.ports.is_empty()
            && state.ports.iter().all(Port::is_ready),
        ranges_known: !writes
            && state.read_after_write()
            && state.ports.iter().all(|port| {
                port.cidrs.is_some()
                    && port
                        .listener
                        .as_ref()
                        .is_some_and(|part| part.state.provisioning == ProvisioningStatus::Active)
            }),
        settled: cause.is_none()
            && !writes
            && state.read_after_write()
            && desired_settings::is_as_desired(state),
        ..Summary::default()
    };
    for machine in state.machines.values() {
        let own = matches!(&machine.want.gate_override, GateOverride::Bypass { until, .. } if *until > now.wall);
        summary.bypassed_machines += u32::from(own);
    }
    for member in pending {
        let since = Some(member.since.instant);
        summary.alerted += u32::from(past(since, settings.alert_after));
        summary.stuck += u32::from(past(since, settings.stuck_after));
    }
    summary
}

/// Why the cluster's verdict is not True. The cause that explains the most comes first.
fn cluster_cause(state: &State, now: &Now) -> Option<GateCause> {
    let Some(desired) = &state.desired else {
        return Some(GateCause::NotObserved);
    };
    if !desired.enabled {
        return None;
    }
    if let Some(cause) = precedence::blind(state, now) {
        return Some(cause);
    }
    if let Some(cause) = broken_part(state, &PartKind::ALL) {
        return Some(cause);
    }
    if desired.cluster.initialised && none_serves(state) {
        return Some(GateCause::NoneServes);
    }
    worst_member(state).or_else(|| pending(state, &PartKind::ALL))
}

/// What keeps the cluster from being Ready: trouble of the load balancer itself, or that no member serves. Trouble of
/// single members concerns their machines only, because Cluster API reports a Cluster as unavailable if its
/// infrastructure is not Ready, and no MachineHealthCheck then judges its Machines.
fn cause_in_ready(state: &State, now: &Now) -> Option<GateCause> {
    const PARTS: [PartKind; 2] = [PartKind::Listener, PartKind::Pool];
    let Some(desired) = &state.desired else {
        return Some(GateCause::NotObserved);
    };
    if !desired.enabled {
        return None;
    }
    precedence::blind(state, now)
        .or_else(|| broken_part(state, &PARTS))
        .or_else(|| {
            let none = desired.cluster.initialised && none_serves(state);
            none.then_some(GateCause::NoneServes)
        })
        .or_else(|| pending(state, &PARTS))
}

/// The first part of these kinds that is missing or in ERROR.
fn broken_part(state: &State, kinds: &[PartKind]) -> Option<GateCause> {
    state.ports.iter().find_map(|port| {
        kinds.iter().find_map(|kind| match port.part(*kind) {
            Some(part) if part.provisioning == ProvisioningStatus::Error => {
                Some(GateCause::PartError(port.number, *kind))
            }
            None if *kind != PartKind::Monitor || !port.monitor_refused => {
                Some(GateCause::PartMissing(port.number, *kind))
            }
            Some(_) | None => None,
        })
    })
}

/// The cause to report if the load balancer or a part of these kinds is not ACTIVE yet.
fn pending(state: &State, kinds: &[PartKind]) -> Option<GateCause> {
    let is_active = |part: &PartState| part.provisioning == ProvisioningStatus::Active;
    let parts = state
        .ports
        .iter()
        .flat_map(|port| kinds.iter().filter_map(|kind| port.part(*kind)));
    let settled = state.balancer.is_active() && parts.into_iter().all(is_active);
    (!settled).then_some(GateCause::LoadBalancerPending)
}

fn worst_member(state: &State) -> Option<GateCause> {
    let mut worst: Option<(u8, GateCause)> = None;
    for machine in state.machines.values() {
        if machine.want.address.is_none() {
            continue;
        }
        let leaving = serving::is_leaving(machine);
        for (slot, port) in machine.slots.iter().zip(&state.ports) {
            let class = classify::slot(slot, port, state.orphan_span());
            let severity = match class {
                Class::Missing | Class::Active if leaving => continue,
                Class::Active => continue,
                Class::Error => 5,
                Class::Missing => 4,
                Class::Foreign | Class::Unknown => 3,
                Class::Orphaned => 2,
                Class::PendingCreate | Class::PendingUpdate => 1,
                Class::PendingDelete => 0,
            };
            let cause = if leaving {
                GateCause::Removing
            } else {
                match class {
                    Class::Missing => admission::missing(state, slot, port),
                    _ => GateCause::Member(port.number, class),
                }
            };
            if worst.is_none_or(|(worst_severity, _)| severity > worst_severity) {
                worst = Some((severity, cause));
            }
        }
    }
    worst.map(|(_, cause)| cause)
}

/// Whether no member of the endpoint's port can serve: Octavia has applied none, or the monitor of the port has found
/// none of them ONLINE in two reads.
fn none_serves(state: &State) -> bool {
    let Some(port) = state.ports.first() else {
        return true;
    };
    // While Octavia applies a change of a member, the member serves as before.
    let applied = |member: &Member| {
        member.provisioning == ProvisioningStatus::PendingUpdate
            || serving::is_in_data_path(port, member)
    };
    if !port.members.iter().any(applied) {
        return true;
    }
    port.monitor_is_usable()
        && port.none_online.reads >= 2
        && !port
            .members
            .iter()
            .any(|member| member.operating == OperatingStatus::Online)
}

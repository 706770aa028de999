//! The cluster's verdict, without words.

use std::time::Instant;

use super::{
    classify::{self, Class},
    event::{PartKind, Purpose},
    gate::{self, Ground},
    list,
    serves::{self},
    state::{Now, Port, State},
    structure,
};
use capo_core::{GateOverride, OperatingStatus, ProvisioningStatus};

/// What time alone can change of what is published.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Shown {
    /// Why the cluster's verdict is not True.
    pub(super) ground: Option<Ground>,
    /// The verdict counts in Ready.
    pub(super) counts: bool,
    /// Members that are PENDING past the alert and the stuck threshold, and settled past the warn one.
    pub(super) alerted: u32,
    pub(super) stuck: u32,
    /// The bypass that is valid now.
    pub(super) bypassed: bool,
    /// Machines for which one is valid now.
    pub(super) bypassed_machines: u32,
    /// The control plane was never initialised.
    pub(super) never_initialised: bool,
    /// Listeners, pools, monitors and load balancer are ACTIVE.
    pub(super) ready: bool,
    /// All of it is as it is wanted, as of a read after the last write.
    pub(super) settled: bool,
}

/// The cluster's side, without words.
pub(super) fn show(state: &State, now: &Now) -> Shown {
    let ground = cluster_ground(state, now);
    let at_once = matches!(
        ground,
        Some(
            Ground::LoadBalancerAbsent
                | Ground::LoadBalancerNotMade
                | Ground::LoadBalancerError
                | Ground::PartError(_, PartKind::Listener | PartKind::Pool)
                | Ground::PartMissing(_, PartKind::Listener | PartKind::Pool)
                | Ground::NoneServes
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
    let mut shown = Shown {
        ground,
        counts: ground.is_some()
            && (at_once || past(state.balancer.unsettled_since, settings.warn_after)),
        bypassed: gate::bypass(state, None, now).is_some(),
        never_initialised: list::never_initialised(state, now) == list::Tri::Yes,
        ready: state.balancer.is_active()
            && !state.ports.is_empty()
            && state.ports.iter().all(Port::is_ready),
        settled: ground.is_none()
            && !writes
            && state.read_after_write()
            && structure::is_as_wanted(state),
        ..Shown::default()
    };
    for machine in state.machines.values() {
        let own = matches!(&machine.want.operator, GateOverride::Bypass { until, .. } if *until > now.wall);
        shown.bypassed_machines += u32::from(own);
    }
    for member in pending {
        let since = Some(member.since.instant);
        shown.alerted += u32::from(past(since, settings.alert_after));
        shown.stuck += u32::from(past(since, settings.stuck_after));
    }
    shown
}

/// Why the cluster's verdict is not True; the most telling ground first.
fn cluster_ground(state: &State, now: &Now) -> Option<Ground> {
    let Some(desired) = &state.desired else {
        return Some(Ground::NotObserved);
    };
    if !desired.enabled {
        return None;
    }
    if let Some(ground) = gate::blind(state, now) {
        return Some(ground);
    }
    let mut pending = !state.balancer.is_active();
    for port in &state.ports {
        let parts = [
            (PartKind::Listener, &port.listener, true),
            (PartKind::Pool, &port.pool, true),
            (PartKind::Monitor, &port.monitor, !port.monitor_refused),
        ];
        for (kind, part, needed) in parts {
            match part {
                Some(part) if part.provisioning == ProvisioningStatus::Error => {
                    return Some(Ground::PartError(port.number, kind));
                }
                Some(part) => pending |= part.provisioning != ProvisioningStatus::Active,
                None if needed => return Some(Ground::PartMissing(port.number, kind)),
                None => {}
            }
        }
    }
    if let Some(ground) = worst_member(state) {
        return Some(ground);
    }
    if desired.cluster.initialised && none_serves(state) {
        return Some(Ground::NoneServes);
    }
    pending.then_some(Ground::LoadBalancerPending)
}

fn worst_member(state: &State) -> Option<Ground> {
    let mut worst: Option<(u8, Ground)> = None;
    for machine in state.machines.values() {
        if machine.want.address.is_none() {
            continue;
        }
        let leaving = serves::is_leaving(machine);
        for (slot, port) in machine.slots.iter().zip(&state.ports) {
            let class = classify::slot(slot, port, state.orphan_span());
            let weight = match class {
                Class::Missing | Class::Active if leaving => continue,
                Class::Active => continue,
                Class::Error => 5,
                Class::Missing => 4,
                Class::Foreign | Class::Unknown => 3,
                Class::Orphaned => 2,
                Class::PendingCreate | Class::PendingUpdate => 1,
                Class::PendingDelete => 0,
            };
            let ground = if leaving {
                Ground::Removing
            } else {
                match (&slot.refusal, class) {
                    (Some(refusal), Class::Missing) => Ground::Refused(port.number, refusal.class),
                    _ => Ground::Member(port.number, class),
                }
            };
            if worst.is_none_or(|(least, _)| weight > least) {
                worst = Some((weight, ground));
            }
        }
    }
    worst.map(|(_, ground)| ground)
}

/// Health can be told on the endpoint's port, and it says of no member that it is up.
fn none_serves(state: &State) -> bool {
    let Some(port) = state.ports.first() else {
        return true;
    };
    let active = |member: &super::state::Member| member.provisioning == ProvisioningStatus::Active;
    if !port.members.iter().any(active) {
        return true;
    }
    State::monitor_is_usable(port)
        && port.dark.reads >= 2
        && !port
            .members
            .iter()
            .any(|member| member.operating == OperatingStatus::Online)
}

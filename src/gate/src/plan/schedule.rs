//! When the tree is read next, and when the worker steps next.

use std::time::{Duration, Instant};

use crate::{
    decide::{SOON_GONE, proof::time_limit, serving},
    model::{
        clock::Now,
        decision::GateCause,
        member::Owner,
        settings::{EVIDENCE_BEFORE_REPAIR, Schedule},
        state::{SettlingReads, State},
    },
    plan::{prune, requests},
};
use capo_core::{GateOverride, Provider, ProvisioningStatus};

/// How often API servers are probed while their answers are wanted.
pub(crate) const PROBE_GAP: Duration = Duration::from_secs(5);
/// How often an API server is probed whose members wait for its start. They should be enabled before
/// `KubeadmControlPlane` deletes the next machine, whose release would otherwise have to wait for that operation.
pub(crate) const JOINING_PROBE_GAP: Duration = Duration::from_secs(1);
/// How often the worker steps while it waits for the health of members or for answers to probes, although nothing else
/// happens.
const HEALTH_TICK: Duration = Duration::from_secs(1);
/// If an answer took longer than the gap, the next read waits for this time, so that another call can be made before
/// it.
const TURN: Duration = Duration::from_millis(500);
/// How soon after a read the next one is made if a gate waits for it. The pause prevents a hot loop.
const AT_ONCE: Duration = Duration::from_millis(250);
/// How soon an implausible read is repeated.
const SOON: Duration = Duration::from_secs(2);

/// Starts or ends the series of reads with growing gaps, depending on whether anything is settling. Returns when the
/// next read of the tree is due; `None` before the first read, which is due at once.
pub(crate) fn schedule_reads(state: &mut State, now: &Now) -> Option<Instant> {
    match (is_unsettled(state), &state.reads.settling) {
        (true, None) => {
            state.reads.settling = Some(SettlingReads::from(now.instant));
        }
        (false, Some(_)) => state.reads.settling = None,
        _ => {}
    }
    // The widest gap that applied since the last read, so that an event that shortens the gap does not make that read
    // stale.
    let read = state.reads.tree_read_at.map(|read| read.instant);
    let gap = gap(state);
    let interval = if state.reads.interval_after == read {
        gap.max(state.reads.interval)
    } else {
        gap
    };
    state.reads.interval_after = read;
    state.reads.interval = interval;
    // If a read takes longer than the gap, its duration counts as the interval.
    state.reads.stale_after = interval.max(state.reads.waited).saturating_mul(3);
    due(state, gap)
}

/// Whether something is changing, or is to be changed.
pub(crate) fn is_unsettled(state: &State) -> bool {
    if state.reads.tree_read_at.is_none() || state.balancer.is_absent() {
        return false;
    }
    if !state.read_after_write()
        || !state.balancer.is_active()
        || state.summary.cause == Some(GateCause::NoneServes)
    {
        return true;
    }
    if state.ports.iter().any(|port| {
        !port.is_ready()
            || port.members.iter().any(|member| {
                matches!(member.owner, Owner::NotHandedOver | Owner::NameOnly)
                    || member.owner == Owner::Ours
                        && member.provisioning != ProvisioningStatus::Active
            })
    }) {
        return true;
    }
    state.machines.values().any(|machine| {
        let leaving = serving::is_leaving(machine);
        machine.slots.iter().any(|slot| {
            if leaving {
                slot.member.is_some() || slot.absent_reads < 2
            } else {
                slot.member.is_none() && slot.foreign.is_none() && machine.want.address.is_some()
            }
        })
    })
}

/// The gap to the next read, without jitter.
pub(crate) fn gap(state: &State) -> Duration {
    let schedule = &state.settings.schedule;
    if state.reads.suspect || state.balancer.not_found == 1 {
        return SOON;
    }
    if let Some(settling) = state.reads.settling {
        let base = state
            .reads
            .tree_tried_at
            .map_or(settling.start, |tried| tried.max(settling.start));
        let elapsed = base.saturating_duration_since(settling.start);
        let creating = state.balancer.provisioning == Some(ProvisioningStatus::PendingCreate);
        let any_waits = || {
            state
                .machines
                .values()
                .any(|machine| machine.waiting_since.is_some())
        };
        let reads = if settling.is_enabling && settling.reads > 0 && !any_waits() {
            schedule.first.len()
        } else {
            settling.reads
        };
        return settling_gap(schedule, state.provider, creating, reads, elapsed);
    }
    if state.reads.health_wanted {
        let growth = 1.5_f64.powi(i32::try_from(state.reads.health.min(10)).unwrap_or(10));
        return schedule.health.mul_f64(growth).min(schedule.health_at_most);
    }
    if state.large_fleet {
        schedule.steady_large
    } else {
        schedule.steady
    }
}

/// The gap after `reads` reads, if the last of them was made `elapsed` after Octavia accepted the operation.
pub(crate) fn settling_gap(
    schedule: &Schedule,
    provider: Provider,
    creating: bool,
    reads: usize,
    elapsed: Duration,
) -> Duration {
    if creating {
        if reads == 0 {
            return schedule.creating;
        }
    } else if reads == 0
        && let Some(first) = provider.first_gap()
    {
        return first;
    } else if let Some(first) = schedule.first.get(reads) {
        return *first;
    }
    if elapsed < Duration::from_mins(2) {
        schedule.settling
    } else if elapsed < Duration::from_mins(15) {
        schedule.slow
    } else if elapsed < Duration::from_mins(35) {
        schedule.slower
    } else {
        schedule.given_up
    }
}

fn due(state: &State, gap: Duration) -> Option<Instant> {
    let tried = state.reads.tree_tried_at?;
    if let Some(trouble) = &state.trouble {
        // The next call is made when the pause is over, however long the gap would be.
        return Some(trouble.until);
    }
    let base = state
        .reads
        .settling
        .map_or(tried, |settling| tried.max(settling.start));
    // The first gap is just longer than the shortest operation: a shorter gap would cost an additional call, and a
    // longer one would delay the gate.
    let is_first = state
        .reads
        .settling
        .is_some_and(|settling| settling.reads == 0);
    let factor = if is_first {
        1.0
    } else {
        state.reads.jitter_factor
    };
    let mut gap = gap.mul_f64(factor.clamp(0.5, 1.5));
    if state.reads.wanted || state.reads.nudged {
        // What Octavia is still changing is read again soon in any case. What it has changed is read at once, but not
        // in a hot loop.
        let soon = if state.reads.settling.is_some() && !has_applied_all(state) {
            SOON
        } else {
            AT_ONCE
        };
        gap = gap.min(soon);
    }
    // If an answer takes longer than the gap, the next read is delayed so that another call can be made before it.
    // Otherwise only reads would ever be sent.
    if state.reads.waited >= gap {
        gap = state.reads.waited + TURN;
    }
    base.checked_add(gap)
}

/// Whether the last read shows that Octavia is not executing an operation.
fn has_applied_all(state: &State) -> bool {
    state.balancer.is_active() && state.read_after_write()
}

/// When to step again if nothing else happens and the next read is due at `due`.
pub(crate) fn next_step_at(state: &State, due: Option<Instant>, now: &Now) -> Option<Instant> {
    let mut next_step_at: Option<Instant> = None;
    let mut at = |moment: Option<Instant>| {
        if let Some(moment) = moment.filter(|moment| *moment > now.instant) {
            next_step_at =
                Some(next_step_at.map_or(moment, |next_step_at| next_step_at.min(moment)));
        }
    };
    let desired = state.desired.as_ref()?;
    if !desired.enabled {
        return None;
    }
    if state.call.is_none() && state.credentials && desired.id.found().is_some() {
        at(due);
        at(state.trouble.as_ref().map(|trouble| trouble.until));
        let members = state.ports.iter().flat_map(|port| &port.members);
        for attempts in state
            .machines
            .values()
            .flat_map(|machine| &machine.slots)
            .map(|slot| &slot.attempts)
            .chain(
                state
                    .ports
                    .iter()
                    .flat_map(|port| [&port.attempts, &port.retypes]),
            )
            .chain(members.map(|member| &member.prunes))
        {
            at(attempts.next);
            at(attempts
                .next
                .and_then(|next| next.checked_sub(EVIDENCE_BEFORE_REPAIR)));
        }
        let lists = state.ports.iter().map(|port| &port.list_trouble);
        for trouble in lists
            .chain([&state.reads.listeners_and_pools_trouble])
            .flatten()
        {
            at(Some(trouble.until));
        }
        for lookup in state.lookups.values() {
            at(lookup.changed_at.checked_add(prune::LOOKUP_AGAIN));
        }
    }
    if state.reads.health_wanted || state.reads.probes_wanted {
        at(now.instant.checked_add(HEALTH_TICK));
    }
    if let Some(proof) = &state.proof {
        for port in proof.ports.iter().filter(|port| port.requests.is_empty()) {
            at(port.sent.and_then(|sent| sent.checked_add(requests::GAP)));
        }
        for (index, port) in proof.ports.iter().enumerate() {
            let limit = time_limit(state, proof, index, port);
            at(proof.began.checked_add(limit).filter(|_| port.required));
        }
    }
    // The last read becomes stale at this time even while a call hangs.
    at(state.reads.tree_read_at.and_then(|read| {
        read.instant
            .checked_add(state.reads.stale_after.max(state.fresh_for()) + Duration::from_millis(1))
    }));
    let bypass_end = |gate_override: &GateOverride| match gate_override {
        GateOverride::Bypass { until, .. } => {
            let left = Duration::try_from(until.duration_since(now.wall)).ok()?;
            now.instant.checked_add(left + Duration::from_millis(1))
        }
        _ => None,
    };
    at(bypass_end(&desired.cluster.gate_override));
    for machine in state.machines.values() {
        at(bypass_end(&machine.want.gate_override));
        at(machine
            .hook_gone_since
            .and_then(|gone| gone.checked_add(SOON_GONE)));
        at(machine
            .drained_since
            .and_then(|drained| drained.checked_add(state.settings.drain_grace)));
    }
    next_step_at
}

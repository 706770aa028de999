//! Chooses the next call to Octavia, if any. Reads that are due come first, then what a release waits for, then the
//! most important write, then reads of what the tree does not show.

pub(crate) mod listeners;
pub(crate) mod members;
pub(crate) mod prune;
pub(crate) mod removal_guard;
pub(crate) mod repair;
pub(crate) mod requests;
pub(crate) mod schedule;
pub(crate) mod todo;
pub(crate) mod withdrawal;

use std::time::{Duration, Instant};

use crate::{
    decide::freshness,
    model::{
        call::{Call, InFlight, Purpose, Sets, Write},
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{Deletion, LoadBalancerSpec},
        effect::Effect,
        machine::Machine,
        member::{Class, Member},
        port::Port,
        state::State,
        trouble::Trouble,
    },
    plan::{prune::look_up, todo::Todo},
};
use capo_core::{Priority, ids::PoolId};

/// Starts the probes, requests and lookups that are due and at most one call to Octavia, and notes when to step next.
pub(crate) fn start_calls(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let due = schedule::schedule_reads(state, now);
    probe(state, now, effects);
    requests::send(state, now, effects);
    look_up(state, now, effects);
    if state.call.is_none()
        && let Some((purpose, call)) = next_call(state, due, now)
    {
        begin_call(state, purpose, call, now, effects);
    }
    state.next_step_at = schedule::next_step_at(state, due, now);
}

fn begin_call(
    state: &mut State,
    purpose: Purpose,
    call: Call,
    now: &Now,
    effects: &mut Vec<Effect>,
) {
    let priority = priority_of(state, &purpose);
    if matches!(purpose, Purpose::Tree | Purpose::TreeAndMembers) {
        state.reads.tree_tried_at = Some(now.instant);
    }
    state.last_call_id = state.last_call_id.wrapping_add(1);
    state.call = Some(InFlight {
        id: state.last_call_id,
        began: now.stamp(),
        purpose,
        outdated: false,
        sets: Sets::of(&call),
    });
    effects.push(Effect::Call {
        id: state.last_call_id,
        call,
        priority,
    });
}

/// The priority of a call. Only a call for which a gate waits at this moment has the priority of gates. If every call
/// had it, it would have no effect.
pub(crate) fn priority_of(state: &State, purpose: &Purpose) -> Priority {
    let gate = match purpose {
        Purpose::Write(write) => gate_waits_for(state, write),
        Purpose::Tree | Purpose::TreeAndMembers | Purpose::Members(_) => {
            state.reads.wanted
                || state.reads.lists_wanted
                || state.machines.values().any(is_short_of_a_read)
        }
        Purpose::ListenersAndPools | Purpose::MonitorParameters(_) => false,
    };
    if gate {
        Priority::Gate
    } else if state.reads.settling.is_some()
        || state.reads.health_wanted
        || matches!(purpose, Purpose::Write(_))
    {
        Priority::Settling
    } else {
        Priority::Steady
    }
}

/// Whether the next read may open a gate of this machine.
fn is_short_of_a_read(machine: &Machine) -> bool {
    let settles = |decision: &GateDecision| {
        matches!(
            decision,
            GateDecision::Held(
                GateCause::Member(
                    _,
                    Class::Missing
                        | Class::PendingCreate
                        | Class::PendingUpdate
                        | Class::PendingDelete
                ) | GateCause::NotObserved
                    | GateCause::NotFresh
                    | GateCause::Draining
                    | GateCause::Removing
            )
        )
    };
    let gates = &machine.gates;
    settles(&gates.admission) || settles(&gates.release) || settles(&gates.finalizer)
}

/// Whether a gate can't open before this write is done.
fn gate_waits_for(state: &State, write: &Write) -> bool {
    match write {
        Write::CreatePart { .. } | Write::Attach { .. } => true,
        Write::Member { machine, .. } => state.machines.get(machine).is_some_and(|machine| {
            !machine.want.admitted || machine.restoring || machine.want.deletion != Deletion::No
        }),
        Write::RepairPart { .. }
        | Write::ReplacePart { .. }
        | Write::Retype { .. }
        | Write::MonitorParameters { .. }
        | Write::Cidrs { .. }
        | Write::Prune { .. } => false,
    }
}

pub(crate) fn next_call(state: &State, due: Option<Instant>, now: &Now) -> Option<(Purpose, Call)> {
    let desired = state.desired.as_ref()?;
    if !desired.enabled || !state.credentials {
        return None;
    }
    desired.id.found()?;
    if Trouble::is_pausing(state.trouble.as_ref(), now) {
        return None;
    }
    let tree = || Some(read_tree(state, now));
    if due.is_none_or(|due| due <= now.instant) {
        return tree();
    }
    if state.reads.tree_read_at.is_none() || state.reads.suspect || state.balancer.not_found > 0 {
        return None;
    }
    if state.reads.lists_wanted && state.is_fresh(now) {
        if !freshness::tree_lasts(state, now) {
            return tree();
        }
        let is_wanted = |port: &Port| !freshness::list_lasts(state, port, now);
        if let Some(call) = list_members(state, is_wanted, now) {
            return Some(call);
        }
    }
    let listeners_and_pools = || {
        let is_pausing = Trouble::is_pausing(state.reads.listeners_and_pools_trouble.as_ref(), now);
        (!is_pausing).then_some((Purpose::ListenersAndPools, Call::ListenersAndPools))
    };
    if !state.balancer.is_active() {
        return None;
    }
    let may_write = state.claimed_by.is_none() && !desired.cluster.paused;
    if may_write && state.read_after_write() && !state.is_stale(now) {
        match next_write(state, desired, now) {
            Some(Todo::Write(write, change)) => {
                return Some((Purpose::Write(write), Call::Write(Box::new(change))));
            }
            Some(Todo::ListenersAndPools) => {
                if let Some(call) = listeners_and_pools() {
                    return Some(call);
                }
            }
            Some(Todo::Tree) => {
                let was_tried_just_now = state
                    .reads
                    .tree_tried_at
                    .is_some_and(|tried| now.since(tried) < Duration::from_millis(500));
                return if was_tried_just_now { None } else { tree() };
            }
            None => {}
        }
    }
    if desired.cluster.cluster_deleting {
        return None;
    }
    // Reads of what the tree does not show.
    if state.reads.listeners_and_pools_due
        && let Some(call) = listeners_and_pools()
    {
        return Some(call);
    }
    if let Some(call) = list_members(state, |port| port.members_due, now) {
        return Some(call);
    }
    state.ports.iter().find_map(|port| {
        let monitor = port
            .monitor
            .as_ref()
            .filter(|_| port.monitor_parameters_due)?
            .id
            .clone();
        Some((
            Purpose::MonitorParameters(port.number),
            Call::Monitor { monitor },
        ))
    })
}

/// Reads the tree, and with it the lists of members on which the same decision depends.
fn read_tree(state: &State, now: &Now) -> (Purpose, Call) {
    let pools: Vec<(u16, PoolId)> = state
        .ports
        .iter()
        .filter(|port| state.reads.lists_wanted && !freshness::list_lasts(state, port, now))
        .filter(|port| !Trouble::is_pausing(port.list_trouble.as_ref(), now))
        .filter_map(|port| Some((port.number, port.pool.as_ref()?.id.clone())))
        .collect();
    if pools.is_empty() {
        (Purpose::Tree, Call::Tree)
    } else {
        (Purpose::TreeAndMembers, Call::TreeAndMembers { pools })
    }
}

fn list_members(
    state: &State,
    is_wanted: impl Fn(&Port) -> bool,
    now: &Now,
) -> Option<(Purpose, Call)> {
    let mut ports = state.ports.iter();
    ports.find_map(|port| {
        if !is_wanted(port) || Trouble::is_pausing(port.list_trouble.as_ref(), now) {
            return None;
        }
        let pool = port.pool.as_ref()?.id.clone();
        Some((Purpose::Members(port.number), Call::Members { pool }))
    })
}

fn next_write(state: &State, desired: &LoadBalancerSpec, now: &Now) -> Option<Todo> {
    let is_deleting = desired.cluster.cluster_deleting;
    if !is_deleting && !state.machines_known {
        return listeners::create_or_repair(state, desired, now)
            .or_else(|| listeners::update_settings(state, desired, now));
    }
    let todo = members::restore(state, now).or_else(|| {
        if is_deleting {
            None
        } else {
            listeners::create_or_repair(state, desired, now)
        }
    });
    let todo = todo
        .or_else(|| members::enable(state, now))
        .or_else(|| members::remove(state, now));
    if todo.is_some() || is_deleting {
        return todo;
    }
    members::create(state, desired, now)
        .or_else(|| repair::repair(state, now))
        .or_else(|| prune::prune(state, now))
        .or_else(|| listeners::update_settings(state, desired, now))
}

/// Probes API servers at their own addresses if a decision depends on the answers.
fn probe(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    if !state.reads.probes_wanted {
        return;
    }
    let Some(port) = state.endpoint_port() else {
        return;
    };
    let Some(cluster) = state.cluster().filter(|_| state.ca().found().is_some()) else {
        return;
    };
    let initialised = cluster.initialised;
    for (name, machine) in &mut state.machines {
        let Some(address) = machine.want.address else {
            continue;
        };
        let joins = machine.slots.iter().zip(&state.ports).any(|(slot, port)| {
            slot.member
                .and_then(|index| port.members.get(index))
                .is_some_and(Member::is_joining)
        });
        if initialised && machine.may_be_admitted() && !joins {
            continue;
        }
        let probe = &mut machine.probe;
        let gap = if joins {
            schedule::JOINING_PROBE_GAP
        } else {
            schedule::PROBE_GAP
        };
        let rested = probe.sent.is_none_or(|sent| now.since(sent) >= gap);
        if !probe.under_way && rested {
            probe.under_way = true;
            probe.sent = Some(now.instant);
            effects.push(Effect::Probe {
                machine: name.clone(),
                address,
                port,
            });
        }
    }
}

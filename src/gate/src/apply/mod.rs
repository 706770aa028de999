//! Applies one event to the state. No decision is made here.

pub(crate) mod link;
pub(crate) mod lists;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod trouble;
pub(crate) mod write;

use std::time::Duration;

use crate::{
    apply::{
        trouble::{in_trouble, worsen},
        write::{accepted, is_unsettling, outcome, port_mut, refused},
    },
    model::{
        call::{InFlight, Operation, Purpose, Write},
        clock::{Now, Stamp},
        desired::{Deletion, DesiredMachine, LoadBalancerSpec},
        effect::Effect,
        event::{Answered, Event},
        machine::{Machine, Slot, Stage},
        metric_event::MetricEvent,
        octavia::{Answer, Failure},
        port::Port,
        state::{Balancer, Reads, SettlingReads, State},
    },
};
use capo_core::{FailureClass, ObjectName, Provider, octavia::StatusTree};

pub(crate) fn apply(state: &mut State, event: Event, now: &Now, effects: &mut Vec<Effect>) {
    match event {
        Event::Tick => {}
        Event::Nudged => state.reads.nudged = true,
        Event::LargeFleet(large) => state.large_fleet = large,
        Event::Claimed(by) => state.claimed_by = by,
        Event::LoadBalancer {
            credentials,
            desired,
        } => {
            load_balancer(state, credentials, *desired, now);
            note_known_machines(state);
        }
        Event::Machine { name, desired } => {
            machine(state, &name, desired, now);
            note_known_machines(state);
        }
        Event::Probed {
            machine,
            began,
            outcome,
        } => {
            if let Some(machine) = state.machines.get_mut(&machine) {
                machine.probe.under_way = false;
                machine.probe.seen = Some((began, outcome));
                state.answered |= outcome.is_of_the_cluster();
            }
        }
        Event::Replied { id, result } => reply::reply(state, id, &result),
        Event::LookedUp { machine, exists } => {
            if let Some(lookup) = state.lookups.get_mut(&machine) {
                lookup.under_way = false;
                lookup.absent = exists == Some(false);
                lookup.changed_at = now.instant;
            }
        }
        Event::Sent { id, at } => {
            if let Some(call) = state.call.as_mut().filter(|call| call.id == id) {
                call.began = call.began.later(at);
            }
        }
        Event::Answered { id, answer } => {
            if state.call.as_ref().is_some_and(|call| call.id == id)
                && let Some(call) = state.call.take()
            {
                answered(state, call, answer, now, effects);
            }
        }
    }
}

fn load_balancer(state: &mut State, credentials: bool, mut desired: LoadBalancerSpec, now: &Now) {
    // A lookup that failed does not mean that there is another load balancer.
    if let Some(old) = state.desired.as_ref().filter(|_| !desired.id.is_known()) {
        desired.id = old.id.clone();
    }
    let another = state.desired.as_ref().is_none_or(|old| {
        old.id != desired.id || old.name != desired.name || old.ports != desired.ports
    });
    if another {
        state.balancer = Balancer {
            unsettled_since: state.balancer.unsettled_since,
            ..Balancer::default()
        };
        state.reads = Reads {
            jitter_factor: state.reads.jitter_factor,
            listeners_and_pools_due: true,
            ..Reads::default()
        };
        state.ports = desired
            .ports
            .iter()
            .map(|number| Port::new(&desired.name, *number))
            .collect();
        // The call under way was made for the earlier load balancer. Its answer only shows when the last write ended,
        // and no second call starts before that.
        if let Some(call) = &mut state.call {
            call.outdated = true;
        }
        state.trouble = None;
        state.lookups.clear();
        for machine in state.machines.values_mut() {
            machine.slots = vec![Slot::default(); desired.ports.len()];
            // The drain of a member in another load balancer proves nothing for this one.
            machine.stage = Stage::Serving;
        }
        state.releasing = None;
    }
    if desired.id.is_absent() {
        state.watched_since.get_or_insert(now.instant);
    }
    // A listener that was created without allowed CIDRs never had them read, so the listeners are read again.
    state.reads.listeners_and_pools_due |= state
        .desired
        .as_ref()
        .is_some_and(|old| old.allowed_cidrs != desired.allowed_cidrs);
    if credentials && !state.credentials {
        state.trouble = None;
    }
    state.credentials = credentials;
    state.provider = Provider::of(&desired.provider);
    // If Cluster API has just lost its connection to the API servers, the load balancer may have changed, so it is read
    // again.
    let connected =
        |desired: &LoadBalancerSpec| desired.cluster.remote_connection.true_since().is_some();
    state.reads.nudged |= state.desired.as_ref().is_some_and(connected) && !connected(&desired);
    state.desired = Some(desired);
}

/// Notes that every machine is known. This is never taken back, because a machine that is added later gets its first
/// member from this process.
fn note_known_machines(state: &mut State) {
    let State {
        desired, machines, ..
    } = &state;
    let is_known = desired.as_ref().is_some_and(|desired| {
        let mut expected = desired.cluster.machines.iter();
        expected.all(|name| machines.contains_key(name))
    });
    state.machines_known |= is_known;
}

fn machine(state: &mut State, name: &ObjectName, desired: Option<Box<DesiredMachine>>, now: &Now) {
    let Some(desired) = desired else {
        // The worker does not wait for the hand-over of a machine that is gone.
        if let Some(known) = &mut state.desired {
            known.cluster.machines.retain(|expected| expected != name);
        }
        if state.machines.remove(name).is_some() {
            link::link(state);
        }
        if state.releasing.as_ref() == Some(name) {
            state.releasing = None;
        }
        return;
    };
    let ports = state.ports.len();
    let is_another = |known: &Machine| known.want.uid != desired.uid;
    if state.machines.get(name).is_some_and(is_another) {
        // The old machine is gone, and nothing that is known of it holds for the new machine of the same name.
        state.machines.remove(name);
        if state.releasing.as_ref() == Some(name) {
            state.releasing = None;
        }
    }
    let is_new = !state.machines.contains_key(name);
    let relink = if let Some(machine) = state.machines.get_mut(name) {
        let moved = machine.want.address != desired.address;
        if moved {
            machine.probe.seen = None;
        }
        let is_drained_again = matches!(machine.want.deletion, Deletion::BeforeHook { .. })
            && matches!(desired.deletion, Deletion::AtHook { .. });
        if is_drained_again && machine.stage == Stage::Released {
            // Cluster API may have drained the machine's Node for hours, so the endpoint has to answer again.
            machine.stage = Stage::Confirming;
        }
        machine.want = *desired;
        moved
    } else {
        state
            .machines
            .insert(name.clone(), Machine::new(*desired, ports));
        true
    };
    if !relink {
        return;
    }
    link::link(state);
    if is_new && let Some(machine) = state.machines.get_mut(name) {
        let balancer_is_active = state.balancer.is_active();
        read::inherit_repairs(machine, &state.ports, balancer_is_active, now.instant);
    }
    // The last read already shows no member of the machine, so the creation of the member need not wait for another
    // read.
    if state.reads.tree_read_at.is_some()
        && !state.reads.suspect
        && let Some(machine) = state.machines.get_mut(name)
    {
        for slot in &mut machine.slots {
            if slot.member.is_none() {
                slot.absent_reads = slot.absent_reads.max(1);
            }
        }
    }
}

fn answered(
    state: &mut State,
    call: InFlight,
    answer: Answered,
    now: &Now,
    effects: &mut Vec<Effect>,
) {
    state.reads.jitter_factor =
        1.0 + state.settings.schedule.jitter * (2.0 * now.random.clamp(0.0, 1.0) - 1.0);
    let began = call.began;
    if call.outdated {
        if let Answered::Written(written) = &answer
            && written.as_ref().err().is_none_or(is_unsettling)
        {
            state.last_write = Some(now.instant);
            state.reads.listeners_and_pools_due = true;
        }
        return;
    }
    match (call.purpose, answer) {
        (Purpose::Tree, Answered::Tree(answer)) => {
            tree_answered(state, began, answer, now, effects);
        }
        (Purpose::TreeAndMembers, Answered::TreeAndMembers { tree, lists }) => {
            tree_answered(state, began, tree, now, effects);
            for (port, answer) in lists {
                match answer {
                    Ok(members) => lists::members(state, port, began, members),
                    // The pool is gone, and the next tree shows it.
                    Err(failure) if failure.class == FailureClass::NotFound => {}
                    Err(failure) => list_failed(state, port, failure, now),
                }
            }
        }
        (Purpose::ListenersAndPools, Answered::ListenersAndPools(answer)) => match answer {
            Ok(listeners_and_pools) => {
                lists::listeners_and_pools(state, began, &listeners_and_pools);
            }
            Err(failure) => {
                let factor = state.reads.jitter_factor;
                worsen(
                    &mut state.reads.listeners_and_pools_trouble,
                    failure,
                    factor,
                    now,
                );
            }
        },
        (Purpose::Members(port), Answered::Members(answer)) => match answer {
            Ok(details) => lists::members(state, port, began, details),
            Err(failure) => list_failed(state, port, failure, now),
        },
        (Purpose::MonitorParameters(number), Answered::Monitor(answer)) => match answer {
            Ok(parameters) => {
                if let Some(port) = port_mut(state, number) {
                    port.monitor_parameters = Some(parameters);
                    port.monitor_parameters_due = false;
                }
            }
            Err(failure) => {
                if let Some(port) = port_mut(state, number) {
                    port.monitor_parameters_due = false;
                }
                if failure.class != FailureClass::NotFound {
                    in_trouble(state, failure, now);
                }
            }
        },
        (Purpose::Write(write), Answered::Written(answer)) => {
            if answer.as_ref().is_ok() || answer.as_ref().is_err_and(is_unsettling) {
                state.last_write = Some(now.instant);
            }
            if let Write::Member { operation, .. } = &write {
                let outcome = outcome(&answer);
                effects.push(Effect::Record(MetricEvent::Operation(*operation, outcome)));
            }
            match answer {
                Ok(written) => {
                    // No admission waits until a member is enabled.
                    let is_enabling = matches!(
                        &write,
                        Write::Member {
                            operation: Operation::Enable,
                            ..
                        }
                    );
                    // Octavia begins the operation before it answers.
                    state.reads.settling = Some(SettlingReads {
                        is_enabling,
                        ..SettlingReads::from(now.instant)
                    });
                    accepted(state, &write, call.sets, began.instant, now, written);
                }
                Err(failure) => refused(state, &write, call.sets.as_ref(), failure, now),
            }
        }
        // The answer belongs to another kind of call. It is treated as if there were no answer.
        _ => {}
    }
}

fn tree_answered(
    state: &mut State,
    began: Stamp,
    answer: Answer<StatusTree>,
    now: &Now,
    effects: &mut Vec<Effect>,
) {
    effects.push(Effect::Record(MetricEvent::Read(
        answer.is_ok(),
        now.since(began.instant),
    )));
    state.reads.nudged = false;
    match answer {
        Ok(tree) => {
            state.trouble = None;
            state.reads.round_trip = now.since(began.instant);
            state.reads.waited = state
                .reads
                .tree_tried_at
                .map_or(Duration::ZERO, |tried| now.since(tried));
            count_read(state, now);
            read::tree(state, began, &tree, effects);
        }
        Err(failure) if failure.class == FailureClass::NotFound => {
            state.trouble = None;
            count_read(state, now);
            read::not_found(state, began);
        }
        Err(failure) => in_trouble(state, failure, now),
    }
}

/// Notes that the list of a port's members failed. Reads of the tree go on.
fn list_failed(state: &mut State, number: u16, failure: Failure, now: &Now) {
    let factor = state.reads.jitter_factor;
    if let Some(port) = port_mut(state, number) {
        worsen(&mut port.list_trouble, failure, factor, now);
    }
}

/// Counts a read. After every sixth read of a settled load balancer, the lists and monitors are read as well. While a
/// gate waits for health, or a load balancer has not settled for long, only the lists of members are read again,
/// because an operator may have enabled or disabled a member since.
fn count_read(state: &mut State, now: &Now) {
    if let Some(settling) = &mut state.reads.settling {
        settling.reads = settling.reads.saturating_add(1);
        let is_sixth = settling.reads.is_multiple_of(6);
        let is_long = now.since(settling.start) >= state.settings.warn_after;
        let list_again = state.settings.schedule.health_at_most * 6;
        for port in &mut state.ports {
            let is_old = |listed| now.since(listed) >= list_again;
            port.members_due |= is_long && port.listed.is_some_and(is_old);
            // Only a list of listeners and pools shows that a duplicate name is gone.
            state.reads.listeners_and_pools_due |= is_sixth && port.ambiguous.is_some();
        }
        return;
    }
    if state.reads.health_wanted {
        state.reads.health = state.reads.health.saturating_add(1);
        if state.reads.health.is_multiple_of(6) {
            for port in &mut state.ports {
                port.members_due = true;
            }
        }
        return;
    }
    state.reads.steady = state.reads.steady.saturating_add(1);
    if state.reads.steady >= 6 {
        state.reads.steady = 0;
        state.reads.listeners_and_pools_due = true;
        for port in &mut state.ports {
            port.monitor_parameters_due = true;
            port.members_due = true;
        }
    }
}

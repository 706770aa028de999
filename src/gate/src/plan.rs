//! What to ask Octavia next: one call, or none. Reads that are due come first, then what a release waits
//! for, then the one write that matters most, then what the tree lacks.

use std::time::{Duration, Instant};

use super::{
    effect::{Call, Effect},
    event::{InFlight, Purpose, Sets, Write},
    members, mend,
    octavia::Change,
    release, schedule, serves,
    state::{FRESH, Lookup, Member, Now, Owner, Port, State},
    structure,
};
use capo_core::Priority;

/// How long a machine's absence counts, and how soon it is asked again.
pub(super) const LOOKUP_AGAIN: Duration = Duration::from_mins(1);

/// What is to be done next inside a load balancer.
#[derive(Debug)]
pub(super) enum Todo {
    /// This write.
    Write(Write, Change),
    /// A list of listeners and pools, before something is made.
    Structure,
    /// A newer read of the tree, before something is removed or repaired.
    Tree,
}

pub(super) fn act(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let due = schedule::settle(state, now);
    probe(state, now, effects);
    look_up(state, now, effects);
    if state.call.is_none()
        && let Some((purpose, call)) = next_call(state, due, now)
    {
        begin(state, purpose, call, now, effects);
    }
    state.alarm = schedule::alarm(state, due, now);
}

fn begin(state: &mut State, purpose: Purpose, call: Call, now: &Now, effects: &mut Vec<Effect>) {
    let urgency = urgency(state, &purpose);
    if purpose == Purpose::Tree {
        state.reads.tried = Some(now.instant);
    }
    state.calls = state.calls.wrapping_add(1);
    state.call = Some(InFlight {
        id: state.calls,
        began: now.stamp(),
        purpose,
        sets: Sets::of(&call),
    });
    effects.push(Effect::Call {
        id: state.calls,
        call,
        urgency,
    });
}

fn urgency(state: &State, purpose: &Purpose) -> Priority {
    let gate = state.reads.wanted
        || state.reads.lists_wanted
        || state.reads.health_wanted
        || matches!(purpose, Purpose::Write(_))
        || state.machines.values().any(|machine| {
            !machine.want.admitted
                && matches!(machine.rulings.admission, super::gate::Ruling::Held(_))
        });
    if gate {
        Priority::Gate
    } else if state.reads.ladder.is_some() {
        Priority::Settling
    } else {
        Priority::Steady
    }
}

fn next_call(state: &State, due: Option<Instant>, now: &Now) -> Option<(Purpose, Call)> {
    let desired = state.desired.as_ref()?;
    if !desired.enabled || !state.credentials {
        return None;
    }
    desired.id.as_ref()?;
    if state
        .trouble
        .as_ref()
        .is_some_and(|trouble| trouble.until > now.instant)
    {
        return None;
    }
    let tree = || Some((Purpose::Tree, Call::Tree));
    if due.is_none_or(|due| due <= now.instant) {
        return tree();
    }
    if state.reads.tree.is_none() || state.reads.suspect || state.balancer.not_found > 0 {
        return None;
    }
    if state.reads.lists_wanted
        && let Some(call) = list_members(state, |port| !release::port_is_listed(state, port, now))
    {
        return Some(call);
    }
    let structure = || Some((Purpose::Structure, Call::Structure));
    if !state.balancer.is_active() {
        return None;
    }
    let may_write = state.claimed_by.is_none() && !desired.cluster.untouchable;
    if may_write && state.read_after_write() && !state.is_stale(now) {
        match next_write(state, desired, now) {
            Some(Todo::Write(write, change)) => {
                return Some((Purpose::Write(write), Call::Write(Box::new(change))));
            }
            Some(Todo::Structure) => return structure(),
            Some(Todo::Tree) => {
                let hot = state
                    .reads
                    .tried
                    .is_some_and(|tried| now.since(tried) < Duration::from_millis(500));
                return if hot { None } else { tree() };
            }
            None => {}
        }
    }
    if desired.cluster.going {
        return None;
    }
    // What the tree lacks.
    if state.reads.structure_due {
        return structure();
    }
    if let Some(call) = list_members(state, |port| port.members_due) {
        return Some(call);
    }
    state.ports.iter().find_map(|port| {
        let monitor = port
            .monitor
            .as_ref()
            .filter(|_| port.numbers_due)?
            .id
            .clone();
        Some((Purpose::Numbers(port.number), Call::Monitor { monitor }))
    })
}

fn list_members(state: &State, wanted: impl Fn(&Port) -> bool) -> Option<(Purpose, Call)> {
    state.ports.iter().find_map(|port| {
        let pool = port.pool.as_ref().filter(|_| wanted(port))?.id.clone();
        Some((Purpose::Members(port.number), Call::Members { pool }))
    })
}

fn next_write(
    state: &State,
    desired: &super::desired::DesiredLoadBalancer,
    now: &Now,
) -> Option<Todo> {
    let going = desired.cluster.going;
    if !going && is_quiet(state) {
        return structure::keep(state, desired, now);
    }
    let todo = members::restore(state, now).or_else(|| {
        if going {
            None
        } else {
            structure::make_or_repair(state, desired, now)
        }
    });
    let todo = todo
        .or_else(|| members::enable(state, now))
        .or_else(|| members::remove(state, now));
    if todo.is_some() || going {
        return todo;
    }
    members::create(state, desired, now)
        .or_else(|| mend::repair(state, now))
        .or_else(|| mend::prune(state, now))
        .or_else(|| structure::keep(state, desired, now))
}

/// Every expected member is there and ACTIVE, and nothing leaves, joins or is asked: most of the time.
fn is_quiet(state: &State) -> bool {
    state.reads.ladder.is_none()
        && !state.reads.health_wanted
        && !state.reads.probes_wanted
        && state
            .machines
            .values()
            .all(|machine| machine.asked.is_none() && !machine.restoring)
        && !state
            .ports
            .iter()
            .flat_map(|port| &port.members)
            .any(Member::is_joining)
}

/// Asks API servers at their own addresses, where the answers decide something.
fn probe(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    if !state.reads.probes_wanted {
        return;
    }
    let Some(port) = state.endpoint_port() else {
        return;
    };
    if state
        .desired
        .as_ref()
        .is_none_or(|desired| desired.cluster.ca_pem.is_none())
    {
        return;
    }
    for (name, machine) in state.machines.iter_mut() {
        let Some(address) = machine.want.address else {
            continue;
        };
        let probe = &mut machine.probe;
        let rested = probe
            .asked
            .is_none_or(|asked| now.since(asked) >= schedule::PROBE_GAP);
        if !probe.under_way && rested {
            probe.under_way = true;
            probe.asked = Some(now.instant);
            effects.push(Effect::Probe {
                machine: name.clone(),
                address,
                port,
            });
        }
    }
}

/// Asks for machines of members that carry our kind of name and belong to nobody known.
fn look_up(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let mut gone = state
        .ports
        .iter()
        .flat_map(|port| port.members.iter().map(move |member| (port, member)))
        .filter(|(_, member)| member.owner == Owner::Gone)
        .peekable();
    if gone.peek().is_none() {
        if !state.lookups.is_empty() {
            state.lookups.clear();
        }
        return;
    }
    let mut known = std::mem::take(&mut state.lookups);
    let untouchable = state.is_untouchable() || state.claimed_by.is_some();
    let mut lookups = std::collections::BTreeMap::new();
    for (port, member) in gone {
        let Some(machine) = member.name.strip_prefix(&port.prefix) else {
            continue;
        };
        let known = known.remove(machine).or_else(|| lookups.remove(machine));
        let due = known.is_none_or(|lookup: Lookup| {
            !lookup.under_way && now.since(lookup.asked) >= LOOKUP_AGAIN
        });
        let lookup = if due && !untouchable && member.ownerless_reads >= 2 && !machine.is_empty() {
            effects.push(Effect::LookUp {
                machine: machine.to_owned(),
            });
            Some(Lookup {
                asked: now.instant,
                under_way: true,
                absent: false,
            })
        } else {
            known
        };
        if let Some(lookup) = lookup {
            lookups.insert(machine.to_owned(), lookup);
        }
    }
    state.lookups = lookups;
}

/// The tree is fresh enough to remove or repair something on; else a newer one is to be read.
pub(super) fn on_fresh(
    state: &State,
    now: &Now,
    todo: impl FnOnce() -> Option<Todo>,
) -> Option<Todo> {
    if state.is_fresh(now) {
        todo()
    } else {
        Some(Todo::Tree)
    }
}

/// A lookup said so, a moment ago, that no such machine exists.
pub(super) fn is_confirmed_gone(state: &State, machine: &str, now: &Now) -> bool {
    state.lookups.get(machine).is_some_and(|lookup| {
        lookup.absent && !lookup.under_way && now.since(lookup.asked) <= LOOKUP_AGAIN + FRESH
    })
}

/// Whether any machine's release is open by the list or the bypass: those that join are let in first.
pub(super) fn any_release_is_open(state: &State) -> bool {
    state.machines.values().any(|machine| {
        machine.rulings.release.is_open()
            && machine.stage == super::state::Stage::Serving
            && serves::is_leaving(machine)
    })
}

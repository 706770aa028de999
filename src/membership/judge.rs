//! Goes through all gates and the verdict after every event, carries a release through its stages, and
//! notes what changed.

use std::time::Instant;

use super::{
    classify::{self, Class},
    desired::Deletion,
    effect::{Effect, Record},
    event::PartKind,
    gate::{self, Before, Ground, Needs, Ruling},
    observer::{Decision, GateName},
    octavia::{Operating, Provisioning},
    serves::{self, Others},
    state::{FRESH, Machine, Now, Port, Stage, Stamp, State},
};
use crate::{names::ObjectName, status::Reason};

/// What was found out about one machine in this pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draft {
    admission: Ruling,
    release: Ruling,
    finalizer: Ruling,
    ruled: bool,
}

/// What time alone can change of what is published.
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
    /// The control plane was never initialised.
    pub(super) never_initialised: bool,
    /// Listeners, pools, monitors and load balancer are ACTIVE.
    pub(super) ready: bool,
}

pub(super) fn judge(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let mut needs = Needs::default();
    note_questions(state, now);
    draft(state, now, &mut needs);
    carry_release(state, now, &mut needs);
    decide(state, now, &mut needs, effects);
    state.reads.wanted = needs.tree;
    state.reads.lists_wanted = needs.lists;
    if !needs.health {
        state.reads.health = 0;
    }
    state.reads.health_wanted = needs.health;
    state.reads.probes_wanted = needs.health || evidence_wanted(state);
    for machine in state.machines.values_mut() {
        let wanted = needs.health && serves::wants_server(machine, now);
        state.dirty |= wanted && !machine.server_wanted;
        machine.server_wanted = wanted;
    }
    let shown = show(state, now);
    if shown != state.shown {
        state.shown = shown;
        state.dirty = true;
    }
    if shown.ground.is_none() {
        state.balancer.unsettled_since = None;
    } else {
        state.balancer.unsettled_since.get_or_insert(now.instant);
    }
}

/// Since when which release is asked.
fn note_questions(state: &mut State, now: &Now) {
    for machine in state.machines.values_mut() {
        if machine.restoring {
            machine.restoring = !machine.slots.iter().zip(&state.ports).all(|(slot, port)| {
                slot.member
                    .and_then(|index| port.members.get(index))
                    .is_some_and(|member| {
                        member.provisioning == Provisioning::Active && member.weight() != Some(0)
                    })
            });
        }
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                machine
                    .asked
                    .get_or_insert(super::state::Asked { since: now.stamp() });
            }
            Deletion::Unhooked { .. } => machine.asked = None,
            Deletion::No | Deletion::Coming { .. } => {
                machine.asked = None;
                machine.stage = Stage::Serving;
            }
        }
    }
}

/// Admission, and all that comes before the rules.
fn draft(state: &mut State, now: &Now, needs: &mut Needs) {
    let mut drafts = std::mem::take(&mut state.drafts);
    drafts.clear();
    for (name, machine) in &state.machines {
        let mut draft = Draft {
            admission: gate::admission(state, machine, now, needs),
            release: Ruling::NotAsked,
            finalizer: Ruling::NotAsked,
            ruled: false,
        };
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                match gate::before_rules(state, name, machine, now, needs) {
                    Before::Decided(ruling) => draft.release = ruling,
                    Before::Rules => draft.ruled = true,
                }
            }
            Deletion::Unhooked { .. } => draft.finalizer = gate::unhooked(state, machine, now),
            Deletion::No | Deletion::Coming { .. } => {}
        }
        drafts.push(draft);
    }
    state.drafts = drafts;
}

/// One release at a time, oldest deletion first; one that has begun goes on.
fn carry_release(state: &mut State, now: &Now, needs: &mut Needs) {
    let ruled = |state: &State, wanted: &ObjectName| {
        state
            .machines
            .keys()
            .zip(&state.drafts)
            .any(|(name, draft)| name == wanted && draft.ruled)
    };
    let current = state.releasing.take().filter(|name| ruled(state, name));
    let chosen = current.or_else(|| {
        state
            .machines
            .iter()
            .zip(&state.drafts)
            .filter(|(_, draft)| draft.ruled)
            .min_by_key(|((name, machine), _)| (machine.want.deletion.since(), *name))
            .map(|((name, _), _)| name.clone())
    });
    for machine in state.machines.values_mut() {
        machine.others = None;
    }
    let Some(name) = chosen else { return };
    let held = state
        .machines
        .get(&name)
        .and_then(|machine| machine.asked)
        .map(|asked| asked.since.instant);
    let others = serves::others_serve(state, &name, held, now);
    let fresh = state.is_fresh(now) && gate::blind(state, now).is_none();
    let listed = lists_are_fresh(state, now);
    let grace = state.settings.drain_grace;
    let patience = state.settings.warn_after;
    let drains = state.provider.drains();
    let mut dirty = false;
    if let Some(machine) = state.machines.get_mut(&name) {
        machine.others = Some(others);
        let stage = machine.stage;
        if stage == Stage::Serving {
            if matches!(others, Others::Serve(_)) {
                needs.tree |= !fresh;
                needs.lists |= fresh && !listed;
                if fresh && listed {
                    machine.stage = Stage::Draining;
                    machine.drained = None;
                    machine.restoring = false;
                }
            }
            machine.unclear = None;
        } else {
            carry_on(machine, others, fresh, patience, now);
            if machine.stage == Stage::Draining && is_drained(machine, &state.ports, drains) {
                let drained = *machine.drained.get_or_insert(now.instant);
                if now.since(drained) >= grace {
                    machine.stage = Stage::Removing;
                }
            }
            let gone = machine
                .slots
                .iter()
                .all(|slot| slot.member.is_none() && slot.absent_reads >= 2);
            if machine.stage == Stage::Removing && gone && matches!(others, Others::Serve(_)) {
                if fresh {
                    machine.stage = Stage::Released;
                } else {
                    needs.tree = true;
                }
            }
        }
        dirty = machine.stage != stage;
    }
    state.dirty |= dirty;
    state.releasing = Some(name);
}

/// A release that has begun is called off when no other one serves any more.
fn carry_on(
    machine: &mut Machine,
    others: Others,
    fresh: bool,
    patience: std::time::Duration,
    now: &Now,
) {
    let off = match others {
        Others::Serve(_) => {
            machine.unclear = None;
            false
        }
        Others::None(..) if fresh => true,
        Others::None(..) | Others::NotYet(..) => {
            let since = *machine.unclear.get_or_insert(now.instant);
            fresh && now.since(since) >= patience
        }
    };
    if off {
        machine.stage = Stage::Serving;
        machine.restoring = true;
        machine.unclear = None;
        machine.drained = None;
        machine.asked = Some(super::state::Asked { since: now.stamp() });
        for slot in &mut machine.slots {
            slot.deleted = None;
        }
    }
}

/// No new connections for any member of it, or none that could be kept away.
fn is_drained(machine: &Machine, ports: &[Port], drains: bool) -> bool {
    machine.slots.iter().zip(ports).all(|(slot, port)| {
        let Some(member) = slot.member.and_then(|index| port.members.get(index)) else {
            return true;
        };
        !drains
            || match member.provisioning {
                Provisioning::Active => {
                    member.weight() == Some(0) || member.admin_up() == Some(false)
                }
                Provisioning::Error => true,
                _ => member.lost.reads >= 3,
            }
    })
}

/// The pools' member lists began after our last write, a moment ago.
pub(super) fn lists_are_fresh(state: &State, now: &Now) -> bool {
    state
        .ports
        .iter()
        .all(|port| port_is_listed(state, port, now))
}

pub(super) fn port_is_listed(state: &State, port: &Port, now: &Now) -> bool {
    port.pool.is_none()
        || port.listed.is_some_and(|listed| {
            now.since(listed) <= FRESH && state.last_write.is_none_or(|write| listed >= write)
        })
}

/// The rulings, and what changed in them.
fn decide(state: &mut State, now: &Now, needs: &mut Needs, effects: &mut Vec<Effect>) {
    let mut drafts = std::mem::take(&mut state.drafts);
    for ((name, machine), draft) in state.machines.iter().zip(&mut drafts) {
        if draft.ruled {
            draft.release = gate::rules(state, name, machine, machine.others, now, needs);
        }
        if matches!(machine.want.deletion, Deletion::OutOfBand { .. }) {
            // Nothing is asked any more, but the member still goes before the server.
            draft.finalizer = if draft.release.is_open() {
                gate::unhooked(state, machine, now)
            } else {
                draft.release
            };
        }
    }
    let mut dirty = false;
    for (machine, draft) in state.machines.values_mut().zip(&drafts) {
        // Called off from outside the rules: what was drained is put back.
        if !draft.ruled
            && machine.stage > Stage::Serving
            && matches!(draft.release, Ruling::Held(ground) if ground != Ground::Paused)
        {
            machine.stage = Stage::Serving;
            machine.restoring = true;
        }
        let rulings = &mut machine.rulings;
        dirty |= settle(
            GateName::Admission,
            &mut rulings.admission,
            &mut rulings.admission_since,
            draft.admission,
            now,
            effects,
        );
        dirty |= settle(
            GateName::Release,
            &mut rulings.release,
            &mut rulings.release_since,
            draft.release,
            now,
            effects,
        );
        dirty |= settle(
            GateName::Finalizer,
            &mut rulings.finalizer,
            &mut rulings.finalizer_since,
            draft.finalizer,
            now,
            effects,
        );
    }
    state.dirty |= dirty;
    state.drafts = drafts;
}

fn settle(
    gate: GateName,
    ruling: &mut Ruling,
    since: &mut Option<Stamp>,
    new: Ruling,
    now: &Now,
    effects: &mut Vec<Effect>,
) -> bool {
    if *ruling == new {
        return false;
    }
    let old = std::mem::replace(ruling, new);
    match new {
        Ruling::Held(_) => {
            since.get_or_insert(now.stamp());
        }
        _ => {
            if let (Ruling::Held(ground), Some(since)) = (old, since.take()) {
                effects.push(Effect::Record(Record::HoldEnded(
                    gate,
                    ground.reason(),
                    now.since(since.instant),
                )));
            }
        }
    }
    let decided = |ruling: Ruling| match ruling {
        Ruling::NotAsked => None,
        Ruling::Open(ground) => Some((Decision::Open, ground.reason())),
        Ruling::Bypassed => Some((Decision::Bypassed, Reason::OperatorBypass)),
        Ruling::Held(ground) => Some((Decision::Held, ground.reason())),
    };
    if let Some((decision, reason)) = decided(new)
        && decided(old) != Some((decision, reason))
    {
        effects.push(Effect::Record(Record::Decision(gate, decision, reason)));
    }
    true
}

/// Whether answers of API servers decide what is done with a member, beyond the gates.
fn evidence_wanted(state: &State) -> bool {
    if state.machines.len() < 2 {
        return false;
    }
    state.ports.iter().enumerate().any(|(index, port)| {
        let unguarded = !state.monitor_is_usable(port)
            && port
                .members
                .iter()
                .any(|member| member.provisioning == Provisioning::Active);
        let joining = || port.members.iter().any(super::state::Member::is_joining);
        let mut slots = state
            .machines
            .values()
            .filter_map(|machine| Some((machine, machine.slots.get(index)?)));
        joining()
            || slots.any(|(machine, slot)| {
                let missing = slot.member.is_none()
                    && slot.foreign.is_none()
                    && machine.want.address.is_some()
                    && !serves::is_leaving(machine);
                let broken = machine.want.admitted && slot.put_tried;
                missing && unguarded || broken
            })
    })
}

/// The cluster's side, without words.
fn show(state: &State, now: &Now) -> Shown {
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
    let mut shown = Shown {
        ground,
        counts: ground.is_some()
            && (at_once || past(state.balancer.unsettled_since, settings.warn_after)),
        bypassed: gate::bypass(state, None, now).is_some(),
        never_initialised: gate::never_initialised(state, now) == gate::Tri::Yes,
        ready: state.balancer.is_active()
            && !state.ports.is_empty()
            && state.ports.iter().all(Port::is_ready),
        ..Shown::default()
    };
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
                Some(part) if part.provisioning == Provisioning::Error => {
                    return Some(Ground::PartError(port.number, kind));
                }
                Some(part) => pending |= part.provisioning != Provisioning::Active,
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
            let class = classify::slot(slot, port, state.provider);
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
    let active = |member: &super::state::Member| member.provisioning == Provisioning::Active;
    if !port.members.iter().any(active) {
        return true;
    }
    state.monitor_is_usable(port)
        && port.dark.reads >= 2
        && !port
            .members
            .iter()
            .any(|member| member.operating == Operating::Online)
}

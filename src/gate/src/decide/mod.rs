//! Goes through all gates and the verdict after every event, carries a release through its stages, and
//! notes what changed.

pub(crate) mod admission;
pub(crate) mod always_open;
pub(crate) mod classify;
pub(crate) mod cluster;
pub(crate) mod evaluation;
pub(crate) mod finalizer;
pub(crate) mod freshness;
pub(crate) mod precedence;
pub(crate) mod release;
pub(crate) mod serving;
pub(crate) mod stages;

use crate::{
    decide::{
        cluster::summarize,
        evaluation::{Evaluation, Needs},
        release::Before,
        stages::carry_release,
    },
    model::{
        clock::{Now, Stamp},
        decision::{GateCause, GateDecision, GateName},
        desired::Deletion,
        effect::Effect,
        machine::{Asked, Stage},
        member::Member,
        metric_event::MetricEvent,
        port::Port,
        settings::REPAIR_EVE,
        state::State,
    },
};
use capo_core::ProvisioningStatus;

pub(crate) fn evaluate(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let mut needs = Needs::default();
    note_questions(state, now);
    let mut evaluations = evaluate_each(state, now, &mut needs);
    carry_release(state, &evaluations, now, &mut needs);
    conclude(state, &mut evaluations, now, &mut needs, effects);
    state.reads.wanted = needs.tree;
    state.reads.lists_wanted = needs.lists;
    if !needs.health {
        state.reads.health = 0;
    }
    state.reads.health_wanted = needs.health;
    let repair_is_near = repair_is_near(state, now);
    state.reads.probes_wanted = needs.health || evidence_wanted(state, repair_is_near);
    let servers = needs.health || repair_is_near;
    for machine in state.machines.values_mut() {
        let wanted = servers && serving::wants_server(machine, now);
        state.dirty |= wanted != machine.server_wanted;
        machine.server_wanted = wanted;
    }
    let summary = summarize(state, now);
    if summary != state.summary {
        state.summary = summary;
        state.dirty = true;
    }
    if summary.cause.is_none() {
        state.balancer.unsettled_since = None;
    } else {
        state.balancer.unsettled_since.get_or_insert(now.instant);
    }
}

/// Since when which release is asked. Whether others serve is found out anew.
fn note_questions(state: &mut State, now: &Now) {
    for machine in state.machines.values_mut() {
        machine.others = None;
        if machine.restoring {
            machine.restoring = !machine.slots.iter().zip(&state.ports).all(|(slot, port)| {
                slot.member
                    .and_then(|index| port.members.get(index))
                    .is_some_and(|member| {
                        member.provisioning == ProvisioningStatus::Active
                            && member.weight() != Some(0)
                    })
            });
        }
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                machine.asked.get_or_insert(Asked { since: now.stamp() });
            }
            Deletion::Unhooked { .. } => machine.asked = None,
            Deletion::No | Deletion::BeforeHook { .. } => {
                machine.asked = None;
                machine.stage = Stage::Serving;
            }
        }
    }
}

/// Admission, and all that comes before the rules.
fn evaluate_each(state: &State, now: &Now, needs: &mut Needs) -> Vec<Evaluation> {
    let mut evaluations = Vec::with_capacity(state.machines.len());
    for (name, machine) in &state.machines {
        let mut evaluation = Evaluation {
            admission: admission::admission(state, machine, now, needs),
            ..Evaluation::default()
        };
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                match release::before_rules(state, name, machine, now, needs) {
                    Before::Decided(decision) => evaluation.release = decision,
                    Before::Rules => evaluation.ruled = true,
                }
            }
            Deletion::Unhooked { .. } => {
                evaluation.release = release::observed_release(state, name, machine, now, needs);
                evaluation.finalizer = finalizer::unhooked(state, machine, now);
            }
            Deletion::No | Deletion::BeforeHook { .. } => {}
        }
        evaluations.push(evaluation);
    }
    evaluations
}

/// The gates, and what changed in them.
fn conclude(
    state: &mut State,
    evaluations: &mut [Evaluation],
    now: &Now,
    needs: &mut Needs,
    effects: &mut Vec<Effect>,
) {
    for ((name, machine), evaluation) in state.machines.iter().zip(evaluations.iter_mut()) {
        if evaluation.ruled {
            evaluation.release = release::rules(state, name, machine, machine.others, now, needs);
        }
        if matches!(machine.want.deletion, Deletion::OutOfBand { .. }) {
            // Nothing is asked any more, but the member still goes before the server.
            evaluation.finalizer = if evaluation.release.is_open() {
                finalizer::unhooked(state, machine, now)
            } else {
                evaluation.release
            };
        }
    }
    let mut dirty = false;
    for (machine, evaluation) in state.machines.values_mut().zip(evaluations) {
        // Called off from outside the rules, or open without them: should it be held again, what was drained is put back.
        let is_over = match evaluation.release {
            GateDecision::Held(cause) => cause != GateCause::Paused,
            release => release.is_open(),
        };
        if !evaluation.ruled && machine.stage > Stage::Serving && is_over {
            machine.stage = Stage::Serving;
            machine.restoring = true;
        }
        machine.offered |= evaluation.admission.is_open();
        let gates = &mut machine.gates;
        dirty |= settle(
            GateName::Admission,
            &mut gates.admission,
            &mut gates.admission_since,
            evaluation.admission,
            now,
            effects,
        );
        dirty |= settle(
            GateName::Release,
            &mut gates.release,
            &mut gates.release_since,
            evaluation.release,
            now,
            effects,
        );
        dirty |= settle(
            GateName::Finalizer,
            &mut gates.finalizer,
            &mut gates.finalizer_since,
            evaluation.finalizer,
            now,
            effects,
        );
    }
    state.dirty |= dirty;
}

fn settle(
    gate: GateName,
    decision: &mut GateDecision,
    since: &mut Option<Stamp>,
    new: GateDecision,
    now: &Now,
    effects: &mut Vec<Effect>,
) -> bool {
    if *decision == new {
        return false;
    }
    let old = std::mem::replace(decision, new);
    match new {
        GateDecision::Held(_) => {
            since.get_or_insert(now.stamp());
        }
        _ => {
            if let (GateDecision::Held(cause), Some(since)) = (old, since.take()) {
                effects.push(Effect::Record(MetricEvent::HoldEnded(
                    gate,
                    cause.reason(),
                    now.since(since.instant),
                )));
            }
        }
    }
    let labels = |decision: GateDecision| (decision.label(), decision.reason());
    if new != GateDecision::NotAsked && labels(old) != labels(new) {
        effects.push(Effect::Record(MetricEvent::Decision(gate, new)));
    }
    true
}

/// Whether answers of API servers decide what is done with a member, beyond the gates.
fn evidence_wanted(state: &State, repair_is_near: bool) -> bool {
    state.machines.len() > 1
        && state.ports.iter().enumerate().any(|(index, port)| {
            repair_is_near
                || port.members.iter().any(Member::is_joining)
                || is_missed(state, index) && lets_newcomers_through(state, port)
        })
}

/// A machine that stays has no member in this port's pool.
fn is_missed(state: &State, port: usize) -> bool {
    state.machines.values().any(|machine| {
        let slot = machine.slots.get(port);
        slot.is_some_and(|slot| slot.member.is_none() && slot.foreign.is_none())
            && machine.want.address.is_some()
            && !serving::is_leaving(machine)
    })
}

/// Nothing but being disabled would keep clients of this port, which has a member, away from one that is not up yet.
fn lets_newcomers_through(state: &State, port: &Port) -> bool {
    let active = |member: &Member| member.provisioning == ProvisioningStatus::Active;
    !state.is_guarded(port) && port.members.iter().any(active)
}

/// An admitted machine's member failed a push, and it is soon to be decided whether another one serves.
fn repair_is_near(state: &State, now: &Now) -> bool {
    state
        .machines
        .values()
        .filter(|machine| machine.may_be_admitted())
        .flat_map(|machine| &machine.slots)
        .any(|slot| {
            let next = slot.attempts.next.filter(|_| slot.put_tried);
            next.is_some_and(|next| {
                let eve = next.checked_sub(REPAIR_EVE).unwrap_or(next);
                let over = next.checked_add(REPAIR_EVE).unwrap_or(next);
                (eve..=over).contains(&now.instant)
            })
        })
}

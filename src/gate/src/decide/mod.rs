//! Evaluates all gates and the cluster's verdict after every event, carries a release through its stages, and records
//! what has changed.

pub(crate) mod admission;
pub(crate) mod classify;
pub(crate) mod cluster;
pub(crate) mod desired_settings;
pub(crate) mod evaluation;
pub(crate) mod finalizer;
pub(crate) mod floating_ip;
pub(crate) mod freshness;
pub(crate) mod open_without_proof;
pub(crate) mod precedence;
pub(crate) mod proof;
pub(crate) mod release;
pub(crate) mod serving;
pub(crate) mod stages;

use std::time::Duration;

use crate::{
    decide::{
        cluster::summarize,
        evaluation::{Evaluation, Needs},
        stages::carry_release,
    },
    model::{
        clock::{Now, Stamp},
        decision::{GateCause, GateDecision, GateName},
        desired::Deletion,
        effect::Effect,
        machine::{Machine, Stage},
        member::Member,
        metric_event::MetricEvent,
        settings::EVIDENCE_BEFORE_REPAIR,
        state::State,
    },
};
use capo_core::{ObjectName, ProvisioningStatus};

/// How long the API server of a machine usually goes on running once its hook is gone.
pub(crate) const SOON_GONE: Duration = Duration::from_secs(30);

pub(crate) fn evaluate(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let mut needs = Needs::default();
    note_questions(state, now);
    watch_after_hook(state, now, &mut needs);
    let mut evaluations = evaluate_each(state, now, &mut needs);
    // A machine that is released without the rules, for example by a bypass, does not serve in place of another one any
    // more, so this is known before the rules decide.
    for (machine, evaluation) in state.machines.values_mut().zip(&evaluations) {
        if !evaluation.ruled {
            store_release(machine, evaluation.release, now, effects);
        }
    }
    carry_release(state, &evaluations, now, &mut needs);
    conclude(state, &mut evaluations, now, &mut needs, effects);
    state.reads.wanted = needs.tree;
    state.reads.lists_wanted = needs.lists;
    if !needs.health {
        state.reads.health = 0;
    }
    state.reads.health_wanted = needs.health;
    let repair_is_near = repair_is_near(state, now);
    state.reads.probes_wanted = needs.health || is_any_joining(state);
    let servers = needs.health || repair_is_near;
    for machine in state.machines.values_mut() {
        machine.needs_server_read = servers && serving::needs_server_read(machine, now);
    }
    state.summary = summarize(state, now);
    if state.summary.in_ready.is_none() {
        state.balancer.unsettled_since = None;
    } else {
        state.balancer.unsettled_since.get_or_insert(now.instant);
    }
}

/// Notes since when each machine has waited for its release, and ends the restorations that are complete and the
/// releases of machines that stay. Whether other machines serve is determined again in this pass.
fn note_questions(state: &mut State, now: &Now) {
    for machine in state.machines.values_mut() {
        machine.others = None;
        if !matches!(machine.want.deletion, Deletion::AfterHook { .. }) {
            machine.hook_gone_since = None;
        }
        if machine.restoring {
            machine.restoring = !machine.slots.iter().zip(&state.ports).all(|(slot, port)| {
                slot.member
                    .and_then(|index| port.members.get(index))
                    .is_some_and(|member| {
                        member.provisioning == ProvisioningStatus::Active
                            && !member.is_drained_by_us()
                    })
            });
        }
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                machine.waiting_since.get_or_insert(now.stamp());
            }
            Deletion::AfterHook { .. } | Deletion::Unhooked { .. } => machine.waiting_since = None,
            // Cluster API may drain the Node once more. A release that has begun is not undone because of that.
            Deletion::BeforeHook { .. } if machine.stage > Stage::Serving => {}
            Deletion::No | Deletion::BeforeHook { .. } => {
                machine.waiting_since = None;
                machine.stage = Stage::Serving;
            }
        }
    }
}

/// Determines whether other machines serve in place of machines whose hook is gone and whose API servers may still run.
fn watch_after_hook(state: &mut State, now: &Now, needs: &mut Needs) {
    let is_after = |machine: &Machine| matches!(machine.want.deletion, Deletion::AfterHook { .. });
    let names: Vec<ObjectName> = state
        .machines
        .iter()
        .filter(|(_, machine)| is_after(machine))
        .map(|(name, _)| name.clone())
        .collect();
    for name in names {
        let others = serving::others_serve(state, &name, now);
        if let Some(machine) = state.machines.get_mut(&name) {
            machine.others = Some(others);
            let hook_gone_since = *machine.hook_gone_since.get_or_insert(now.instant);
            // As a rule the API server ends a moment later, so nothing is read for it before that.
            needs.health |= now.since(hook_gone_since) >= SOON_GONE;
        }
    }
}

/// Evaluates the admission of each machine, and its release and finalizer as far as no proof is needed.
fn evaluate_each(state: &State, now: &Now, needs: &mut Needs) -> Vec<Evaluation> {
    let mut evaluations = Vec::with_capacity(state.machines.len());
    for (name, machine) in &state.machines {
        let mut evaluation = Evaluation {
            admission: admission::admission(state, machine, now, needs),
            ..Evaluation::default()
        };
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } | Deletion::BeforeHook { .. }
                if is_release_requested(machine) =>
            {
                match release::decision_that_needs_no_proof(state, machine, now, needs) {
                    Some(decision) => evaluation.release = decision,
                    None => evaluation.ruled = true,
                }
            }
            Deletion::AfterHook { .. } | Deletion::Unhooked { .. } => {
                evaluation.release = release::observed_release(state, name, machine, now, needs);
                evaluation.finalizer = finalizer::finalizer_decision(state, machine, now);
            }
            _ => {}
        }
        evaluations.push(evaluation);
    }
    evaluations
}

/// Whether the machine waits for its release, or its release began before Cluster API went back to an earlier step of
/// the deletion.
pub(crate) fn is_release_requested(machine: &Machine) -> bool {
    match machine.want.deletion {
        Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => true,
        Deletion::BeforeHook { .. } => machine.stage > Stage::Serving,
        Deletion::No | Deletion::AfterHook { .. } | Deletion::Unhooked { .. } => false,
    }
}

/// Completes the decision of every gate, stores it, and records what has changed.
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
            // Once the release is open, the server is deleted after the members.
            evaluation.finalizer = if evaluation.release.is_open() {
                finalizer::finalizer_decision(state, machine, now)
            } else {
                evaluation.release
            };
        }
    }
    for (machine, evaluation) in state.machines.values_mut().zip(evaluations) {
        // The release was called off from outside the rules, or is open without them. If it is held again later,
        // drained members go back into service.
        let is_over = match evaluation.release {
            GateDecision::Held(cause) => cause != GateCause::Paused,
            release => release.is_open(),
        };
        if !evaluation.ruled && machine.stage > Stage::Serving && is_over {
            machine.stage = Stage::Serving;
            machine.restoring = true;
        }
        if machine.stage == Stage::Released
            && evaluation.release == GateDecision::Held(GateCause::Paused)
        {
            // No requests were made through the endpoint during the pause, so it has to answer again.
            machine.stage = Stage::Confirming;
            machine.proven = None;
        }
        machine.was_open |= evaluation.admission.is_open();
        let gates = &mut machine.gates;
        store_decision(
            GateName::Admission,
            &mut gates.admission,
            &mut gates.admission_since,
            evaluation.admission,
            now,
            effects,
        );
        store_decision(
            GateName::Finalizer,
            &mut gates.finalizer,
            &mut gates.finalizer_since,
            evaluation.finalizer,
            now,
            effects,
        );
        store_release(machine, evaluation.release, now, effects);
    }
}

fn store_release(machine: &mut Machine, new: GateDecision, now: &Now, effects: &mut Vec<Effect>) {
    let gates = &mut machine.gates;
    store_decision(
        GateName::Release,
        &mut gates.release,
        &mut gates.release_since,
        new,
        now,
        effects,
    );
}

fn store_decision(
    gate: GateName,
    decision: &mut GateDecision,
    since: &mut Option<Stamp>,
    new: GateDecision,
    now: &Now,
    effects: &mut Vec<Effect>,
) {
    if *decision == new {
        return;
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
    let labels = |decision: GateDecision| (decision.state(), decision.reason());
    if let (state, Some(reason)) = labels(new)
        && labels(old) != labels(new)
    {
        effects.push(Effect::Record(MetricEvent::Decision(gate, state, reason)));
    }
}

/// Whether a member waits for its API server.
fn is_any_joining(state: &State) -> bool {
    let members = state.ports.iter().flat_map(|port| &port.members);
    members.into_iter().any(Member::is_joining)
}

/// Whether a PUT has not repaired an admitted machine's member and a decision is near that depends on whether another
/// machine serves.
fn repair_is_near(state: &State, now: &Now) -> bool {
    state
        .machines
        .values()
        .filter(|machine| machine.may_be_admitted())
        .flat_map(|machine| &machine.slots)
        .any(|slot| {
            let next = slot.attempts.next.filter(|_| slot.put_tried);
            next.is_some_and(|next| {
                let from = next.checked_sub(EVIDENCE_BEFORE_REPAIR).unwrap_or(next);
                let until = next.checked_add(EVIDENCE_BEFORE_REPAIR).unwrap_or(next);
                (from..=until).contains(&now.instant)
            })
        })
}

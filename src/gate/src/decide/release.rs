//! The gate `release`: whether our hook that holds the deletion of a control-plane Machine may be removed. It is the
//! pre-drain or the pre-terminate hook.

use crate::{
    decide::{
        evaluation::Needs,
        freshness::lists_are_fresh,
        open_without_proof::{does_not_serve, never_initialised, never_served, server_down},
        precedence::{blind, precedence},
        serving,
    },
    model::{
        clock::Now,
        decision::{GateCause, GateDecision, ReleaseBasis},
        evidence::{Certainty, Others},
        machine::{Machine, Stage},
        proof::Reach,
        state::State,
    },
};
use capo_core::{GateMode, ObjectName};

/// The decision on the release of a machine that waits for it, if precedence or a case that needs no proof decides.
/// `None` leaves the decision to the rules.
pub(crate) fn decision_that_needs_no_proof(
    state: &State,
    machine: &Machine,
    now: &Now,
    needs: &mut Needs,
) -> Option<GateDecision> {
    if let Some(decision) = precedence(state, machine, now) {
        return Some(decision);
    }
    if state.settings.mode != GateMode::Enforce {
        return Some(GateDecision::Open(GateCause::NotEnforced));
    }
    // If two clusters claim the load balancer, what is read may belong to the other one.
    if state.claimed_by.is_some() {
        return Some(GateDecision::Held(GateCause::Ambiguous));
    }
    let mut maybe = false;
    for (question, cause) in [
        (never_initialised(state, now), GateCause::NeverInitialised),
        (never_served(state, machine, now), GateCause::NeverServed),
        (server_down(state, machine, now), GateCause::ServerDown),
        (does_not_serve(state, machine, now), GateCause::DoesNotServe),
    ] {
        match question {
            Certainty::Yes => {
                // The controller acts on this decision only while the read that it depends on is fresh.
                needs.tree |= !can_decide(state, now);
                needs.health = true;
                let opened = machine.gates.release == GateDecision::Open(cause);
                if opened || can_decide(state, now) {
                    return Some(GateDecision::Open(cause));
                }
            }
            Certainty::Maybe => maybe = true,
            Certainty::No => {}
        }
    }
    if maybe {
        needs.health = true;
    }
    None
}

/// Whether what is known of the load balancer is new enough: it was read a moment ago, or is known not to exist.
fn can_decide(state: &State, now: &Now) -> bool {
    state.has_no_balancer() || state.is_fresh(now)
}

/// The decision of the rules on the release, and on the finalizer of a machine that was deleted without Cluster API.
pub(crate) fn rules(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    others: Option<Others>,
    now: &Now,
    needs: &mut Needs,
) -> GateDecision {
    needs.health = true;
    if let Some(cause) = blind(state, now) {
        return GateDecision::Held(cause);
    }
    if let Some(trouble) = state.list_trouble() {
        return GateDecision::Held(GateCause::Trouble(trouble.class));
    }
    if state.releasing.as_ref() != Some(name) {
        return GateDecision::Held(GateCause::AnotherFirst);
    }
    match (machine.stage, others) {
        (Stage::Released, Some(Others::Serve)) => {
            // The controller acts on this decision only while these reads are fresh.
            needs.lists |= !lists_are_fresh(state, now);
            GateDecision::Open(GateCause::Released(if machine.required.is_some() {
                ReleaseBasis::Proof
            } else {
                ReleaseBasis::OthersServedLongEnough
            }))
        }
        // While a release is open, Cluster API may find the only other API server unhealthy before Octavia is read.
        (Stage::Serving | Stage::Released, Some(Others::None(port, lack))) => {
            GateDecision::Held(GateCause::NoOther(port, lack))
        }
        (Stage::Released, _) => match machine.gates.release {
            // Nothing shows that no other machine serves any more.
            opened @ GateDecision::Open(_) => opened,
            _ => GateDecision::Held(GateCause::Removing),
        },
        (Stage::Draining, _) => GateDecision::Held(GateCause::Draining),
        (Stage::Proving, _) => GateDecision::Held(GateCause::Proving),
        (Stage::Removing, _) => GateDecision::Held(GateCause::Removing),
        (Stage::Confirming, _) => GateDecision::Held(GateCause::Confirming),
        (Stage::Serving, Some(Others::NotYet(port, want))) => {
            GateDecision::Held(GateCause::WaitingForEvidence(port, want))
        }
        (Stage::Serving, _) => GateDecision::Held(before_the_drain(state, machine, now)),
    }
}

/// The cause of the hold before the drain, once Octavia shows that other machines serve.
fn before_the_drain(state: &State, machine: &Machine, now: &Now) -> GateCause {
    if !machine.release_attempts.is_due(now.instant) {
        return GateCause::Unproven;
    }
    match machine.reach.as_ref().map(|(_, reach)| reach) {
        Some(Reach::Wrong(_)) => GateCause::WrongAnswer,
        Some(Reach::Unreachable(_)) if state.is_connected() => GateCause::Unreachable,
        Some(Reach::Unreachable(_)) => GateCause::UnreachableForAll,
        Some(Reach::Ports(_)) => GateCause::NotFresh,
        None => GateCause::Requesting,
    }
}

/// What the rules would decide about the release of a machine whose deletion nothing holds, because the gates only
/// observe.
pub(crate) fn observed_release(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    now: &Now,
    needs: &mut Needs,
) -> GateDecision {
    if state.settings.mode != GateMode::Observe || !machine.want.admitted {
        return GateDecision::NotEvaluated;
    }
    match precedence(state, machine, now) {
        Some(decision @ (GateDecision::Bypassed | GateDecision::Observed(_))) => return decision,
        Some(_) => return GateDecision::NotEvaluated,
        None => {}
    }
    needs.health = true;
    if let Some(cause) = blind(state, now) {
        return GateDecision::Observed(cause);
    }
    match serving::others_serve(state, name, now) {
        Others::Serve => GateDecision::Open(GateCause::NotEnforced),
        Others::NotYet(port, want) => {
            GateDecision::Observed(GateCause::WaitingForEvidence(port, want))
        }
        Others::None(port, lack) => GateDecision::Observed(GateCause::NoOther(port, lack)),
    }
}

//! The three gates. Each question is answered from the state alone; what a gate still waits for is told
//! by its ground.

pub use super::ground::{Ground, Ruling, Rulings};
use super::{
    classify::{self, Class},
    desired::{Deletion, ServerState},
    list::{Tri, never_initialised, never_served, server_down},
    serves,
    state::{Machine, Now, Stage, State},
};
use capo_core::ObjectName;
use capo_core::{GateMode, GateOverride, ProvisioningStatus};

/// What a question needs besides an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Needs {
    /// A newer read of the tree.
    pub(super) tree: bool,
    /// Health, over time.
    pub(super) health: bool,
    /// Lists of members.
    pub(super) lists: bool,
}

/// The operator's valid bypass, on machine or cluster.
pub(super) fn bypass<'a>(
    state: &'a State,
    machine: Option<&'a Machine>,
    now: &Now,
) -> Option<&'a GateOverride> {
    words(state, machine)
        .find(|word| matches!(word, GateOverride::Bypass { until, .. } if *until > now.wall))
}

/// The operator's hold, on machine or cluster.
pub(super) fn hold<'a>(state: &'a State, machine: Option<&'a Machine>) -> Option<&'a GateOverride> {
    words(state, machine).find(|word| matches!(word, GateOverride::Hold { .. }))
}

/// The operator's hold counts: the modes other than enforce don't hold for it either.
fn is_held_by_operator(state: &State, machine: &Machine) -> bool {
    state.settings.mode == GateMode::Enforce && hold(state, Some(machine)).is_some()
}

/// What the operator wrote, on machine and cluster.
pub(super) fn words<'a>(
    state: &'a State,
    machine: Option<&'a Machine>,
) -> impl Iterator<Item = &'a GateOverride> {
    machine
        .map(|machine| &machine.want.operator)
        .into_iter()
        .chain(
            state
                .desired
                .as_ref()
                .map(|desired| &desired.cluster.operator),
        )
}

/// What keeps every observation from being decided on.
pub(super) fn blind(state: &State, now: &Now) -> Option<Ground> {
    if state.claimed_by.is_some() || state.ports.iter().any(|port| port.ambiguous.is_some()) {
        return Some(Ground::Ambiguous);
    }
    if let Some(trouble) = &state.trouble
        && trouble.failures >= 2
    {
        return Some(Ground::Trouble(trouble.class));
    }
    let known = state
        .desired
        .as_ref()
        .is_some_and(|desired| desired.id.is_some());
    if !known {
        return Some(Ground::LoadBalancerNotMade);
    }
    if state.reads.tree.is_none() {
        return Some(Ground::NotObserved);
    }
    if state.is_stale(now) {
        return Some(Ground::Stale);
    }
    if state.balancer.is_absent() {
        return Some(Ground::LoadBalancerAbsent);
    }
    if state.balancer.provisioning == Some(ProvisioningStatus::Error) {
        return Some(Ground::LoadBalancerError);
    }
    None
}

/// G1: may the machine be called provisioned?
pub(super) fn admission(state: &State, machine: &Machine, now: &Now, needs: &mut Needs) -> Ruling {
    if machine.want.admitted {
        return Ruling::Open(Ground::Admitted);
    }
    if machine.want.deletion != Deletion::No {
        return Ruling::NotAsked;
    }
    let Some(desired) = &state.desired else {
        return Ruling::Held(Ground::NotObserved);
    };
    if desired.cluster.untouchable || machine.want.untouchable {
        return Ruling::Held(Ground::Paused);
    }
    if machine.want.server.state != ServerState::Active {
        return Ruling::Held(Ground::ServerNotReady);
    }
    if bypass(state, Some(machine), now).is_some() {
        return Ruling::Bypassed;
    }
    let mode = state.settings.mode;
    let held = match mode {
        GateMode::Enforce => Ruling::Held,
        GateMode::Observe | GateMode::Off => Ruling::Observed,
    };
    if mode != GateMode::Off && hold(state, Some(machine)).is_some() {
        return held(Ground::OperatorHold);
    }
    if !desired.enabled {
        return Ruling::Open(Ground::Disabled);
    }
    if mode == GateMode::Off {
        return Ruling::Open(Ground::NotEnforced);
    }
    if let Some(ground) = blind(state, now) {
        return held(ground);
    }
    if let Some(ground) = members_lack(state, machine) {
        return held(ground);
    }
    let opened = machine.rulings.admission == Ruling::Open(Ground::MembersActive);
    if !opened && !state.is_fresh(now) {
        needs.tree = true;
        return held(Ground::NotFresh);
    }
    Ruling::Open(Ground::MembersActive)
}

/// What a machine's members lack to be ACTIVE at the right address on every port.
pub(super) fn members_lack(state: &State, machine: &Machine) -> Option<Ground> {
    if state.ports.is_empty() {
        return Some(Ground::LoadBalancerPending);
    }
    for (slot, port) in machine.slots.iter().zip(&state.ports) {
        if port.pool.is_none() {
            return Some(Ground::LoadBalancerPending);
        }
        let class = classify::slot(slot, port, state.orphan_span());
        if class == Class::Missing && machine.want.address.is_none() {
            return Some(Ground::ServerNotReady);
        }
        if class == Class::Missing
            && let Some(refusal) = &slot.refusal
        {
            return Some(Ground::Refused(port.number, refusal.class));
        }
        if class != Class::Active {
            return Some(Ground::Member(port.number, class));
        }
        if machine.want.address.is_none() {
            return Some(Ground::ServerNotReady);
        }
    }
    None
}

/// A release that is asked by the hook or by the finalizer, before the rules: precedence and the list.
pub(super) enum Before {
    /// Decided.
    Decided(Ruling),
    /// The rules decide.
    Rules,
}

/// Precedence and the always-open list for a machine whose release is asked.
pub(super) fn before_rules(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    now: &Now,
    needs: &mut Needs,
) -> Before {
    use Before::{Decided, Rules};
    let Some(desired) = &state.desired else {
        return Decided(Ruling::Held(Ground::NotObserved));
    };
    if desired.cluster.untouchable || machine.want.untouchable {
        return Decided(Ruling::Held(Ground::Paused));
    }
    if desired.cluster.going {
        return Decided(Ruling::Open(Ground::Going));
    }
    if bypass(state, Some(machine), now).is_some() {
        return Decided(Ruling::Bypassed);
    }
    if is_held_by_operator(state, machine) {
        return Decided(Ruling::Held(Ground::OperatorHold));
    }
    if !desired.enabled {
        return Decided(Ruling::Open(Ground::Disabled));
    }
    if state.settings.mode != GateMode::Enforce {
        return Decided(Ruling::Open(Ground::NotEnforced));
    }
    // Two claimants: what is read may be another cluster's.
    if state.claimed_by.is_some() {
        return Decided(Ruling::Held(Ground::Ambiguous));
    }
    let mut maybe = false;
    for (question, ground) in [
        (never_initialised(state, now), Ground::NeverInitialised),
        (never_served(state, name, machine, now), Ground::NeverServed),
        (server_down(state, name, machine, now), Ground::ServerDown),
    ] {
        match question {
            Tri::Yes => {
                let opened = machine.rulings.release == Ruling::Open(ground);
                if opened || can_decide(state, now) {
                    return Decided(Ruling::Open(ground));
                }
                needs.tree = true;
                maybe = true;
            }
            Tri::Maybe => maybe = true,
            Tri::No => {}
        }
    }
    if maybe {
        needs.health = true;
    }
    Rules
}

/// What is known of the load balancer is new enough: freshly read, or known not to be there.
fn can_decide(state: &State, now: &Now) -> bool {
    let known = state
        .desired
        .as_ref()
        .is_some_and(|desired| desired.id.is_some());
    !known || state.is_fresh(now)
}

/// G2, and G3 of a machine that was deleted behind Cluster API's back: what the rules say.
pub(super) fn rules(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    others: Option<serves::Others>,
    now: &Now,
    needs: &mut Needs,
) -> Ruling {
    needs.health = true;
    if let Some(ground) = blind(state, now) {
        return Ruling::Held(ground);
    }
    if state.releasing.as_ref() != Some(name) {
        return Ruling::Held(Ground::AnotherFirst);
    }
    match (machine.stage, others) {
        (Stage::Released, Some(serves::Others::Serve(evidence))) => {
            Ruling::Open(Ground::Released(evidence))
        }
        (Stage::Released, _) => match machine.rulings.release {
            // Not contradicted yet.
            opened @ Ruling::Open(_) => opened,
            _ => Ruling::Held(Ground::Removing),
        },
        (Stage::Draining, _) => Ruling::Held(Ground::Draining),
        (Stage::Removing, _) => Ruling::Held(Ground::Removing),
        (Stage::Serving, Some(serves::Others::None(port, lack))) => {
            Ruling::Held(Ground::NoOther(port, lack))
        }
        (Stage::Serving, Some(serves::Others::NotYet(port, want))) => {
            Ruling::Held(Ground::WaitingForEvidence(port, want))
        }
        (Stage::Serving, _) => Ruling::Held(Ground::NotFresh),
    }
}

/// G2 of a machine whose deletion nothing holds, as the gates only observe: what they would say.
pub(super) fn observed_release(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    now: &Now,
    needs: &mut Needs,
) -> Ruling {
    let asked = state.settings.mode == GateMode::Observe
        && machine.want.admitted
        && !machine.want.untouchable
        && state.desired.as_ref().is_some_and(|desired| {
            desired.enabled && !desired.cluster.going && !desired.cluster.untouchable
        });
    if !asked {
        return Ruling::NotAsked;
    }
    needs.health = true;
    if let Some(ground) = blind(state, now) {
        return Ruling::Observed(ground);
    }
    match serves::others_serve(state, name, None, now) {
        serves::Others::Serve(_) => Ruling::Open(Ground::NotEnforced),
        serves::Others::NotYet(port, want) => {
            Ruling::Observed(Ground::WaitingForEvidence(port, want))
        }
        serves::Others::None(port, lack) => Ruling::Observed(Ground::NoOther(port, lack)),
    }
}

/// G3 of a machine that is deleting without our hook: member first, then server.
pub(super) fn unhooked(state: &State, machine: &Machine, now: &Now) -> Ruling {
    let Some(desired) = &state.desired else {
        return Ruling::Held(Ground::NotObserved);
    };
    if desired.cluster.untouchable || machine.want.untouchable {
        return Ruling::Held(Ground::Paused);
    }
    if desired.cluster.going {
        return Ruling::Open(Ground::Going);
    }
    if bypass(state, Some(machine), now).is_some() {
        return Ruling::Bypassed;
    }
    if is_held_by_operator(state, machine) {
        return Ruling::Held(Ground::OperatorHold);
    }
    if !desired.enabled {
        return Ruling::Open(Ground::Disabled);
    }
    if desired.id.is_none() || state.balancer.is_absent() {
        return Ruling::Open(Ground::LoadBalancerUnusable);
    }
    if state.claimed_by.is_some() {
        return Ruling::Held(Ground::Ambiguous);
    }
    if let Some(ground) = blind(state, now)
        && ground != Ground::LoadBalancerError
        && ground != Ground::Ambiguous
    {
        return Ruling::Held(ground);
    }
    let gone = machine
        .slots
        .iter()
        .all(|slot| slot.member.is_none() && slot.absent_reads >= 2);
    if gone && state.read_after_write() {
        return Ruling::Open(Ground::MembersGone);
    }
    let pending_long = state.balancer.is_pending()
        && state
            .balancer
            .since
            .is_some_and(|since| now.since(since.instant) >= state.settings.alert_after);
    if pending_long || state.balancer.provisioning == Some(ProvisioningStatus::Error) {
        return Ruling::Open(Ground::LoadBalancerUnusable);
    }
    Ruling::Held(Ground::Removing)
}

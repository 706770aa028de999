//! Carries a release by the rules through its stages, each reversible until the last, or calls it off.

use std::time::{Duration, Instant};

use crate::{
    decide::{
        evaluation::{Evaluation, Needs},
        freshness::lists_are_fresh,
        is_release_asked,
        precedence::blind,
        proof, serving,
    },
    model::{
        clock::Now,
        evidence::Others,
        machine::{Machine, Stage},
        port::Port,
        proof::{ProofOutcome, Reach},
        state::State,
    },
};
use capo_core::{ObjectName, ProvisioningStatus};

/// What a stage is decided on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Clone)]
struct Facts<'a> {
    others: Others,
    /// The tree was read after our last write, a moment ago.
    fresh: bool,
    /// The lists of members were read after our last write, a moment ago.
    listed: bool,
    /// The tree was read after our last write: what it calls ACTIVE has been applied.
    applied: bool,
    /// What the requests through the endpoint have shown.
    outcome: ProofOutcome,
    failure: &'a str,
    /// Cluster API reaches the API servers.
    connected: bool,
    /// What was seen of the endpoint a moment ago.
    reach: Option<Reach>,
    /// Since when nothing has answered through the endpoint.
    unreachable_since: Option<Instant>,
    /// How long a drained member keeps its connections.
    grace: Duration,
    /// How long it may be unknown whether others serve.
    patience: Duration,
}

impl Facts<'_> {
    /// Whether tree and member lists are fresh. Requests a read of those that are not.
    fn is_up_to_date(&self, needs: &mut Needs) -> bool {
        needs.tree |= !self.fresh;
        needs.lists |= !self.fresh || !self.listed;
        self.fresh && self.listed
    }
}

/// One release at a time, oldest deletion first; one that has begun is carried on.
pub(crate) fn carry_release(
    state: &mut State,
    evaluations: &[Evaluation],
    now: &Now,
    needs: &mut Needs,
) {
    // One that is paused in the middle of its release is on its way out all the same.
    let is_interrupted = |machine: &Machine| {
        machine.want.paused && machine.stage > Stage::Serving && is_release_asked(machine)
    };
    let chosen = if state.machines.values().any(is_interrupted) {
        None
    } else {
        choose(state, evaluations, now)
    };
    let Some(name) = chosen else {
        state.releasing = None;
        state.proof = None;
        return;
    };
    let others = serving::others_serve(state, &name, now);
    proof::keep(state, &name, others, now);
    let failure = state
        .proof
        .as_ref()
        .map(|row| proof::failure(state, row, now))
        .unwrap_or_default();
    let facts = Facts {
        others,
        fresh: state.is_fresh(now) && blind(state, now).is_none(),
        listed: lists_are_fresh(state, now),
        applied: state.read_after_write(),
        outcome: state
            .proof
            .as_ref()
            .map_or(ProofOutcome::Pending, |row| proof::outcome(state, row, now)),
        failure: &failure,
        connected: state.is_connected(),
        reach: state
            .machines
            .get(&name)
            .and_then(|machine| proof::current_reach(state, machine, now).cloned()),
        unreachable_since: state.unreachable_since,
        grace: state.settings.drain_grace,
        patience: state.settings.warn_after,
    };
    let mut moved = false;
    if let Some(machine) = state.machines.get_mut(&name) {
        machine.others = Some(others);
        machine.others_since = match others {
            Others::Serve => machine.others_since.or(Some(now.instant)),
            Others::NotYet(..) | Others::None(..) => None,
        };
        let before = machine.stage;
        if before == Stage::Serving {
            machine.unclear = None;
            begin(machine, &facts, needs, now);
        } else if is_over(machine, &facts, now) {
            call_off(machine, now);
        } else {
            advance(machine, &state.ports, &facts, needs, now);
        }
        moved = machine.stage != before;
    }
    if moved {
        // The requests of the new stage need not wait for the next step.
        proof::keep(state, &name, others, now);
    }
    state.releasing = Some(name);
}

/// The machine that is released now: the one whose release has begun, or else of those in whose place others serve the one
/// that was deleted first. The last one that serves does not hold up those behind it.
fn choose(state: &State, evaluations: &[Evaluation], now: &Now) -> Option<ObjectName> {
    let all = state.machines.iter().zip(evaluations);
    let mut line: Vec<(&ObjectName, &Machine)> = all
        .filter(|(_, evaluation)| evaluation.ruled)
        .map(|(machine, _)| machine)
        .collect();
    let current = state.releasing.as_ref();
    line.sort_by_key(|(name, machine)| {
        // After a pause the one that had begun comes first.
        let waits = machine.stage == Stage::Serving;
        let is_another = Some(*name) != current;
        (waits, is_another, machine.want.deletion.since(), *name)
    });
    let (first, machine) = line.first()?;
    if machine.stage > Stage::Serving {
        return Some((*first).clone());
    }
    let is_replaced =
        |name: &ObjectName| !matches!(serving::others_serve(state, name, now), Others::None(..));
    let mut replaced = line.iter().filter(|(name, _)| is_replaced(name));
    let first_replaced = replaced.next();
    // A machine whose release was put off does not hold up the machines after it.
    let may_begin = |machine: &Machine| machine.proofs.may(now.instant);
    let next = first_replaced
        .into_iter()
        .chain(replaced)
        .find(|(_, machine)| may_begin(machine));
    next.or(first_replaced)
        .or(line.first())
        .map(|(name, _)| (*name).clone())
}

/// The precondition holds and the endpoint was seen: the machine gets no new connections from here on.
fn begin(machine: &mut Machine, facts: &Facts<'_>, needs: &mut Needs, now: &Now) {
    if !matches!(facts.others, Others::Serve) || !machine.proofs.may(now.instant) {
        return;
    }
    let required = match &facts.reach {
        Some(Reach::Ports(ports)) => Some(ports.clone()),
        Some(Reach::Unreachable(_)) if facts.connected && has_waited(machine, facts, now) => None,
        Some(Reach::Unreachable(_) | Reach::Wrong(_)) | None => return,
    };
    if facts.is_up_to_date(needs) {
        machine.stage = Stage::Draining;
        machine.drained = None;
        machine.restoring = false;
        machine.required = required;
        machine.unproven = None;
        // Refusals of earlier writes say nothing of this release.
        for slot in &mut machine.slots {
            slot.refusal = None;
            slot.deletions = 0;
        }
    }
}

/// Others have served, and the endpoint has been out of reach, for so long without a break that the machine may go without
/// a proof. An endpoint that answers now and then is not out of reach: there the proof has failed.
fn has_waited(machine: &Machine, facts: &Facts<'_>, now: &Now) -> bool {
    let has_lasted = |since: Option<Instant>| {
        since.is_some_and(|since| now.since(since) >= proof::WITHOUT_PROOF)
    };
    has_lasted(machine.others_since) && has_lasted(facts.unreachable_since)
}

fn advance(machine: &mut Machine, ports: &[Port], facts: &Facts<'_>, needs: &mut Needs, now: &Now) {
    let serve = matches!(facts.others, Others::Serve);
    let proves = machine.required.is_some();
    // The answer to the write shows the new weight, which clients notice only when Octavia's operation has ended.
    if machine.stage == Stage::Draining && facts.applied && is_drained(machine, ports) {
        let drained = *machine.drained.get_or_insert(now.instant);
        if now.since(drained) >= facts.grace {
            machine.stage = if proves {
                Stage::Proving
            } else {
                Stage::Removing
            };
        }
        return;
    }
    if matches!(machine.stage, Stage::Proving | Stage::Confirming)
        && facts.outcome == ProofOutcome::Failed
    {
        let why = format!(
            "without it too few requests through the endpoint were answered: {}",
            facts.failure
        );
        put_off(machine, why, now);
        return;
    }
    if matches!(machine.stage, Stage::Draining | Stage::Removing)
        && let Some(why) =
            lasting_refusal(machine, facts, now).or_else(|| failed_deletion(machine, ports, facts))
    {
        put_off(machine, why, now);
        return;
    }
    let answered = facts.outcome == ProofOutcome::Answered;
    if machine.stage == Stage::Proving && answered {
        machine.stage = Stage::Removing;
    }
    // The second read of the absence is made during the requests: every one of them follows the first.
    if machine.stage == Stage::Removing && machine.members_are_absent_in(1) && serve {
        if facts.fresh {
            machine.stage = Stage::Confirming;
        } else {
            needs.tree = true;
        }
        return;
    }
    if machine.stage == Stage::Confirming && !machine.members_are_absent_in(1) {
        // A member is there again: it is deleted, and what was answered meanwhile shows nothing.
        machine.stage = Stage::Removing;
        return;
    }
    if machine.stage == Stage::Confirming && serve && (answered || !proves) {
        // The weights and admin states of the others may have changed since the release began.
        let absent = machine.members_are_absent();
        needs.tree |= !absent;
        if facts.is_up_to_date(needs) && absent {
            machine.stage = Stage::Released;
        }
    }
}

/// The refusal of a drain or a deletion that has lasted for too long: a member that can't be removed neither stays drained for
/// ever nor holds up the machines behind it.
fn lasting_refusal(machine: &Machine, facts: &Facts<'_>, now: &Now) -> Option<String> {
    let refusals = machine
        .slots
        .iter()
        .filter_map(|slot| slot.refusal.as_ref());
    let mut lasting = refusals.filter(|refusal| now.since(refusal.since) >= facts.patience);
    let refusal = lasting.next()?;
    Some(format!(
        "Octavia refuses to take it out of service: {}",
        refusal.message
    ))
}

/// Octavia has accepted the deletion of a member more than once, and it ended in ERROR each time, as a read shows that was made
/// after the last of them.
fn failed_deletion(machine: &Machine, ports: &[Port], facts: &Facts<'_>) -> Option<String> {
    if !facts.applied {
        return None;
    }
    let mut slots = machine.slots.iter().zip(ports);
    let (_, port) = slots.find(|(slot, port)| {
        let member = slot.member.and_then(|index| port.members.get(index));
        slot.deletions >= 2
            && member.is_some_and(|member| member.provisioning == ProvisioningStatus::Error)
    })?;
    Some(format!(
        "the deletion of its member of port {} ends in ERROR",
        port.number
    ))
}

/// The release is called off for now and begins anew after a pause that grows.
fn put_off(machine: &mut Machine, why: String, now: &Now) {
    machine.unproven = Some(why);
    machine.proofs.made(now.instant);
    call_off(machine, now);
}

/// No other one serves any more, or for too long it is unknown whether one does.
fn is_over(machine: &mut Machine, facts: &Facts<'_>, now: &Now) -> bool {
    match facts.others {
        Others::Serve => {
            machine.unclear = None;
            false
        }
        Others::None(..) if facts.fresh => true,
        Others::None(..) | Others::NotYet(..) => {
            let since = *machine.unclear.get_or_insert(now.instant);
            facts.fresh && now.since(since) >= facts.patience
        }
    }
}

/// The members come back, and the hold starts over.
fn call_off(machine: &mut Machine, now: &Now) {
    machine.stage = Stage::Serving;
    machine.restoring = true;
    machine.unclear = None;
    machine.drained = None;
    machine.required = None;
    machine.reach = None;
    machine.others_since = None;
    machine.waiting_since = Some(now.stamp());
    for slot in &mut machine.slots {
        slot.deleted = None;
        slot.refusal = None;
        // The member is put back at once, whatever was tried before.
        slot.attempts.go_on(now.instant);
    }
}

/// Whether every member of the machine that can be drained is drained.
fn is_drained(machine: &Machine, ports: &[Port]) -> bool {
    machine.slots.iter().zip(ports).all(|(slot, port)| {
        let Some(member) = slot.member.and_then(|index| port.members.get(index)) else {
            return true;
        };
        match member.provisioning {
            ProvisioningStatus::Active => {
                member.weight() == Some(0) || member.admin_up() == Some(false)
            }
            ProvisioningStatus::Error => true,
            _ => member.lost.reads >= 3,
        }
    })
}

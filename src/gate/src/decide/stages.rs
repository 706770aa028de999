//! Carries a release that the rules decide on through its stages, or calls it off. Every stage except the last one can
//! be reversed.

use std::time::{Duration, Instant};

use crate::{
    decide::{
        evaluation::{Evaluation, Needs},
        freshness::lists_are_fresh,
        is_release_requested,
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
use capo_core::{ObjectName, Provider, ProvisioningStatus};

/// The facts on which the stage is decided.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Clone)]
struct Facts<'a> {
    others: Others,
    /// The tree was read after our last write and is fresh.
    fresh: bool,
    /// The lists of members were read after our last write and are fresh.
    listed: bool,
    /// The tree was read after our last write, so Octavia has applied everything that it shows as ACTIVE.
    read_after_write: bool,
    /// What the requests through the endpoint have shown.
    outcome: ProofOutcome,
    failure: &'a str,
    /// The requests were answered, but also by the machine itself.
    answered_itself: bool,
    provider: Provider,
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
    /// Whether the tree and the lists of members are fresh. Requests reads of those that are not.
    fn is_up_to_date(&self, needs: &mut Needs) -> bool {
        needs.tree |= !self.fresh;
        needs.lists |= !self.fresh || !self.listed;
        self.fresh && self.listed
    }
}

/// Carries on the release that has begun, or begins the next one. There is one release at a time, and the machine that
/// was deleted first comes first.
pub(crate) fn carry_release(
    state: &mut State,
    evaluations: &[Evaluation],
    now: &Now,
    needs: &mut Needs,
) {
    // A machine that was paused in the middle of its release counts as leaving, so no other release begins.
    let is_interrupted = |machine: &Machine| {
        machine.want.paused && machine.stage > Stage::Serving && is_release_requested(machine)
    };
    let chosen = if state.machines.values().any(is_interrupted) {
        None
    } else {
        choose(state, evaluations, now)
    };
    for (name, machine) in &mut state.machines {
        if chosen.as_ref() != Some(name) {
            // While another machine is released, it is not observed whether others serve in place of this one, so
            // `others_since` begins again.
            machine.others_since = None;
        }
    }
    let Some(name) = chosen else {
        state.releasing = None;
        state.proof = None;
        return;
    };
    let others = serving::others_serve(state, &name, now);
    proof::update(state, &name, others, now);
    let failure = state
        .proof
        .as_ref()
        .map(|proof| proof::failure(state, proof, now))
        .unwrap_or_default();
    let facts = Facts {
        others,
        fresh: state.is_fresh(now) && blind(state, now).is_none(),
        listed: lists_are_fresh(state, now),
        read_after_write: state.read_after_write(),
        outcome: state.proof.as_ref().map_or(ProofOutcome::Pending, |proof| {
            proof::outcome(state, proof, now)
        }),
        failure: &failure,
        answered_itself: state.proof.as_ref().is_some_and(proof::is_contradicted),
        provider: state.provider,
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
            machine.others_unknown_since = None;
            begin_release(machine, &facts, needs, now);
        } else {
            note_unknown_others(machine, others, now);
            if is_over(machine, &facts, now) {
                call_off(machine, now);
            } else {
                advance(machine, &state.ports, &facts, needs, now);
            }
        }
        moved = machine.stage != before;
    }
    if moved {
        // The requests of the new stage begin in this step.
        proof::update(state, &name, others, now);
    }
    state.releasing = Some(name);
}

/// The machine that is released now: the one whose release has begun, or else the one that was deleted first among
/// those in whose place other machines serve. The last machine that serves does not hold up the others.
fn choose(state: &State, evaluations: &[Evaluation], now: &Now) -> Option<ObjectName> {
    let all = state.machines.iter().zip(evaluations);
    let mut line: Vec<(&ObjectName, &Machine)> = all
        .filter(|(_, evaluation)| evaluation.ruled)
        .map(|(machine, _)| machine)
        .collect();
    let current = state.releasing.as_ref();
    line.sort_by_key(|(name, machine)| {
        // After a pause, a machine whose release had begun comes first.
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
    // A machine whose release was called off does not hold up the machines after it.
    let may_begin = |machine: &Machine| machine.release_attempts.is_due(now.instant);
    let next = first_replaced
        .into_iter()
        .chain(replaced)
        .find(|(_, machine)| may_begin(machine));
    next.or(first_replaced)
        .or(line.first())
        .map(|(name, _)| (*name).clone())
}

/// Begins the release if other machines serve and the endpoint was observed. From here on the machine gets no new
/// connections.
fn begin_release(machine: &mut Machine, facts: &Facts<'_>, needs: &mut Needs, now: &Now) {
    if !matches!(facts.others, Others::Serve) || !machine.release_attempts.is_due(now.instant) {
        return;
    }
    let required = match &facts.reach {
        Some(Reach::Ports(ports)) => Some(ports.clone()),
        Some(Reach::Unreachable(_)) if facts.connected && has_waited(machine, facts, now) => None,
        Some(Reach::Unreachable(_) | Reach::Wrong(_)) | None => return,
    };
    if facts.is_up_to_date(needs) {
        machine.stage = Stage::Draining;
        machine.drained_since = None;
        machine.restoring = false;
        machine.required = required;
        machine.proven = None;
        machine.called_off_because = None;
        // Refusals of earlier writes do not concern this release.
        for slot in &mut machine.slots {
            slot.refusal = None;
            slot.deletions = 0;
        }
    }
}

/// Whether other machines have served, and the endpoint has been unreachable, for so long without interruption that the
/// machine may be released without a proof. An endpoint that answers from time to time does not count as unreachable,
/// because the time starts again with each answer.
fn has_waited(machine: &Machine, facts: &Facts<'_>, now: &Now) -> bool {
    let has_lasted = |since: Option<Instant>| {
        since.is_some_and(|since| now.since(since) >= proof::WITHOUT_PROOF)
    };
    has_lasted(machine.others_since) && has_lasted(facts.unreachable_since)
}

fn advance(machine: &mut Machine, ports: &[Port], facts: &Facts<'_>, needs: &mut Needs, now: &Now) {
    let serve = matches!(facts.others, Others::Serve);
    let proves = machine.required.is_some();
    if !proves && !facts.connected {
        let why =
            "Cluster API does not reach the endpoint any more either, and a proof was not possible";
        call_off_and_back_off(machine, why.to_owned(), now);
        return;
    }
    // The answer to the write shows the new weight, but clients notice it only when Octavia's operation has ended.
    if machine.stage == Stage::Draining
        && facts.read_after_write
        && is_drained(machine, ports, facts.provider)
    {
        let drained = *machine.drained_since.get_or_insert(now.instant);
        if now.since(drained) >= facts.grace {
            machine.stage = if proves {
                Stage::Proving
            } else {
                Stage::Removing
            };
        }
        return;
    }
    if matches!(
        machine.stage,
        Stage::Proving | Stage::Confirming | Stage::Released
    ) && facts.outcome == ProofOutcome::Failed
    {
        let why = format!(
            "without it too few requests through the endpoint were answered: {}",
            facts.failure
        );
        call_off_and_back_off(machine, why, now);
        machine.answered_itself = facts.answered_itself;
        return;
    }
    if matches!(machine.stage, Stage::Draining | Stage::Removing)
        && let Some(why) =
            lasting_refusal(machine, facts, now).or_else(|| failed_deletion(machine, ports, facts))
    {
        call_off_and_back_off(machine, why, now);
        return;
    }
    let answered = facts.outcome == ProofOutcome::Answered;
    if machine.stage == Stage::Proving && answered {
        machine.stage = Stage::Removing;
    }
    // One read without the members is enough to start the requests. The second read, which confirms the absence, is
    // made while the requests are under way.
    if machine.stage == Stage::Removing && machine.members_are_absent_in(1) && serve {
        if facts.fresh {
            machine.stage = Stage::Confirming;
        } else {
            needs.tree = true;
        }
        return;
    }
    if matches!(machine.stage, Stage::Confirming | Stage::Released)
        && !machine.members_are_absent_in(1)
    {
        // The machine has a member again. It is deleted, and the answers since then prove nothing.
        machine.stage = Stage::Removing;
        machine.proven = None;
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

/// The refusal of a drain or a deletion that has lasted for too long. A member that can't be removed must neither stay
/// drained for ever nor hold up the machines that are released after it.
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

/// The deletion of a member that Octavia has accepted more than once and that ended in ERROR each time, as a read shows
/// that was made after the last deletion.
fn failed_deletion(machine: &Machine, ports: &[Port], facts: &Facts<'_>) -> Option<String> {
    if !facts.read_after_write {
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

/// Calls the release off. It begins again after a pause, which grows with every attempt.
fn call_off_and_back_off(machine: &mut Machine, why: String, now: &Now) {
    machine.called_off_because = Some(why);
    machine.release_attempts.record(now.instant);
    call_off(machine, now);
}

/// Whether no other machine serves any more, or it has been unknown for too long whether one does.
fn is_over(machine: &Machine, facts: &Facts<'_>, now: &Now) -> bool {
    match facts.others {
        Others::Serve => false,
        Others::None(..) if facts.fresh => true,
        Others::None(..) | Others::NotYet(..) => {
            let since = machine.others_unknown_since;
            facts.fresh && since.is_some_and(|since| now.since(since) >= facts.patience)
        }
    }
}

/// Notes since when it is unknown whether another machine serves.
fn note_unknown_others(machine: &mut Machine, others: Others, now: &Now) {
    match others {
        Others::Serve => machine.others_unknown_since = None,
        Others::None(..) | Others::NotYet(..) => {
            machine.others_unknown_since.get_or_insert(now.instant);
        }
    }
}

/// Ends the release. `members::restore` then puts the machine's members back in service.
fn call_off(machine: &mut Machine, now: &Now) {
    machine.stage = Stage::Serving;
    machine.restoring = true;
    machine.others_unknown_since = None;
    machine.drained_since = None;
    machine.required = None;
    machine.proven = None;
    machine.answered_itself = false;
    machine.reach = None;
    machine.others_since = None;
    machine.waiting_since = Some(now.stamp());
    for slot in &mut machine.slots {
        slot.deleted = None;
        slot.refusal = None;
        // The member is put back at once, however many writes have failed before.
        slot.attempts.allow_at_once(now.instant);
    }
}

/// Whether every member of the machine that can be drained is drained.
fn is_drained(machine: &Machine, ports: &[Port], provider: Provider) -> bool {
    machine.slots.iter().zip(ports).all(|(slot, port)| {
        let Some(member) = slot.member.and_then(|index| port.members.get(index)) else {
            return true;
        };
        match member.provisioning {
            ProvisioningStatus::Active => member.gets_connections(provider) == Some(false),
            ProvisioningStatus::Error => true,
            _ => member.pending_reads.reads >= 3,
        }
    })
}

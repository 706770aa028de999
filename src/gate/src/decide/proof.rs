//! The endpoint proof: whether API servers answer through the endpoint without the machine that is being released.

use std::time::Duration;

use crate::model::{
    clock::Now,
    evidence::Others,
    machine::{Machine, Stage},
    member::Member,
    proof::{PortProof, Proof, ProofOutcome, Reach, Round},
    state::State,
};
use capo_core::ObjectName;

/// The proof has failed after this many failed requests in a row, because requests of clients fail as well in that
/// time.
const FAILURES: u32 = 3;
/// An answer of the leaving machine shows that the change has not reached the data path, at least not yet. From then on
/// this many times as many answers in a row are needed.
const CONTRADICTED: u32 = 3;
/// The age from which the answers without the machine's members are asked for again, if the hook is still there.
pub(crate) const PROOF_AGE: Duration = Duration::from_secs(30);
/// How long other machines must serve, and nothing must answer through the endpoint, without interruption, before a
/// machine may be released without a proof. This is longer than Cluster API goes on reporting a connection that it has
/// lost (`--remote-connection-grace-period`, 50 seconds by default).
pub(crate) const WITHOUT_PROOF: Duration = Duration::from_secs(90);

/// Begins, keeps or ends the series of requests that the stage of the release needs, and notes what the series before
/// the drain has shown.
pub(crate) fn update(state: &mut State, name: &ObjectName, others: Others, now: &Now) {
    note_reach(state, name, now);
    note_answers(state, name, now);
    let wanted = state
        .machines
        .get(name)
        .and_then(|machine| wanted(state, machine, others, now));
    let Some((round, required)) = wanted else {
        state.proof = None;
        return;
    };
    let machine = state.machines.get(name);
    let is_kept = state.proof.as_ref().is_some_and(|proof| {
        let is_over = machine
            .filter(|machine| is_old(machine, now))
            .and_then(|machine| machine.proven)
            .is_some_and(|proven| proof.began <= proven);
        proof.machine == *name && proof.round == round && !is_over
    });
    if !is_kept {
        state.proof = Some(Proof::new(name.clone(), round, now.instant, required));
    }
}

/// The series of requests that the stage needs, and the ports that it covers.
fn wanted(
    state: &State,
    machine: &Machine,
    others: Others,
    now: &Now,
) -> Option<(Round, Vec<bool>)> {
    match machine.stage {
        Stage::Serving => {
            let asks = matches!(others, Others::Serve)
                && machine.release_attempts.is_due(now.instant)
                && current_reach(state, machine, now).is_none();
            asks.then(|| (Round::InService, vec![true; state.ports.len()]))
        }
        Stage::Proving => Some((Round::Drained, machine.required.clone()?)),
        Stage::Confirming => Some((Round::Removed, machine.required.clone()?)),
        Stage::Released if is_old(machine, now) => {
            Some((Round::Removed, machine.required.clone()?))
        }
        Stage::Draining | Stage::Removing | Stage::Released => None,
    }
}

/// What was seen of the endpoint a moment ago while the machine was in service.
pub(crate) fn current_reach<'a>(
    state: &State,
    machine: &'a Machine,
    now: &Now,
) -> Option<&'a Reach> {
    let (seen, reach) = machine.reach.as_ref()?;
    (now.since(*seen) <= state.settings.proof_window).then_some(reach)
}

fn note_reach(state: &mut State, name: &ObjectName, now: &Now) {
    let Some(proof) = &state.proof else { return };
    if proof.machine != *name || proof.round != Round::InService {
        return;
    }
    let outcomes: Vec<ProofOutcome> = proof
        .ports
        .iter()
        .enumerate()
        .map(|(index, port)| port_outcome(state, proof, index, port, now))
        .collect();
    let own = outcomes.first().copied().unwrap_or(ProofOutcome::Failed);
    if own == ProofOutcome::Pending
        || own == ProofOutcome::Answered && outcomes.contains(&ProofOutcome::Pending)
    {
        return;
    }
    let reach = if own == ProofOutcome::Answered {
        let answers = |outcome: &ProofOutcome| *outcome == ProofOutcome::Answered;
        Reach::Ports(outcomes.iter().map(answers).collect())
    } else {
        let port = proof.ports.first();
        let failure = port.and_then(|port| port.failure.clone());
        let failure = failure.unwrap_or_else(|| "no answer in time".to_owned());
        if port.is_some_and(|port| port.reached) {
            Reach::Wrong(failure)
        } else {
            Reach::Unreachable(failure)
        }
    };
    if matches!(reach, Reach::Unreachable(_)) {
        let since = state.unreachable_since;
        state.unreachable_since = since.or(Some(proof.began));
    }
    if let Some(machine) = state.machines.get_mut(name) {
        machine.reach = Some((now.instant, reach));
    }
}

/// The outcome of the series of requests under way, over all ports.
pub(crate) fn outcome(state: &State, proof: &Proof, now: &Now) -> ProofOutcome {
    let mut all = ProofOutcome::Answered;
    for (index, port) in proof.ports.iter().enumerate() {
        match port_outcome(state, proof, index, port, now) {
            ProofOutcome::Failed => return ProofOutcome::Failed,
            ProofOutcome::Pending => all = ProofOutcome::Pending,
            ProofOutcome::Answered => {}
        }
    }
    all
}

/// The outcome of the series of requests on one port.
pub(crate) fn port_outcome(
    state: &State,
    proof: &Proof,
    index: usize,
    port: &PortProof,
    now: &Now,
) -> ProofOutcome {
    let limit = time_limit(state, proof, index, port);
    if !port.required || port.answers >= needed(state, proof, index, port) {
        ProofOutcome::Answered
    } else if port.failures >= FAILURES || now.since(proof.began) >= limit {
        ProofOutcome::Failed
    } else {
        ProofOutcome::Pending
    }
}

/// The proof fails if a port has not answered often enough for this long after the series began. An endpoint that
/// answers every request, but slowly, gets more time to answer enough of them.
pub(crate) fn time_limit(state: &State, proof: &Proof, index: usize, port: &PortProof) -> Duration {
    let window = state.settings.proof_window;
    if port.answers > 0 {
        window.max(window / 2 * needed(state, proof, index, port))
    } else {
        window
    }
}

/// How many answers in a row are enough. A load balancer that chooses members at random and still uses the leaving
/// machine gives 5n answers in a row of the n other members with a probability of at most 3 %, where 5 is the default
/// of `proof_answers`.
pub(crate) fn needed(state: &State, proof: &Proof, index: usize, port: &PortProof) -> u32 {
    if index != 0 || proof.round == Round::InService {
        return 1;
    }
    let leaving = state.machines.get(&proof.machine);
    let address = leaving.and_then(|machine| machine.want.address);
    let in_rotation = |member: &&Member| {
        member.address != address && member.admin_up() != Some(false) && member.weight() != Some(0)
    };
    let members = state
        .ports
        .first()
        .into_iter()
        .flat_map(|port| &port.members);
    let others = u32::try_from(members.filter(in_rotation).count()).unwrap_or(u32::MAX);
    let times = if port.is_contradicted {
        CONTRADICTED
    } else {
        1
    };
    let answers = state.settings.proof_answers.saturating_mul(others.max(1));
    answers.saturating_mul(times)
}

/// Whether API servers answered the requests without the machine's members so long ago that the gate has to repeat
/// these requests.
fn is_old(machine: &Machine, now: &Now) -> bool {
    let answered = machine.proven;
    answered.is_some_and(|answered| now.since(answered) >= PROOF_AGE)
}

/// Notes that the requests without the machine's members have been answered.
fn note_answers(state: &mut State, name: &ObjectName, now: &Now) {
    let Some(proof) = state.proof.as_ref() else {
        return;
    };
    let is_answered = proof.machine == *name
        && proof.round == Round::Removed
        && outcome(state, proof, now) == ProofOutcome::Answered;
    let began = proof.began;
    if is_answered
        && let Some(machine) = state.machines.get_mut(name)
        && machine.proven.is_none_or(|proven| proven < began)
    {
        machine.proven = Some(now.instant);
    }
}

/// Whether every request was answered, but some of them by the leaving machine itself.
pub(crate) fn is_contradicted(proof: &Proof) -> bool {
    let fails = |port: &PortProof| port.failures > 0;
    let contradicted = |port: &PortProof| port.is_contradicted;
    proof.ports.iter().any(contradicted) && !proof.ports.iter().any(fails)
}

/// The request that failed, and its reply.
pub(crate) fn failure(state: &State, proof: &Proof, now: &Now) -> String {
    proof
        .ports
        .iter()
        .enumerate()
        .find(|(index, port)| port_outcome(state, proof, *index, port, now) == ProofOutcome::Failed)
        .and_then(|(_, port)| port.failure.clone())
        .unwrap_or_else(|| "no answer through the endpoint in time".to_owned())
}

//! Applies replies through the endpoint to the proof.

use crate::model::{
    proof::{EndpointReply, EndpointResult, PortProof, Round},
    reply_outcome::ReplyOutcome,
    state::State,
};

pub(crate) fn reply(state: &mut State, id: u64, result: &EndpointResult) {
    let Some(proof) = &state.proof else { return };
    let is_of = |port: &PortProof| port.requests.contains(&id);
    let Some(index) = proof.ports.iter().position(is_of) else {
        return;
    };
    let leaving = state
        .machines
        .get(&proof.machine)
        .filter(|_| proof.round != Round::InService)
        .and_then(|machine| machine.want.address);
    let outcome = ReplyOutcome::of(result, leaving.as_slice());
    state.answered |= matches!(result, Ok(EndpointReply::Answer(answer)) if answer.is_served());
    let Some(port) = state
        .proof
        .as_mut()
        .and_then(|proof| proof.ports.get_mut(index))
    else {
        return;
    };
    port.requests.retain(|request| *request != id);
    if outcome.is_reached() {
        state.unreachable_since = None;
    }
    outcome.count(port);
}

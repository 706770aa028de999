//! Takes what came back through the endpoint into the proof.

use crate::model::{
    proof::{EndpointReply, EndpointResult, Round},
    state::State,
};

/// What one reply shows.
enum Shown {
    Counts,
    Fails { reached: bool, text: String },
}

pub(crate) fn reply(state: &mut State, id: u64, result: &EndpointResult) {
    let Some(proof) = &state.proof else { return };
    let Some(index) = proof.ports.iter().position(|port| port.request == Some(id)) else {
        return;
    };
    let leaving = state
        .machines
        .get(&proof.machine)
        .and_then(|machine| machine.want.address);
    let is_in_service = proof.round == Round::InService;
    let shown = match result {
        Ok(EndpointReply::Connected) => Shown::Counts,
        Ok(EndpointReply::Answer(answer)) => {
            let own = answer.given_by(leaving.as_slice());
            if !answer.is_served() {
                Shown::Fails {
                    reached: true,
                    text: if answer.body.is_empty() {
                        format!("the answer was {}", answer.status)
                    } else {
                        format!("the answer was {}: {}", answer.status, answer.body)
                    },
                }
            } else if let Some(own) = own.filter(|_| !is_in_service) {
                Shown::Fails {
                    reached: true,
                    text: format!(
                        "the answer came from this machine itself (its serving certificate names {own}), so Octavia has not applied the change"
                    ),
                }
            } else {
                Shown::Counts
            }
        }
        Err(failure) => Shown::Fails {
            reached: failure.may_have_answered(),
            text: failure.to_string(),
        },
    };
    state.answered |= matches!(result, Ok(EndpointReply::Answer(answer)) if answer.is_served());
    let Some(port) = state
        .proof
        .as_mut()
        .and_then(|proof| proof.ports.get_mut(index))
    else {
        return;
    };
    port.request = None;
    if matches!(shown, Shown::Counts | Shown::Fails { reached: true, .. }) {
        state.unreachable_since = None;
    }
    match shown {
        Shown::Counts => {
            port.answers = port.answers.saturating_add(1);
            port.failures = 0;
            port.reached = true;
        }
        Shown::Fails { reached, text } => {
            port.answers = 0;
            port.failures = port.failures.saturating_add(1);
            port.reached |= reached;
            port.failure = Some(format!("{}: {text}", port.last_request));
        }
    }
}

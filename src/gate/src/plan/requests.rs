//! The requests through the endpoint that a proof still needs.

use std::time::Duration;

use crate::{
    decide::proof::{needed, port_outcome},
    model::{
        clock::Now,
        effect::Effect,
        proof::{EndpointRequest, PortProof, Proof, ProofOutcome},
        state::State,
    },
};
use capo_core::Endpoint;

/// The shortest time between two requests to a port while no answer of it counts.
pub(crate) const GAP: Duration = Duration::from_millis(10);
/// How many requests to a port that answers may be under way at a time. A request takes three round trips, through a
/// load balancer that may be far away.
const AT_A_TIME: usize = 4;

/// Sends the requests that are due.
pub(crate) fn send(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let Some(mut proof) = state.proof.take() else {
        return;
    };
    for index in 0..proof.ports.len() {
        let (Some(port), Some(request)) = (proof.ports.get(index), request(state, index)) else {
            continue;
        };
        let due = due(state, &proof, index, port, now);
        let Some(port) = proof.ports.get_mut(index) else {
            continue;
        };
        for _ in 0..due {
            state.last_request_id = state.last_request_id.wrapping_add(1);
            port.requests.push(state.last_request_id);
            port.sent = Some(now.instant);
            port.last_request = request.to_string();
            effects.push(Effect::Request {
                id: state.last_request_id,
                request: request.clone(),
            });
        }
    }
    state.proof = Some(proof);
}

/// How many requests to a port are sent now: one at a time until one is answered and counts, then as many as are still
/// needed, a few at a time.
fn due(state: &State, proof: &Proof, index: usize, port: &PortProof, now: &Now) -> usize {
    if port_outcome(state, proof, index, port, now) != ProofOutcome::Pending {
        return 0;
    }
    let under_way = port.requests.len();
    if port.answers > 0 {
        let missing = needed(state, proof, index, port).saturating_sub(port.answers);
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        missing.min(AT_A_TIME).saturating_sub(under_way)
    } else {
        let has_rested = port.sent.is_none_or(|sent| now.since(sent) >= GAP);
        usize::from(under_way == 0 && has_rested)
    }
}

/// The request to one port; `None` while the endpoint is unknown.
fn request(state: &State, index: usize) -> Option<EndpointRequest> {
    let endpoint = state.desired.as_ref()?.cluster.endpoint.clone()?;
    if index == 0 {
        let addresses = state
            .machines
            .values()
            .filter_map(|machine| machine.want.address);
        return Some(EndpointRequest::Readyz {
            endpoint,
            addresses: addresses.collect(),
        });
    }
    let port = state.ports.get(index)?.number;
    Some(EndpointRequest::Connect {
        endpoint: Endpoint { port, ..endpoint },
    })
}

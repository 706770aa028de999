//! The requests through the endpoint that a proof still needs.

use std::time::Duration;

use crate::{
    decide::proof::port_outcome,
    model::{
        clock::Now,
        effect::Effect,
        proof::{EndpointRequest, ProofOutcome},
        state::State,
    },
};
use capo_core::Endpoint;

/// The pause between an answer and the next request to that port.
pub(crate) const GAP: Duration = Duration::from_millis(10);

/// Sends the requests that are due: at most one at a time to each port.
pub(crate) fn send(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let Some(mut proof) = state.proof.take() else {
        return;
    };
    for index in 0..proof.ports.len() {
        let (Some(port), Some(request)) = (proof.ports.get(index), request(state, index)) else {
            continue;
        };
        let is_due = port.request.is_none()
            && port.sent.is_none_or(|sent| now.since(sent) >= GAP)
            && port_outcome(state, &proof, (index, port), now) == ProofOutcome::Pending;
        if !is_due {
            continue;
        }
        state.requests = state.requests.wrapping_add(1);
        if let Some(port) = proof.ports.get_mut(index) {
            port.request = Some(state.requests);
            port.sent = Some(now.instant);
            port.last_request = request.to_string();
        }
        effects.push(Effect::Request {
            id: state.requests,
            request,
        });
    }
    state.proof = Some(proof);
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

//! The gates of control-plane machines whose API server is reached by a floating IP on one of them. This module starts
//! the requests that prove the next release safe, and keeps the gates that `capo-gate` decides.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::proof::{Proof, ProofRequest};
use crate::controllers::cluster::pass::Pass;
use capo_core::Lookup;
use capo_gate::{
    ReleaseInputs, carrier_findings,
    desired::ClusterFacts,
    findings::Findings,
    floating_ip::{Carrier, CarrierProof, Holder},
    next_release,
};

/// Starts requests through the endpoint for the machine that is released next, if it is time for that. Returns what is
/// known of them.
pub(super) fn prove_next(
    pass: &mut Pass<'_>,
    facts: &ClusterFacts,
    inputs: &ReleaseInputs<'_>,
    carriers: &[Carrier],
) -> Option<CarrierProof> {
    let before = pass.cached.carriers.proof.take();
    let next = next_release(inputs, carriers, Timestamp::now())?;
    let Holder::Machine(on) = inputs.holder else {
        return None;
    };
    let before = before.filter(|proof| proof.leaving == next.machine && proof.holder == *on);
    let proof = match before {
        Some(proof) if !proof.is_due(pass.now) => proof,
        before => {
            // The endpoint counts as unreachable only if no request has been answered since that time.
            let since = before.and_then(|proof| proof.unanswered_since());
            let since = since.unwrap_or(pass.now);
            let request = proof_request(pass, facts, next, carriers)?;
            Proof::start(next.machine.clone(), on.clone(), since, request)
        }
    };
    let seen = proof.seen();
    pass.cached.carriers.proof = Some(proof);
    Some(seen)
}

/// The requests for the release of the machine `leaving`; `None` while the endpoint is not known.
fn proof_request(
    pass: &Pass<'_>,
    facts: &ClusterFacts,
    leaving: &Carrier,
    carriers: &[Carrier],
) -> Option<ProofRequest> {
    let tracker = &pass.context.tracker;
    Some(ProofRequest {
        prober: tracker.prober(),
        endpoint: facts.endpoint.clone()?,
        authority: facts.ca_pem.clone(),
        leaving: leaving.addresses.clone(),
        addresses: carriers
            .iter()
            .flat_map(|carrier| carrier.addresses.clone())
            .collect(),
        settings: tracker.settings().clone(),
        queue: pass.context.queues.clusters.clone(),
        cluster: pass.name.clone(),
    })
}

/// Decides on the gates of every control-plane machine and keeps them.
pub(super) fn decide_gates(pass: &mut Pass<'_>, inputs: &ReleaseInputs<'_>, carriers: &[Carrier]) {
    let none = BTreeMap::new();
    let gates = &pass.cached.carriers.gates;
    let before = gates.found().map_or(&none, |gates| &gates.machines);
    let machines = carrier_findings(inputs, carriers, before, Timestamp::now());
    let findings = Findings {
        machines,
        fresh_until: pass
            .cached
            .carriers
            .proof
            .as_ref()
            .and_then(Proof::counts_until),
        ..Findings::default()
    };
    set_gates(pass, Lookup::Found(Arc::new(findings)));
}

/// Keeps the gates. If they changed, the machines are enqueued.
pub(super) fn set_gates(pass: &mut Pass<'_>, gates: Lookup<Arc<Findings>>) {
    let machines =
        |gates: &Lookup<Arc<Findings>>| gates.found().map(|gates| gates.machines.clone());
    let before = &pass.cached.carriers.gates;
    if before.is_absent() != gates.is_absent() || machines(before) != machines(&gates) {
        pass.enqueue_machines = true;
    }
    pass.cached.carriers.gates = gates;
}

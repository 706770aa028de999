//! The gates of control-plane machines whose API server is reached by a floating IP on one of them. This module starts
//! the requests that prove the next release safe, and keeps the gates that `capo-gate` decides.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::proof::{Proof, ProofRequest};
use crate::controllers::cluster::pass::Pass;
use capo_core::Lookup;
use capo_gate::{
    ReleaseInputs,
    desired::ClusterFacts,
    findings::Findings,
    floating_ip::{ControlPlaneMachine, Holder, MoveProof},
    floating_ip_findings, next_release,
};

/// Starts requests through the endpoint for the machine that is released next, if it is time for that. Returns what is
/// known of them.
pub(super) fn prove_next(
    pass: &mut Pass<'_>,
    facts: &ClusterFacts,
    inputs: &ReleaseInputs<'_>,
    machines: &[ControlPlaneMachine],
) -> Option<MoveProof> {
    let before = pass.cached.machine_floating_ip.proof.take();
    let next = next_release(inputs, machines, Timestamp::now())?;
    let Holder::Machine(on) = inputs.holder else {
        return None;
    };
    let before = before.filter(|proof| proof.leaving == next.name && proof.holder == *on);
    let proof = match before {
        Some(proof) if !proof.is_due(pass.now) => proof,
        before => {
            // The endpoint counts as unreachable only if no request has been answered since that time.
            let since = before.and_then(|proof| proof.unanswered_since());
            let since = since.unwrap_or(pass.now);
            let request = proof_request(pass, facts, next, machines)?;
            Proof::start(next.name.clone(), on.clone(), since, request)
        }
    };
    let seen = proof.seen();
    pass.cached.machine_floating_ip.proof = Some(proof);
    Some(seen)
}

/// The requests for the release of the machine `leaving`; `None` while the endpoint is not known.
fn proof_request(
    pass: &Pass<'_>,
    facts: &ClusterFacts,
    leaving: &ControlPlaneMachine,
    machines: &[ControlPlaneMachine],
) -> Option<ProofRequest> {
    let tracker = &pass.context.tracker;
    Some(ProofRequest {
        prober: tracker.prober(),
        endpoint: facts.endpoint.clone()?,
        authority: facts.ca_pem.clone(),
        leaving: leaving.addresses.clone(),
        addresses: machines
            .iter()
            .flat_map(|machine| machine.addresses.clone())
            .collect(),
        settings: tracker.settings().clone(),
        queue: pass.context.queues.clusters.clone(),
        cluster: pass.name.clone(),
    })
}

/// Decides on the gates of every control-plane machine and keeps them.
pub(super) fn decide_gates(
    pass: &mut Pass<'_>,
    inputs: &ReleaseInputs<'_>,
    machines: &[ControlPlaneMachine],
) {
    let none = BTreeMap::new();
    let gates = &pass.cached.machine_floating_ip.gates;
    let before = gates.found().map_or(&none, |gates| &gates.machines);
    let machines = floating_ip_findings(inputs, machines, before, Timestamp::now());
    let findings = Findings {
        machines,
        fresh_until: pass
            .cached
            .machine_floating_ip
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
    let before = &pass.cached.machine_floating_ip.gates;
    if before.is_absent() != gates.is_absent() || machines(before) != machines(&gates) {
        pass.enqueue_machines = true;
    }
    pass.cached.machine_floating_ip.gates = gates;
}

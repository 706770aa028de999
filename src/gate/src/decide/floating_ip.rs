//! The gates `release` and `finalizer` of control-plane machines if clients reach the API server by a floating IP on
//! one of the machines. There is no load balancer in this case. `report::floating_ip` turns the decisions into findings
//! for the controller that moves the floating IP.

use std::{collections::BTreeMap, net::IpAddr, time::Instant};

use jiff::Timestamp;

use crate::{
    decide::{
        precedence,
        proof::{self, WITHOUT_PROOF},
    },
    model::{
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{ClusterFacts, ObservedServer},
        floating_ip::{
            ControlPlaneMachine, FloatingIpDecision, HoldCause, Holder, MachineDecision,
            MachineDeletion, MoveProof, OpenCause, ProofOutcome,
        },
        proof::{EndpointResult, Proof, ProofOutcome as SeriesOutcome, Round},
        reply_outcome::ReplyOutcome,
        settings::Settings,
        state::State,
    },
};
use capo_core::{ConditionState, GateMode, ObjectName};

/// A series of requests through the endpoint for a machine that is being deleted. It is judged by the same rules as for
/// load balancers.
pub struct ProofInProgress {
    state: State,
    proof: Proof,
    leaving: Vec<IpAddr>,
}

impl MoveProof {
    /// Begins a series of requests for the machine with the addresses `leaving`. Messages call each request `request`.
    pub fn begin(
        settings: Settings,
        request: &str,
        leaving: Vec<IpAddr>,
        now: Instant,
    ) -> ProofInProgress {
        // The outcome of a series does not depend on the machine's name.
        let unnamed = ObjectName::new("", "");
        let mut proof = Proof::new(unnamed, Round::Removed, now, vec![true]);
        for port in &mut proof.ports {
            request.clone_into(&mut port.last_request);
        }
        ProofInProgress {
            state: State::new(settings),
            proof,
            leaving,
        }
    }
}

impl ProofInProgress {
    /// Counts a reply. `None` means that more requests are needed.
    pub fn reply(&mut self, result: &EndpointResult, now: Instant) -> Option<ProofOutcome> {
        for port in &mut self.proof.ports {
            ReplyOutcome::of(result, &self.leaving).count(port);
        }
        let now = Now {
            instant: now,
            wall: Timestamp::UNIX_EPOCH,
            random: 0.0,
        };
        match proof::outcome(&self.state, &self.proof, &now) {
            SeriesOutcome::Pending => None,
            SeriesOutcome::Answered => Some(ProofOutcome::Served),
            SeriesOutcome::Failed => Some(ProofOutcome::Failed {
                message: proof::failure(&self.state, &self.proof, &now),
                is_unreachable: !self.proof.ports.iter().any(|port| port.reached),
            }),
        }
    }
}

/// The facts that the gates depend on.
pub struct ReleaseInputs<'a> {
    /// The facts about the cluster.
    pub cluster: &'a ClusterFacts,
    /// The floating IP, for messages.
    pub address: &'a str,
    /// Where the floating IP is.
    pub holder: &'a Holder,
    /// The machines whose release is asked for, and their servers as last read, if they were read. These are the
    /// machines that our hook holds at this moment, and machines whose `OpenStackMachine` is being deleted although the
    /// Machine is not. Paused machines are not among them.
    pub asked: &'a BTreeMap<ObjectName, Option<ObservedServer>>,
    /// Whether clients reach the API server through the floating IP.
    pub ingress: &'a ConditionState,
    /// The requests through the endpoint for the machine that is released next.
    pub proof: Option<&'a MoveProof>,
    /// The present time.
    pub now: Instant,
}

/// The machine that is released next: the one that was deleted first among those whose release the rules decide. A
/// machine that is still being drained, is paused or is held by an operator does not hold up the others.
pub fn next_release<'a>(
    inputs: &ReleaseInputs<'_>,
    machines: &'a [ControlPlaneMachine],
    now: Timestamp,
) -> Option<&'a ControlPlaneMachine> {
    machines
        .iter()
        .filter(|machine| inputs.asked.contains_key(&machine.name))
        .filter(|machine| *inputs.holder != Holder::Machine(machine.name.clone()))
        .filter(|machine| decision_that_needs_no_proof(inputs, machine, now).is_none())
        .filter_map(|machine| match machine.deletion {
            MachineDeletion::Since(since) => Some((since, machine)),
            MachineDeletion::No | MachineDeletion::WithoutHook => None,
        })
        .min_by(|(a, first), (b, second)| a.cmp(b).then(first.name.cmp(&second.name)))
        .map(|(_, machine)| machine)
}

/// The decisions on every machine.
pub(crate) fn decide<'a>(
    inputs: &ReleaseInputs<'a>,
    machines: &'a [ControlPlaneMachine],
    now: Timestamp,
) -> Vec<MachineDecision<'a>> {
    let next = next_release(inputs, machines, now);
    machines
        .iter()
        .map(|machine| {
            let is_next = next.is_some_and(|next| next.name == machine.name);
            MachineDecision {
                machine,
                release: release(inputs, machine, machines, is_next, now),
                needs_server_read: needs_server_read(inputs, machine),
            }
        })
        .collect()
}

fn release<'a>(
    inputs: &ReleaseInputs<'a>,
    machine: &ControlPlaneMachine,
    machines: &[ControlPlaneMachine],
    is_next: bool,
    now: Timestamp,
) -> FloatingIpDecision<'a> {
    let without_proof = || decision_that_needs_no_proof(inputs, machine, now);
    match machine.deletion {
        MachineDeletion::Since(_) if inputs.asked.contains_key(&machine.name) => without_proof()
            .map_or_else(
                || rules(inputs, machine, machines, is_next, now),
                FloatingIpDecision::General,
            ),
        MachineDeletion::No | MachineDeletion::Since(_) => {
            FloatingIpDecision::General(GateDecision::NotEvaluated)
        }
        MachineDeletion::WithoutHook => without_proof().map_or(
            FloatingIpDecision::Open(OpenCause::HookRemoved),
            FloatingIpDecision::General,
        ),
    }
}

/// Whether nothing holds the deletion of this machine, although its API server may still answer.
fn is_free_to_go(
    inputs: &ReleaseInputs<'_>,
    machine: &ControlPlaneMachine,
    now: Timestamp,
) -> bool {
    match machine.deletion {
        MachineDeletion::No => false,
        MachineDeletion::WithoutHook => true,
        MachineDeletion::Since(_) => {
            decision_that_needs_no_proof(inputs, machine, now).is_some_and(GateDecision::is_open)
        }
    }
}

/// The decision of precedence, or of a case that needs no proof. `None` leaves the decision to the rules.
fn decision_that_needs_no_proof(
    inputs: &ReleaseInputs<'_>,
    machine: &ControlPlaneMachine,
    now: Timestamp,
) -> Option<GateDecision> {
    let cluster = inputs.cluster;
    // The controller of the machine applies the mode: it follows these decisions only in the mode `enforce`.
    let precedence = precedence::of_facts(cluster, &machine.gate_override, GateMode::Enforce, now);
    if precedence.is_some() {
        return precedence;
    }
    if !cluster.initialised {
        return Some(GateDecision::Open(GateCause::NeverInitialised));
    }
    // The absence of a server counts only in the project in which the floating IP was found. If the floating IP is
    // still on this machine, no other machine can take it over, and no API server answers there. The deletion of this
    // machine then interrupts no client, so the gate opens even in that case.
    let server = inputs.asked.get(&machine.name).copied().flatten();
    let is_down =
        server.is_some_and(|server| server.is_down_for_good() && !server.is_due(inputs.now));
    is_down.then_some(GateDecision::Open(GateCause::ServerDown))
}

/// Whether the last read showed the server of a machine whose release is asked for as down, and is too old to decide
/// on.
fn needs_server_read(inputs: &ReleaseInputs<'_>, machine: &ControlPlaneMachine) -> bool {
    let server = inputs.asked.get(&machine.name).copied().flatten();
    server.is_some_and(|server| server.down_since.is_some() && server.is_due(inputs.now))
}

/// The decision of the rules.
fn rules<'a>(
    inputs: &ReleaseInputs<'a>,
    machine: &ControlPlaneMachine,
    machines: &[ControlPlaneMachine],
    is_next: bool,
    now: Timestamp,
) -> FloatingIpDecision<'a> {
    use FloatingIpDecision::{Held, Open};
    let holder = match inputs.holder {
        Holder::Machine(holder) if *holder == machine.name => {
            return Held(HoldCause::OnThisMachine);
        }
        Holder::Machine(holder) => holder,
        Holder::Free | Holder::Other => return Held(HoldCause::OnNoMachine),
    };
    if !is_next {
        return Held(HoldCause::AnotherFirst);
    }
    let mut holders = machines.iter().filter(|machine| machine.name == *holder);
    if holders.any(|holder| is_free_to_go(inputs, holder, now)) {
        return Held(HoldCause::HolderLeaves { holder });
    }
    let proof = inputs
        .proof
        .filter(|proof| proof.leaving == machine.name && proof.holder == *holder);
    match proof.and_then(|proof| Some((proof.since, proof.outcome.as_ref()?))) {
        Some((_, ProofOutcome::Served)) => Open(OpenCause::Served { holder }),
        Some((
            since,
            ProofOutcome::Failed {
                message: failure,
                is_unreachable,
            },
        )) => {
            if *is_unreachable && is_reached_by_cluster_api(inputs, since) {
                Open(OpenCause::ReachedByClusterApi { holder, failure })
            } else {
                Held(HoldCause::NotServed { holder, failure })
            }
        }
        None => Held(HoldCause::Requesting),
    }
}

/// Whether Cluster API has reached the API server for long enough, without interruption, in the time in which this
/// process got no answer.
fn is_reached_by_cluster_api(inputs: &ReleaseInputs<'_>, unanswered_since: Instant) -> bool {
    let reached_since = inputs.cluster.remote_connection.true_since();
    reached_since.is_some_and(|since| {
        inputs
            .now
            .saturating_duration_since(since.max(unanswered_since))
            >= WITHOUT_PROOF
    })
}

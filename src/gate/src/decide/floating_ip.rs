//! The gates `release` and `finalizer` of control-plane machines if clients reach the API server by a floating IP on
//! one of the machines. There is no load balancer in this case. The controller that moves the floating IP calls these
//! functions.

use std::{collections::BTreeMap, net::IpAddr, time::Instant};

use jiff::Timestamp;

use crate::{
    decide::{
        precedence::{self, override_text},
        proof::{self, WITHOUT_PROOF},
    },
    model::{
        clock::Now,
        decision::{CLUSTER_DELETING, GateCause, GateDecision, NEVER_INITIALISED, SERVER_DOWN},
        desired::{ClusterFacts, ObservedServer},
        findings::{Gate, MachineFinding},
        floating_ip::{ControlPlaneMachine, Holder, MachineDeletion, MoveProof, ProofOutcome},
        proof::{EndpointResult, Proof, ProofOutcome as SeriesOutcome, Round},
        reply_outcome::ReplyOutcome,
        settings::Settings,
        state::State,
    },
};
use capo_core::{ConditionState, GateMode, ObjectName, Reason};

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
        .filter(|machine| gate_before_rules(inputs, machine, now).is_none())
        .filter_map(|machine| match machine.deletion {
            MachineDeletion::Since(since) => Some((since, machine)),
            MachineDeletion::No | MachineDeletion::WithoutHook => None,
        })
        .min_by(|(a, first), (b, second)| a.cmp(b).then(first.name.cmp(&second.name)))
        .map(|(_, machine)| machine)
}

/// The gates of every machine. A gate that was held before keeps the time since which it is held.
pub fn floating_ip_findings(
    inputs: &ReleaseInputs<'_>,
    machines: &[ControlPlaneMachine],
    before: &BTreeMap<ObjectName, MachineFinding>,
    now: Timestamp,
) -> BTreeMap<ObjectName, MachineFinding> {
    let next = next_release(inputs, machines, now);
    machines
        .iter()
        .map(|machine| {
            let is_next = next.is_some_and(|next| next.name == machine.name);
            let decided = |by_rules: &dyn Fn() -> Gate| {
                gate_before_rules(inputs, machine, now).unwrap_or_else(by_rules)
            };
            let mut gate = match machine.deletion {
                MachineDeletion::Since(_) if inputs.asked.contains_key(&machine.name) => {
                    decided(&|| by_rules(inputs, machine, is_next, now))
                }
                MachineDeletion::No | MachineDeletion::Since(_) => Gate::NOT_EVALUATED,
                MachineDeletion::WithoutHook => decided(&|| {
                    let text = "The deletion hook was removed from the Machine";
                    Gate::open(Reason::MachineReleased, text)
                }),
            };
            let previous = before.get(&machine.name);
            if gate.is_held() {
                let since = previous.and_then(|finding| finding.release.since);
                gate.since = since.or(gate.since);
            }
            let finding = MachineFinding {
                verdict: inputs.ingress.clone(),
                admission: Gate::open(Reason::LoadBalancerDisabled, "No load balancer is managed"),
                release: gate.clone(),
                finalizer: gate,
                needs_server_read: is_server_wanted(inputs, machine),
            };
            (machine.name.clone(), finding)
        })
        .collect()
}

/// The decision of what comes before the rules. `None` leaves the decision to the rules.
fn gate_before_rules(
    inputs: &ReleaseInputs<'_>,
    machine: &ControlPlaneMachine,
    now: Timestamp,
) -> Option<Gate> {
    let cluster = inputs.cluster;
    if let Some(decision) =
        precedence::of_facts(cluster, &machine.gate_override, GateMode::Enforce, now)
    {
        let overrides = [&machine.gate_override, &cluster.gate_override].into_iter();
        let message = match decision {
            GateDecision::Open(_) => CLUSTER_DELETING.to_owned(),
            _ => override_text(overrides, now).unwrap_or_default(),
        };
        return Some(Gate {
            state: decision.state(),
            reason: decision.reason()?,
            message,
            since: matches!(decision, GateDecision::Held(_)).then_some(now),
        });
    }
    if !cluster.initialised {
        let reason = GateCause::NeverInitialised.reason();
        return Some(Gate::open(reason, NEVER_INITIALISED));
    }
    // The absence of a server counts only in the project in which the floating IP was found. If the floating IP is
    // still on this machine, no other machine can take it over, and no API server answers there. The deletion of this
    // machine then interrupts no client, so the gate opens even in that case.
    let server = inputs.asked.get(&machine.name).copied().flatten();
    let is_down =
        server.is_some_and(|server| server.is_down_for_good() && !server.is_due(inputs.now));
    is_down.then(|| Gate::open(GateCause::ServerDown.reason(), SERVER_DOWN))
}

/// Whether the last read showed the server of a machine whose release is asked for as down, and is too old to decide
/// on.
fn is_server_wanted(inputs: &ReleaseInputs<'_>, machine: &ControlPlaneMachine) -> bool {
    let server = inputs.asked.get(&machine.name).copied().flatten();
    server.is_some_and(|server| server.down_since.is_some() && server.is_due(inputs.now))
}

/// The decision of the rules.
fn by_rules(
    inputs: &ReleaseInputs<'_>,
    machine: &ControlPlaneMachine,
    is_next: bool,
    now: Timestamp,
) -> Gate {
    let held = |message: String| Gate::held(Reason::FloatingIPError, message, now);
    let address = inputs.address;
    let holder = match inputs.holder {
        Holder::Machine(holder) if *holder == machine.name => {
            return held(format!(
                "The API server's floating IP {address} is on this machine. It is moved as soon as another \
                 control-plane machine that is not being deleted has an ACTIVE server and a healthy API server"
            ));
        }
        Holder::Machine(holder) => holder,
        Holder::Free | Holder::Other => {
            return held(format!(
                "The API server's floating IP {address} is on no control-plane machine, so no machine is deleted"
            ));
        }
    };
    if !is_next {
        return held("Another control-plane machine is released first".to_owned());
    }
    let proof = inputs
        .proof
        .filter(|proof| proof.leaving == machine.name && proof.holder == *holder);
    match proof.map(|proof| (proof, &proof.outcome)) {
        Some((_, Some(ProofOutcome::Served))) => Gate::open(
            Reason::MachineReleased,
            format!(
                "The API server answers at {address}, which is on machine {}",
                holder.name
            ),
        ),
        Some((
            proof,
            Some(ProofOutcome::Failed {
                message,
                is_unreachable,
            }),
        )) => {
            let reached_since = inputs
                .cluster
                .remote_connection
                .true_since()
                .map(|since| since.max(proof.since));
            let is_reached = reached_since
                .is_some_and(|since| inputs.now.saturating_duration_since(since) >= WITHOUT_PROOF);
            if *is_unreachable && is_reached {
                return Gate::open(
                    Reason::MachineReleased,
                    format!(
                        "Cluster API has reached the API server for {} s since floating IP {address} was moved to machine {}; \
                         a proof was not possible: {message}",
                        WITHOUT_PROOF.as_secs(),
                        holder.name
                    ),
                );
            }
            held(format!(
                "Floating IP {address} is on machine {}, and no API server answers there: {message}",
                holder.name
            ))
        }
        None | Some((_, None)) => held(format!(
            "Requests to the API server at {address} are under way"
        )),
    }
}

//! Makes the findings about control-plane machines if clients reach the API server by a floating IP on one of them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    decide::{
        floating_ip::{ReleaseInputs, decide},
        proof::WITHOUT_PROOF,
    },
    model::{
        decision::{
            CLUSTER_DELETING, GateCause, GateDecision, NEVER_INITIALISED, PAUSED, SERVER_DOWN,
        },
        findings::{Gate, MachineFinding},
        floating_ip::{
            ControlPlaneMachine, FloatingIpDecision, HoldCause, MachineDecision, OpenCause,
        },
    },
    report::messages::override_text,
};
use capo_core::{ObjectName, Reason};

/// The findings about every machine. A gate that was held before keeps the time since which it is held.
pub fn floating_ip_findings(
    inputs: &ReleaseInputs<'_>,
    machines: &[ControlPlaneMachine],
    before: &BTreeMap<ObjectName, MachineFinding>,
    now: Timestamp,
) -> BTreeMap<ObjectName, MachineFinding> {
    decide(inputs, machines, now)
        .into_iter()
        .map(|decision| {
            let name = &decision.machine.name;
            let mut gate = gate(inputs, &decision, now);
            if gate.is_held() {
                let since = before.get(name).and_then(|finding| finding.release.since);
                gate.since = since.or(gate.since);
            }
            let finding = MachineFinding {
                verdict: inputs.ingress.clone(),
                admission: Gate::open(Reason::LoadBalancerDisabled, "No load balancer is managed"),
                release: gate.clone(),
                finalizer: gate,
                needs_server_read: decision.needs_server_read,
            };
            (name.clone(), finding)
        })
        .collect()
}

fn gate(inputs: &ReleaseInputs<'_>, decision: &MachineDecision<'_>, now: Timestamp) -> Gate {
    match decision.release {
        FloatingIpDecision::General(general) => {
            let Some(reason) = general.reason() else {
                return Gate::NOT_EVALUATED;
            };
            Gate {
                state: general.state(),
                reason,
                message: general_cause(inputs, decision.machine, general, now),
                since: matches!(general, GateDecision::Held(_)).then_some(now),
            }
        }
        FloatingIpDecision::Open(cause) => {
            Gate::open(Reason::MachineReleased, open_cause(inputs.address, cause))
        }
        FloatingIpDecision::Held(cause) => Gate::held(
            Reason::FloatingIPError,
            hold_cause(inputs.address, cause),
            now,
        ),
    }
}

fn general_cause(
    inputs: &ReleaseInputs<'_>,
    machine: &ControlPlaneMachine,
    decision: GateDecision,
    now: Timestamp,
) -> String {
    let sentence = match decision {
        GateDecision::Open(GateCause::NeverInitialised) => NEVER_INITIALISED,
        GateDecision::Open(GateCause::ServerDown) => SERVER_DOWN,
        GateDecision::Open(_) => CLUSTER_DELETING,
        GateDecision::Held(GateCause::Paused) => PAUSED,
        _ => {
            let overrides = [&machine.gate_override, &inputs.cluster.gate_override];
            return override_text(overrides.into_iter(), now).unwrap_or_default();
        }
    };
    sentence.to_owned()
}

fn open_cause(address: &str, cause: OpenCause<'_>) -> String {
    match cause {
        OpenCause::HookRemoved => "The deletion hook was removed from the Machine".to_owned(),
        OpenCause::Served { holder } => format!(
            "The API server answers at {address}, which is on machine {}",
            holder.name
        ),
        OpenCause::ReachedByClusterApi { holder, failure } => format!(
            "Cluster API has reached the API server for {} s since floating IP {address} was moved to machine {}; \
             a proof was not possible: {failure}",
            WITHOUT_PROOF.as_secs(),
            holder.name
        ),
    }
}

fn hold_cause(address: &str, cause: HoldCause<'_>) -> String {
    match cause {
        HoldCause::OnThisMachine => format!(
            "The API server's floating IP {address} is on this machine. It is moved as soon as another \
             control-plane machine that is not being deleted has an ACTIVE server and a healthy API server"
        ),
        HoldCause::OnNoMachine => format!(
            "The API server's floating IP {address} is on no control-plane machine, so no machine is deleted"
        ),
        HoldCause::AnotherFirst => "Another control-plane machine is released first".to_owned(),
        HoldCause::HolderLeaves { holder } => format!(
            "Floating IP {address} is on machine {}, which is being deleted too and is not held any more",
            holder.name
        ),
        HoldCause::Requesting => {
            format!("Requests to the API server at {address} are under way")
        }
        HoldCause::NotServed { holder, failure } => format!(
            "Floating IP {address} is on machine {}, and no API server answers there: {failure}",
            holder.name
        ),
    }
}

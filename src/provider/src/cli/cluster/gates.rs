//! The gate that each machine is at, and the state of that gate, as the conditions of the objects report it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use crate::{
    kubernetes::conditions::{kind::API_SERVER_LOAD_BALANCER_READY, status_of},
    reconcile::{capi::Machine, deletion_hooks::Hooks},
};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::{ConditionStatus, GateState, Reason};
use capo_gate::GateName;

/// One gate and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GateView {
    /// `admission`, `release` or `finalizer`; absent for the cluster as a whole.
    #[serde(rename = "gate", skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'static str>,
    pub(super) state: GateState,
    pub(super) reason: String,
    pub(super) message: String,
    /// The time at which the condition got its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
}

/// The condition that reports the gate.
pub(super) fn condition(conditions: &[Condition]) -> Option<&Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == API_SERVER_LOAD_BALANCER_READY)
}

fn of_condition(gate: Option<GateName>, condition: Option<&Condition>) -> GateView {
    let Some(condition) = condition else {
        return GateView {
            name: gate.map(GateName::as_str),
            state: GateState::Unknown,
            reason: Reason::NotYetObserved.as_str().to_owned(),
            message: "The manager has not read the load balancer yet".to_owned(),
            since: None,
        };
    };
    let bypassed = condition.reason == Reason::OperatorBypass.as_str();
    let state = match status_of(condition) {
        ConditionStatus::True if bypassed => GateState::Bypassed,
        ConditionStatus::True => GateState::Open,
        ConditionStatus::False => GateState::Held,
        ConditionStatus::Unknown => GateState::Unknown,
    };
    GateView {
        name: gate.map(GateName::as_str),
        state,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: Some(condition.last_transition_time.0),
    }
}

/// The gate that a machine is at; `None` if the machine is at no gate.
pub(super) fn of_machine(object: &OpenStackMachine, machine: Option<&Machine>) -> Option<GateView> {
    let status = object.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let condition = condition(conditions);
    let control_plane =
        machine.is_some_and(|machine| machine.is_control_plane(None)) || condition.is_some();
    if !control_plane {
        return None;
    }
    let provisioned = status
        .and_then(|status| status.initialization.as_ref()?.provisioned)
        .unwrap_or_default();
    let releasing =
        machine.is_some_and(|machine| machine.is_deleting() && Hooks::on(&machine.metadata).any());
    let gate = if releasing {
        GateName::Release
    } else if object.metadata.deletion_timestamp.is_some() {
        GateName::Finalizer
    } else if !provisioned {
        GateName::Admission
    } else {
        return None;
    };
    Some(of_condition(Some(gate), condition))
}

/// The gate of the cluster as a whole: the gate of a waiting machine, or else that of the load balancer. `machines` are
/// the names of the machines that are at a gate.
pub(super) fn of_cluster(conditions: &[Condition], machines: &[(&str, &GateView)]) -> GateView {
    let own = of_condition(None, condition(conditions));
    let longest_waiting = |state: GateState| {
        machines
            .iter()
            .filter(|(_, gate)| gate.state == state)
            .min_by_key(|(_, gate)| gate.since)
            .map(|(machine, gate)| GateView {
                message: format!("{machine}: {}", gate.message),
                ..(*gate).clone()
            })
    };
    if own.state == GateState::Unknown {
        return own;
    }
    if let Some(held) = longest_waiting(GateState::Held) {
        return held;
    }
    if own.state == GateState::Held {
        return own;
    }
    longest_waiting(GateState::Unknown)
        .or_else(|| longest_waiting(GateState::Bypassed))
        .unwrap_or(own)
}

//! Builds the status of a server after a pass. The functions are pure.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Progress, StepResult,
    floating_ip::FloatingAddress,
    server_state::{node_addresses, outcome},
};
use crate::{
    controllers::Outcome,
    kubernetes::conditions::{Conditions, kind},
};
use capo_api::{
    v1alpha1::{OpenStackServer, OpenStackServerStatus},
    v1beta2::{MachineResources, NodeAddress, PortStatus},
};
use capo_core::FailureClass;
use capo_core::{ConditionState, ConditionStatus, Reason};
use capo_openstack::compute::{Server, ServerStatus};

/// The result of one pass, as far as the status shows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report<'a> {
    /// Whether the object is paused.
    pub paused: bool,
    /// Whether OpenStack accepts the credentials; `None` if no sign-in was tried.
    pub authentication: Option<ConditionState>,
    /// The outcome of the pass.
    pub outcome: &'a Outcome,
    /// What is known of its OpenStack objects.
    pub progress: &'a Progress,
    /// The server as read in this pass.
    pub server: Option<&'a Server>,
    /// Whether Nova has no server with the known id.
    pub lost: bool,
    /// What is known of the floating IP from a pool.
    pub floating: &'a FloatingAddress,
    /// Whether the ports of an existing server are as the spec wants them; `None` if they were not compared.
    pub ports: Option<&'a StepResult<()>>,
}

/// Builds the status after a pass.
pub(super) fn status(object: &OpenStackServer, report: &Report<'_>, now: Timestamp) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    if report.paused {
        conditions.set(kind::PAUSED, &ConditionState::met(Reason::Paused));
    } else {
        conditions.set(kind::PAUSED, &ConditionState::unmet(Reason::NotPaused, ""));
        let pooled = object.spec.floating_ip_pool_ref.is_some();
        write(&mut status, &mut conditions, report, pooled);
    }
    let unseen = |what: &str| ConditionState::unknown(Reason::NotYetObserved, what);
    conditions.set_if_absent(
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        &unseen("No request to OpenStack has been made yet"),
    );
    conditions.set_if_absent(
        kind::INSTANCE_READY,
        &unseen("The server has not been read yet"),
    );
    let mut counted = vec![
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        kind::INSTANCE_READY,
    ];
    if object.spec.floating_ip_pool_ref.is_some() {
        conditions.set_if_absent(
            kind::FLOATING_ADDRESS_FROM_POOL_READY,
            &unseen("The floating IP has not been read yet"),
        );
        counted.push(kind::FLOATING_ADDRESS_FROM_POOL_READY);
    }
    if conditions.get(kind::PORTS_READY).is_some() {
        counted.push(kind::PORTS_READY);
    }
    conditions.sum_up(&counted);
    // Until the pass is done, the status does not count as that of this generation, because Ready may still describe
    // the former state.
    if !report.paused && *report.outcome == Outcome::Done {
        status.observed_generation = Some(generation);
    }
    status.conditions = conditions.into_list();
    serde_json::to_value(&status).unwrap_or_default()
}

fn write(
    status: &mut OpenStackServerStatus,
    conditions: &mut Conditions,
    report: &Report<'_>,
    pooled: bool,
) {
    if let Some(verdict) = &report.authentication {
        conditions.set(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED, verdict);
    }
    match report.ports {
        Some(Ok(())) => conditions.remove(kind::PORTS_READY),
        Some(Err(error)) => {
            conditions.set(kind::PORTS_READY, &error.state);
        }
        None => {}
    }
    if let Some(verdict) = &report.floating.state {
        conditions.set(kind::FLOATING_ADDRESS_FROM_POOL_READY, verdict);
    }
    let known = conditions.get(kind::INSTANCE_READY).is_some();
    if let Some(verdict) = instance(report, known) {
        conditions.set(kind::INSTANCE_READY, &verdict);
        // A server becomes ready only once it has the floating IP from its pool, but stays ready if it loses that
        // address.
        let complete =
            status.ready || !pooled || conditions.is_true(kind::FLOATING_ADDRESS_FROM_POOL_READY);
        status.ready = verdict.status == ConditionStatus::True && complete;
    }
    status.resolved.clone_from(&report.progress.resolved);
    status.instance_id = report.progress.instance_id.clone().map(Into::into);
    status.resources = (!report.progress.port_ids.is_empty()).then(|| MachineResources {
        ports: report
            .progress
            .port_ids
            .iter()
            .map(|id| PortStatus { id: id.to_string() })
            .collect(),
    });
    if let Some(server) = report.server {
        status.instance_state = Some(server.status.as_str().to_owned());
        status.addresses = node_addresses(server);
        add_floating(&mut status.addresses, report.floating);
    } else if report.lost {
        status.instance_state = Some(ServerStatus::Deleted.as_str().to_owned());
    }
}

/// Adds the floating IP, because Nova shows it only some seconds after Neutron has put it on the port.
fn add_floating(addresses: &mut Vec<NodeAddress>, floating: &FloatingAddress) {
    let Some(ip) = floating.on_server else {
        return;
    };
    let address = ip.to_string();
    if !addresses.iter().any(|known| known.address == address) {
        let before_the_name = addresses.len().saturating_sub(1);
        let type_ = "ExternalIP".to_owned();
        addresses.insert(before_the_name, NodeAddress { type_, address });
    }
}

/// The condition `InstanceReady`; `None` leaves it as it is. If OpenStack does not answer, that says nothing about a
/// server that was seen before.
fn instance(report: &Report<'_>, known: bool) -> Option<ConditionState> {
    // An error about the floating IP or the ports is not about the server, so the server's own state is used instead.
    let apart = report.floating.state.is_some() || matches!(report.ports, Some(Err(_)));
    let of_server = report.server.filter(|_| apart).map(outcome);
    match of_server.as_ref().unwrap_or(report.outcome) {
        Outcome::Done => Some(ConditionState::met(Reason::Ready)),
        Outcome::Wait {
            reason, message, ..
        } => {
            let uncertain = report.server.is_some_and(|server| {
                !matches!(
                    server.status,
                    ServerStatus::Build
                        | ServerStatus::Error
                        | ServerStatus::Shutoff
                        | ServerStatus::Deleted
                        | ServerStatus::SoftDeleted
                        | ServerStatus::Active
                )
            });
            Some(if uncertain {
                ConditionState::unknown(*reason, message.clone())
            } else {
                ConditionState::unmet(*reason, message.clone())
            })
        }
        Outcome::Failed {
            class,
            reason,
            message,
            ..
        } => match class {
            FailureClass::NotSent => None,
            FailureClass::Transient
            | FailureClass::Throttled
            | FailureClass::Auth
            | FailureClass::NoService
                if known =>
            {
                None
            }
            _ => Some(ConditionState::unmet(*reason, message.clone())),
        },
    }
}

#[cfg(test)]
mod tests;

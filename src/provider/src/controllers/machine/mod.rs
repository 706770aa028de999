//! The controller of `OpenStackMachine`: the server of one Machine, and this machine's part in the gates.
//!
//! A pass ([`pass()`]) reads the objects around the machine ([`observe`]), publishes the member that the machine
//! needs to the load balancer's worker ([`desired_member`]), creates and updates its `OpenStackServer` ([`act`],
//! [`server_object`]), carries out what the gates decided ([`plan`]) and writes the status ([`status`], [`report`]). It
//! sends no request to OpenStack, so that a slow cloud does not slow down the passes over machines.

pub(super) mod act;
mod address_pairs;
mod delete;
mod desired_member;
mod floating_ip;
mod health;
mod observe;
mod pass;
mod plan;
mod report;
mod server_object;
mod status;

pub(super) use health::MachineHealth;
pub(super) use pass::{ensure_server_may_be_deleted, pass};

use crate::{
    kubernetes::conditions::kind,
    reconcile::{StepError, StepResult, finalizer::OPENSTACK_MACHINE as FINALIZER},
};

/// The name of this controller in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackmachine";

/// The error of a request to the Kubernetes API.
fn kubernetes_failed(doing: &str, error: &kube::Error) -> StepError {
    StepError::kubernetes(kind::READY, doing, error)
}

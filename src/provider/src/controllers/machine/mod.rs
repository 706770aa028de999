//! `OpenStackMachine`: the server of one Machine, and this machine's side of the gates.
//!
//! A pass looks at the objects around the machine ([`observe`]), hands what it knows to the load
//! balancer's task ([`handover`]), sees to its `OpenStackServer` ([`translate`]), asks the gates
//! ([`gate`]) and tells what came of it ([`report`]). It makes no OpenStack call of its own, so a cloud
//! that is slow or silent slows down no machine.

mod delete;
mod gate;
mod handover;
mod health;
mod observe;
mod pass;
mod report;
mod server_object;
mod translate;

pub(super) use health::MachineHealth;
pub(super) use pass::{may_server_go, pass};

use super::Outcome;

/// Keeps the object until its server is gone and its load balancer members went before.
pub const FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io";

/// The name of this controller in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackmachine";

/// The end of a step: its result, or how the pass ends instead.
type Step<T> = Result<T, Outcome>;

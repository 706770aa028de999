//! `OpenStackServer`: one server with its ports, trunks and volumes, for machines and bastions alike.
//!
//! A pass resolves the names in the spec once ([`resolve`]), finds what is there already, makes what is
//! missing ([`ports`], [`volumes`], [`instance`]), and tells what it saw ([`report`]). Making a server
//! takes many passes: nothing is ever waited for within one. A server that was there and is gone is
//! never made again: its Machine is to be replaced.

pub(super) mod boot;
mod delete;
mod filters;
mod instance;
mod memory;
pub mod names;
mod ownership;
mod pass;
mod ports;
mod report;
mod resolve;
pub mod sight;
mod volumes;

use std::collections::BTreeMap;

pub(super) use memory::Memory;
pub(super) use pass::pass;

use super::Outcome;
use crate::reconcile::reason_of;
use capo_api::v1alpha1::{OpenStackServer, ResolvedServerSpec};
use capo_core::FailureClass;
use capo_core::{ObjectName, Reason};
use capo_openstack::Error;

/// Keeps the object until everything that was made for it is gone.
pub const FINALIZER: &str = "openstackserver.infrastructure.cluster.x-k8s.io";

/// The name of this controller in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackserver";

/// The end of a step: its result, or how the pass ends instead.
type Step<T> = Result<T, Outcome>;

/// What is known of a server's OpenStack objects. It goes into the status whatever a pass ends in, so
/// that nothing half-made is lost.
#[derive(Debug, Clone, PartialEq, Default)]
struct Progress {
    /// What the names in the spec mean.
    resolved: Option<ResolvedServerSpec>,
    /// The ports, in order.
    port_ids: Vec<String>,
    /// The server.
    instance_id: Option<String>,
}

impl Progress {
    fn of(object: &OpenStackServer) -> Self {
        let Some(status) = &object.status else {
            return Self::default();
        };
        Self {
            resolved: status.resolved.clone(),
            port_ids: status
                .resources
                .iter()
                .flat_map(|resources| &resources.ports)
                .map(|port| port.id.clone())
                .collect(),
            instance_id: status.instance_id.clone().filter(|id| !id.is_empty()),
        }
    }
}

/// OpenStack objects that other `OpenStackServer`s of the same name hold. Names of servers and ports
/// have no namespace, so two objects can ask for the same one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Claims {
    servers: BTreeMap<String, ObjectName>,
    ports: BTreeMap<String, ObjectName>,
}

impl Claims {
    /// What `others` hold.
    fn of<'a>(others: impl Iterator<Item = (&'a ObjectName, &'a OpenStackServer)>) -> Self {
        let mut claims = Self::default();
        for (name, other) in others {
            let progress = Progress::of(other);
            if let Some(id) = progress.instance_id {
                claims.servers.insert(id, name.clone());
            }
            for id in progress.port_ids {
                claims.ports.insert(id, name.clone());
            }
        }
        claims
    }

    fn server(&self, id: &str) -> Option<&ObjectName> {
        self.servers.get(id)
    }

    fn has_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    fn port(&self, id: &str) -> Option<&ObjectName> {
        self.ports.get(id)
    }
}

/// A call that failed. Trouble with the cloud as a whole has a reason of its own, wherever it comes from;
/// `refused` is the reason for everything else.
fn failed(error: &Error, refused: Reason) -> Outcome {
    Outcome::Failed {
        class: error.class(),
        reason: reason_of(error.class()).unwrap_or(refused),
        message: error.to_string(),
        retry_after: error.retry_after(),
    }
}

/// A spec leaves open what it has to say.
fn missing(field: &str, wanted: &str) -> Outcome {
    Outcome::failed(
        FailureClass::Invalid,
        Reason::InvalidSpec,
        format!("{field}: needs {wanted}"),
    )
}

/// Kubernetes did not answer as it should.
pub(super) fn kubernetes_failed(doing: &str, error: &kube::Error) -> Outcome {
    Outcome::kubernetes(doing, error)
}

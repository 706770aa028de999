//! `OpenStackServer`: one server with its ports, trunks and volumes, for machines and bastions alike.
//!
//! A pass ([`reconcile`]) reads what exists ([`observe`]), refuses what can't be ([`validate`]), decides ([`plan`]), creates what
//! is missing ([`act`]: [`ports`], [`block_devices`], [`instance`]) and shows it ([`report`]). The names in the spec are resolved
//! once ([`resolve`]). Creating a server takes many passes, because no pass waits for OpenStack. A server that existed and is
//! gone is never created again: its Machine has to be replaced.

mod act;
mod address_pairs;
mod block_devices;
mod caches;
mod creations;
mod delete;
mod filters;
mod floating_ip;
pub(super) mod image_and_flavor;
pub(super) mod image_objects;
mod instance;
pub mod observation;
mod observe;
mod ownership;
mod plan;
mod ports;
mod reconcile;
mod report;
mod resolve;
mod server_group;
mod server_state;
mod validate;

use std::{collections::BTreeMap, time::Duration};

pub(super) use caches::ServerCaches;
pub(super) use reconcile::pass;

use super::Outcome;
use crate::{
    kubernetes::conditions::kind,
    reconcile::{StepError, StepResult, reason_of},
};
use capo_api::v1alpha1::{OpenStackServer, ResolvedServerSpec};
use capo_core::FailureClass;
use capo_core::ids::{PortId, ServerId};
use capo_core::{ObjectName, Reason};
use capo_openstack::Error;

/// Keeps the object until everything that was made for it is gone.
pub const FINALIZER: &str = "openstackserver.infrastructure.cluster.x-k8s.io";

/// The name of this controller in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackserver";

/// What is known of a server's OpenStack objects. It goes into the status whatever a pass ends in, so
/// that nothing half-made is lost.
#[derive(Debug, Clone, PartialEq, Default)]
struct Progress {
    /// What the names in the spec mean.
    resolved: Option<ResolvedServerSpec>,
    /// The ports, in order.
    port_ids: Vec<PortId>,
    /// The server.
    instance_id: Option<ServerId>,
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
                .map(|port| port.id.clone().into())
                .collect(),
            instance_id: status
                .instance_id
                .clone()
                .filter(|id| !id.is_empty())
                .map(Into::into),
        }
    }

    /// Completes what the status shows by what the last pass has written.
    fn completed_by(&mut self, written: Self) {
        // The id of a managed server group is added later than the rest.
        self.resolved = written.resolved.or_else(|| self.resolved.take());
        if self.port_ids.len() < written.port_ids.len() {
            self.port_ids = written.port_ids;
        }
        self.instance_id = self.instance_id.take().or(written.instance_id);
    }
}

/// OpenStack objects that other `OpenStackServer`s of the same name hold. Names of servers and ports
/// have no namespace, so two objects can ask for the same one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Claims {
    servers: BTreeMap<ServerId, ObjectName>,
    ports: BTreeMap<PortId, ObjectName>,
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

    fn server(&self, id: &ServerId) -> Option<&ObjectName> {
        self.servers.get(id)
    }

    fn has_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    fn port(&self, id: &PortId) -> Option<&ObjectName> {
        self.ports.get(id)
    }
}

/// A call that failed. Trouble with the cloud as a whole has a reason of its own, wherever it comes from;
/// `refused` is the reason for everything else.
fn failed(error: &Error, refused: Reason) -> StepError {
    StepError::of(
        kind::INSTANCE_READY,
        Outcome::Failed {
            class: error.class(),
            reason: reason_of(error.class()).unwrap_or(refused),
            message: error.to_string(),
            retry_after: error.retry_after(),
        },
    )
}

/// Something is wrong that is not a single call's error.
fn failure(class: FailureClass, reason: Reason, message: impl Into<String>) -> StepError {
    StepError::failed(kind::INSTANCE_READY, class, reason, message)
}

/// Something takes time; the next pass starts after `after`.
fn wait(reason: Reason, message: impl Into<String>, after: Duration) -> StepError {
    StepError::wait(kind::INSTANCE_READY, reason, message, after)
}

/// A spec leaves open what it has to say.
fn missing(field: &str, wanted: &str) -> StepError {
    failure(
        FailureClass::Invalid,
        Reason::InvalidSpec,
        format!("{field}: needs {wanted}"),
    )
}

/// Several objects match, or the one that matches belongs to another object.
fn ambiguous(message: impl Into<String>) -> StepError {
    failure(FailureClass::Invalid, Reason::AmbiguousMatch, message)
}

/// A call of the Kubernetes API failed.
fn kubernetes_failed(doing: &str, error: &kube::Error) -> StepError {
    StepError::kubernetes(kind::INSTANCE_READY, doing, error)
}

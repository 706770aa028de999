//! What the steps of one pass share: the cloud, what is desired, what is known, and who is told.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

use super::desired::DesiredCluster;
use crate::kubernetes::events::Events;
use crate::reconcile::{StepError, StepResult};
use capo_core::Priority;
use capo_core::Reason;
use capo_core::ids::ProjectId;
use capo_openstack::{Cloud, network::Tagged};

/// What the steps of one pass share.
pub(crate) struct StepContext<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The credentials' project: what we look for by name is looked for in it alone.
    pub project: ProjectId,
    /// What the object asks for.
    pub desired: &'a DesiredCluster,
    /// Ids from the status. They are hints: what they point to is read before it is used.
    pub known: KnownIds,
    /// A control-plane Machine was admitted, so that the network must exist.
    pub machine_admitted: bool,
    /// How soon to look again for what is being deleted.
    pub pause: Duration,
    /// Where events go.
    pub events: &'a Events,
    /// The object, for events.
    pub object: &'a ObjectReference,
}

/// Ids from the status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KnownIds {
    /// `status.network.id`
    pub network: Option<String>,
    /// `status.network.subnets[0].id`
    pub subnet: Option<String>,
    /// `status.externalNetwork.id`
    pub external_network: Option<String>,
    /// `status.router.id`
    pub router: Option<String>,
    /// `status.apiServerManagedLoadBalancer.id`
    pub load_balancer: Option<String>,
    /// `status.apiServerManagedLoadBalancer.internalIP`
    pub vip: Option<std::net::IpAddr>,
    /// `status.apiServerManagedLoadBalancer.ip`
    pub floating_ip: Option<std::net::IpAddr>,
    /// `status.controlPlaneSecurityGroup.id`
    pub control_plane_group: Option<String>,
    /// `status.workerSecurityGroup.id`
    pub worker_group: Option<String>,
    /// `status.bastionSecurityGroup.id`
    pub bastion_group: Option<String>,
    /// `status.bastion.floatingIP`, which has the same description as ours.
    pub bastion_floating_ip: Option<std::net::IpAddr>,
}

impl StepContext<'_> {
    /// What is being deleted is there still.
    pub(crate) fn still_deleting(
        &self,
        condition: &'static str,
        message: impl Into<String>,
    ) -> StepError {
        StepError::wait(condition, Reason::Deleting, message, self.pause)
    }

    /// Tells that something was made.
    pub(crate) fn created(&self, kind: &str, name: &str, id: &str) {
        tracing::info!(resource = kind, name, id, "Created in OpenStack");
        let note = format!("Created {kind} {name} with id {id}");
        self.events
            .normal(self.object, Reason::Created, "Create", &note);
    }

    /// Tells that something was deleted.
    pub(crate) fn deleted(&self, kind: &str, name: &str, id: &str) {
        tracing::info!(resource = kind, name, id, "Deleted in OpenStack");
        let note = format!("Deleted {kind} {name} with id {id}");
        self.events
            .normal(self.object, Reason::Deleted, "Delete", &note);
    }

    /// Reports that the cloud's default is used in place of a provider or flavor that it does not have.
    pub(crate) fn warn_default(&self, field: &str, found: &str, right: &str) {
        let note = format!(
            "OpenStackCluster {}: spec.apiServer.managedLoadBalancer.{field} is \"{found}\", which this cloud's load \
             balancing does not have, so its default is used; {right}",
            self.desired.object
        );
        self.events
            .warning(self.object, Reason::DependencyNotFound, "Create", &note);
    }

    /// Reports that something was changed.
    pub(crate) fn updated(&self, kind: &str, name: &str, id: &str, change: &str) {
        tracing::info!(resource = kind, name, id, change, "Updated in OpenStack");
        let note = format!("Updated {kind} {name} with id {id}: {change}");
        self.events
            .normal(self.object, Reason::Updated, "Update", &note);
    }

    /// Sees to it that an object of ours carries the tags it should, and leaves further ones alone.
    pub(crate) async fn tag(
        &self,
        condition: &'static str,
        object: Tagged<'_>,
        present: &[String],
    ) -> StepResult<()> {
        let missing = |tag: &&String| !present.contains(tag);
        if !self.desired.tags.iter().any(|tag| missing(&tag)) {
            return Ok(());
        }
        let all: Vec<String> = present
            .iter()
            .chain(self.desired.tags.iter().filter(missing))
            .cloned()
            .collect();
        match self
            .cloud
            .replace_tags(object, &all, Priority::Settling)
            .await
        {
            Ok(()) => Ok(()),
            // A Neutron without tags on this kind: nothing depends on them.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(StepError::cloud(
                condition,
                Reason::OpenStackError,
                "Setting tags",
                &error,
            )),
        }
    }
}

//! What the steps of one pass share: the cloud, the desired state, the known ids, and the events. It is separate from
//! the pass for two reasons: a pass changes what it has read and reports while its steps use the context, and a pass
//! without credentials has no such context.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;

use super::desired::DesiredCluster;
use crate::kubernetes::events::{CloudObject, Events, Verb};
use crate::reconcile::{
    StepError, StepResult, creations::Creations, server_names::with_missing_tags,
};
use capo_api::v1beta2::{OpenStackCluster, OpenStackClusterStatus};
use capo_core::Priority;
use capo_core::Reason;
use capo_core::ids::{LoadBalancerId, NetworkId, ProjectId, RouterId, SecurityGroupId, SubnetId};
use capo_openstack::{Cloud, Error, network::Tagged};

/// An object that is created in OpenStack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewObject<'a> {
    /// The condition that shows a wait for an earlier creation.
    pub condition: &'static str,
    /// The kind of the object.
    pub kind: CloudObject,
    /// Its name.
    pub name: &'a str,
}

/// What the steps of one pass share.
pub(crate) struct StepContext<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials. Lookups by name are restricted to this project.
    pub project: ProjectId,
    /// The desired state, from the object's spec.
    pub desired: &'a DesiredCluster,
    /// The ids from the status. They are hints: an object is read before its id is used.
    pub known: KnownIds,
    /// Whether a control-plane Machine was admitted, so the network must exist already.
    pub machine_admitted: bool,
    /// The time until the cluster is reconciled again while something is being deleted.
    pub pause: Duration,
    /// The recorder of events.
    pub events: &'a Events,
    /// The object that events refer to.
    pub object: ObjectReference,
    /// The recorder of what is created in OpenStack.
    pub creations: Creations<OpenStackCluster>,
    /// Whether a step has changed anything in OpenStack.
    pub has_changed: AtomicBool,
}

/// Ids from the status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KnownIds {
    /// `status.network.id`
    pub network: Option<NetworkId>,
    /// `status.network.subnets[0].id`
    pub subnet: Option<SubnetId>,
    /// `status.externalNetwork.id`
    pub external_network: Option<NetworkId>,
    /// `status.router.id`
    pub router: Option<RouterId>,
    /// `status.apiServerManagedLoadBalancer.id`
    pub load_balancer: Option<LoadBalancerId>,
    /// `status.apiServerManagedLoadBalancer.internalIP`
    pub vip: Option<std::net::IpAddr>,
    /// `status.apiServerManagedLoadBalancer.ip`
    pub floating_ip: Option<std::net::IpAddr>,
    /// `status.controlPlaneSecurityGroup.id`
    pub control_plane_group: Option<SecurityGroupId>,
    /// `status.workerSecurityGroup.id`
    pub worker_group: Option<SecurityGroupId>,
    /// `status.bastionSecurityGroup.id`
    pub bastion_group: Option<SecurityGroupId>,
    /// `status.bastion.floatingIP`. That floating IP has the same description as the API server's.
    pub bastion_floating_ip: Option<std::net::IpAddr>,
}

impl KnownIds {
    /// The ids in this status.
    pub(crate) fn of(status: &OpenStackClusterStatus) -> Self {
        let network = status.network.as_ref();
        let balancer = status.api_server_managed_load_balancer.as_ref();
        let floating = balancer
            .filter(|lb| lb.ip != lb.internal_ip)
            .and_then(|lb| lb.ip.as_deref());
        let bastion = status
            .bastion
            .as_ref()
            .and_then(|b| b.floating_ip.as_deref());
        Self {
            network: network.and_then(|n| n.id.clone()).map(Into::into),
            subnet: network
                .and_then(|n| n.subnets.first())
                .map(|s| s.id.clone().into()),
            external_network: status
                .external_network
                .as_ref()
                .map(|n| n.id.clone().into()),
            router: status.router.as_ref().map(|r| r.id.clone().into()),
            load_balancer: balancer.and_then(|lb| lb.id.clone()).map(Into::into),
            vip: balancer
                .and_then(|lb| lb.internal_ip.as_deref())
                .and_then(|ip| ip.parse().ok()),
            floating_ip: floating.and_then(|ip| ip.parse().ok()),
            control_plane_group: status
                .control_plane_security_group
                .as_ref()
                .map(|g| g.id.clone().into()),
            worker_group: status
                .worker_security_group
                .as_ref()
                .map(|g| g.id.clone().into()),
            bastion_group: status
                .bastion_security_group
                .as_ref()
                .map(|g| g.id.clone().into()),
            bastion_floating_ip: bastion.and_then(|ip| ip.parse().ok()),
        }
    }
}

impl StepContext<'_> {
    /// Returns a wait for a deletion.
    pub(crate) fn await_deletion(&self, condition: &'static str, message: String) -> StepError {
        StepError::wait(condition, Reason::Deleting, message, self.pause)
    }

    /// Returns a wait for an object that is being deleted.
    pub(crate) fn still_deleting(
        &self,
        condition: &'static str,
        kind: &str,
        name: &str,
    ) -> StepError {
        self.await_deletion(condition, format!("{kind} {name} is being deleted"))
    }

    /// Returns a wait if OpenStack reports the object as in use, and a failure of the step for any other error.
    pub(crate) fn in_use(
        &self,
        condition: &'static str,
        ordinary: Reason,
        doing: &str,
        error: &Error,
    ) -> StepError {
        if error.class().is_conflict() {
            let message = format!("{doing} waits for what uses it: {error}");
            return self.await_deletion(condition, message);
        }
        StepError::cloud(condition, ordinary, doing, error)
    }

    /// Creates an object in OpenStack by sending `request`, and reports the answer. The creation is recorded before. If
    /// an earlier creation of the object may still be carried out, `request` is not sent, and a wait is returned. `id`
    /// is the id of the new object, and `failed` the error of the step.
    pub(crate) async fn create<T>(
        &self,
        new: NewObject<'_>,
        request: impl Future<Output = Result<T, Error>>,
        id: impl Fn(&T) -> &str,
        failed: impl Fn(&Error) -> StepError,
    ) -> StepResult<T> {
        let NewObject {
            condition,
            kind,
            name,
        } = new;
        self.creations.begin(condition, kind, name).await?;
        let answer = request.await;
        self.creations.settle(kind, name, &answer);
        answer
            .inspect(|new| self.changed(Verb::Create, kind, name, id(new), ""))
            .inspect_err(|error| self.failed(Verb::Create, kind, name, error))
            .map_err(|error| failed(&error))
    }

    /// Reports the answer to a change of an object in OpenStack and returns it. The object is given by kind, name and
    /// id.
    pub(crate) fn answered<T>(
        &self,
        verb: Verb,
        (object, name, id): (CloudObject, &str, &str),
        change: &str,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        answer
            .inspect(|_| self.changed(verb, object, name, id, change))
            .inspect_err(|error| self.failed(verb, object, name, error))
    }

    /// Reports the result of a deletion and returns its error. If the object did not exist, that is neither a change
    /// nor an error.
    pub(crate) fn deleted(
        &self,
        object: CloudObject,
        name: &str,
        id: &str,
        answer: Result<(), Error>,
    ) -> Result<(), Error> {
        self.removed(Verb::Delete, object, name, id, answer)
    }

    /// Does the same for another kind of removal.
    pub(crate) fn removed(
        &self,
        verb: Verb,
        object: CloudObject,
        name: &str,
        id: &str,
        answer: Result<(), Error>,
    ) -> Result<(), Error> {
        if answer.is_ok() {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        self.events
            .removed(&self.object, (verb, object), name, id, answer)
    }

    /// Reports that an object in OpenStack was changed.
    pub(crate) fn updated(&self, object: CloudObject, name: &str, id: &str, change: &str) {
        self.changed(Verb::Update, object, name, id, change);
    }

    /// Reports a change in OpenStack.
    pub(crate) fn changed(
        &self,
        verb: Verb,
        object: CloudObject,
        name: &str,
        id: &str,
        change: &str,
    ) {
        self.has_changed.store(true, Ordering::Relaxed);
        self.events
            .changed_named(&self.object, verb, object, name, id, change);
    }

    /// Reports that OpenStack refused a change.
    pub(crate) fn failed(&self, verb: Verb, object: CloudObject, name: &str, error: &Error) {
        let message = error.to_string();
        self.events
            .failed(&self.object, verb, object, name, (error.class(), &message));
    }

    /// Reports that the cloud lacks a provider or flavor, and that its default is used instead.
    pub(crate) fn warn_default(&self, field: &str, found: &str, right: &str) {
        let note = format!(
            "OpenStackCluster {}: spec.apiServer.managedLoadBalancer.{field} is \"{found}\", which Octavia in \
             this cloud does not offer, so its default is used; {right}",
            self.desired.object
        );
        let shown = format!("Octavia{field}notfound");
        let reason = (Reason::DependencyNotFound, shown);
        self.events
            .warning_as(&self.object, reason, "Create", &note);
    }

    /// Adds missing tags to a managed object. Other tags of the object stay.
    pub(crate) async fn tag(
        &self,
        condition: &'static str,
        object: Tagged<'_>,
        present: &[String],
    ) -> StepResult<()> {
        let Some(all) = with_missing_tags(present, &self.desired.tags) else {
            return Ok(());
        };
        match self
            .cloud
            .replace_tags(object, &all, Priority::Settling)
            .await
        {
            Ok(()) => {
                let (kind, id) = tagged(object);
                self.changed(Verb::Tag, kind, "", id, &all.join(", "));
                Ok(())
            }
            // This Neutron has no tags for this kind of object. Nothing depends on them.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.failed(Verb::Tag, tagged(object).0, "", &error);
                Err(StepError::cloud(
                    condition,
                    Reason::OpenStackError,
                    "Setting tags",
                    &error,
                ))
            }
        }
    }
}

/// The kind and id of a tagged object, as events show them.
fn tagged(object: Tagged<'_>) -> (CloudObject, &str) {
    match object {
        Tagged::Network(id) => (CloudObject::Network, id.as_str()),
        Tagged::Subnet(id) => (CloudObject::Subnet, id.as_str()),
        Tagged::Router(id) => (CloudObject::Router, id.as_str()),
        Tagged::Port(id) => (CloudObject::Port, id.as_str()),
        Tagged::FloatingIp(id) => (CloudObject::FloatingIp, id.as_str()),
        Tagged::SecurityGroup(id) => (CloudObject::SecurityGroup, id.as_str()),
        Tagged::Trunk(id) => (CloudObject::Trunk, id.as_str()),
    }
}

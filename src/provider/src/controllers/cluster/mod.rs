//! The `OpenStackCluster`: network, router, security groups, load balancer, endpoint.
//!
//! A pass reads the related Kubernetes objects ([`observe`]), parses the spec ([`validate`]), reads OpenStack and creates
//! what is missing ([`act`], or [`delete`] for an object that is being deleted), publishes the desired load balancer
//! to its tracker, and writes the status if it changed ([`report`]).

mod act;
mod bastion;
pub(super) mod cache;
mod delete;
mod desired;
mod endpoint;
mod failure_domains;
mod floating_ip;
mod load_balancer;
mod machine_floating_ip;
mod members;
mod network;
mod networking;
mod observation;
mod observe;
mod pass;
mod project;
mod report;
mod router;
mod security_groups;
mod settled_networking;
mod step_context;
mod tracking;
mod validate;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt;

use self::{observe::RelatedObjects, pass::Pass};
use super::{
    Context, Outcome,
    capi::{self, has_annotation},
};
use crate::kubernetes::conditions::kind;
use crate::reconcile::{
    StepError, StepResult, cluster_names::Names, finalizer::OPENSTACK_CLUSTER as FINALIZER,
    name_of, start::Start,
};
use capo_api::v1beta2::OpenStackCluster;
use capo_core::{ConditionState, ObjectName, Reason};

/// The controller's name in logs and metrics.
pub const CONTROLLER: &str = "openstackcluster";

/// One pass over an `OpenStackCluster`.
pub fn pass(object: Arc<OpenStackCluster>, context: Arc<Context>) -> BoxFuture<'static, Outcome> {
    async move { Box::pin(one_pass(&object, &context)).await }.boxed()
}

async fn one_pass(object: &OpenStackCluster, context: &Context) -> Outcome {
    let name = name_of(object);
    let deleting = object.metadata.deletion_timestamp.is_some();
    let moved = deleting && has_annotation(&object.metadata, capi::DELETE_FOR_MOVE_ANNOTATION);
    if moved || has_annotation(&object.metadata, capi::MANAGED_BY_ANNOTATION) {
        // Another program manages the object (annotation `managed-by`), so neither the object nor the cloud is changed.
        return forget(context, &name);
    }
    let Some(cluster) = cluster_name(object) else {
        return Box::pin(ownerless(object, context)).await;
    };
    let related = match observe::related(context, &name.namespace, &cluster).await {
        Ok(related) => related,
        Err(error) => return Outcome::kubernetes("Reading the owning Cluster", &error),
    };
    let pass = Pass::new(context, object.clone(), related);
    let is_paused = is_paused_or_moved(object, &pass.related);
    match Start::of(&object.metadata, FINALIZER, is_paused) {
        Start::Gone => forget(context, &name),
        Start::Moved | Start::Paused => Box::pin(paused(pass)).await,
        Start::Delete => Box::pin(delete::run(pass)).await,
        Start::Apply => Box::pin(apply(pass)).await,
    }
}

/// Forgets the cluster everywhere in this process.
fn forget(context: &Context, name: &ObjectName) -> Outcome {
    context.tracker.forget_load_balancer(name);
    context.clusters.forget(name);
    Outcome::Done
}

/// The pass over a cluster that is neither deleted nor paused. Nothing is created before its Cluster exists.
async fn apply(mut pass: Pass<'_>) -> Outcome {
    pass.not_paused();
    if pass.related.cluster.is_none() {
        let cluster = &pass.related.cluster_name;
        let message = format!("Waiting for Cluster {cluster}, which does not exist");
        pass.report.ready = Some(ConditionState::unknown(
            Reason::WaitingForOwner,
            message.clone(),
        ));
        pass.record_wait(Outcome::wait(
            Reason::WaitingForOwner,
            message,
            Duration::from_mins(1),
        ));
        return pass.end().await;
    }
    let first = pass
        .object
        .status
        .as_ref()
        .is_none_or(|status| status.conditions.is_empty());
    let context = pass.context;
    let written = context.set_finalizer(&mut pass.object, FINALIZER, true);
    if let Err(error) = written.await {
        return Outcome::kubernetes("Writing the finalizer", &error);
    }
    // The first pass writes all conditions before anything slow begins.
    if first && let Err(failed) = pass.write().await {
        return failed;
    }
    Box::pin(act::run(pass)).await
}

/// The name of the Cluster that owns the object. For an object that is being deleted, the label is enough.
fn cluster_name(object: &OpenStackCluster) -> Option<String> {
    let owner = capi::owner(&object.metadata, "Cluster").map(|owner| owner.name.clone());
    let label = || object.labels().get(capi::CLUSTER_NAME_LABEL).cloned();
    if object.metadata.deletion_timestamp.is_some() {
        owner.or_else(label)
    } else {
        owner
    }
}

/// The pass over an object that has no owning Cluster.
async fn ownerless(object: &OpenStackCluster, context: &Context) -> Outcome {
    let related = RelatedObjects {
        cluster: None,
        cluster_name: String::new(),
        machines: Vec::new(),
        control_plane: observe::ControlPlane::default(),
    };
    let mut pass = Pass::new(context, object.clone(), related);
    if Start::of(&object.metadata, FINALIZER, false) == Start::Gone {
        return Outcome::Done;
    }
    let message = "Waiting for an owner reference to the Cluster (metadata.ownerReferences)";
    pass.report.ready = Some(ConditionState::unknown(Reason::WaitingForOwner, message));
    pass.record_wait(Outcome::wait(
        Reason::WaitingForOwner,
        message,
        Duration::from_mins(1),
    ));
    pass.end().await
}

/// Whether the object is paused or being moved. Then nothing is changed, and the tracker is told so together with the
/// facts.
fn is_paused_or_moved(object: &OpenStackCluster, related: &RelatedObjects) -> bool {
    crate::reconcile::is_paused_or_moved(&object.metadata)
        || related.cluster.as_ref().is_some_and(|cluster| {
            cluster.spec.paused
                || has_annotation(&cluster.metadata, capi::DELETE_FOR_MOVE_ANNOTATION)
        })
}

async fn paused(mut pass: Pass<'_>) -> Outcome {
    let shown = pass.full_name();
    let (desired, problems) = validate::read(&shown, pass.names(), &pass.object.spec);
    let facts = act::gather_facts(&mut pass).await;
    if pass.cached.load_balancer.found().is_some() {
        let published = pass::Published {
            cloud: pass.cloud().await.ok(),
            facts,
        };
        pass.publish(&desired, &problems, &published);
    } else {
        pass.context.tracker.set_facts(&pass.name, &facts);
    }
    let message = if pass.related.cluster.as_ref().is_some_and(|c| c.spec.paused) {
        "Cluster spec.paused is set to true"
    } else {
        "OpenStackCluster or Cluster has an annotation that pauses or moves it"
    };
    pass.report.set_condition(
        kind::PAUSED,
        ConditionState {
            message: message.to_owned(),
            ..ConditionState::met(Reason::Paused)
        },
    );
    pass.end().await
}

/// Returns an error for the younger of two Clusters whose OpenStack objects would have the same names, so that its pass
/// does not use the other one's objects.
fn not_colliding(pass: &Pass<'_>) -> StepResult<()> {
    let names = pass.names();
    let age = |object: &OpenStackCluster| {
        let created = object.metadata.creation_timestamp.as_ref().map(|t| t.0);
        (created, name_of(object))
    };
    let own = age(&pass.object);
    let older = pass
        .context
        .stores
        .openstack_clusters
        .state_filter(|other| {
            let other_names = cluster_name(other)
                .map(|cluster| Names::new(&other.namespace().unwrap_or_default(), &cluster));
            other_names.as_ref() == Some(&names) && name_of(other) != pass.name && age(other) < own
        });
    let Some(other) = older.first() else {
        return Ok(());
    };
    Err(StepError::refused(
        kind::NETWORK_READY,
        Reason::AmbiguousMatch,
        format!(
            "OpenStackCluster {}: the name {} of its objects in OpenStack is that of OpenStackCluster {} too; a Cluster \
             of another name is needed",
            pass.name,
            names.network(),
            name_of(&**other)
        ),
    ))
}

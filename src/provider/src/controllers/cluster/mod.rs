//! The `OpenStackCluster`: network, router, security groups, load balancer, endpoint.
//!
//! A pass reads the neighbours ([`facts`]), reads the spec ([`spec`]), looks at the cloud and makes what
//! is missing ([`normal`], or [`removal`] for one that goes), hands the load balancer to its task, and
//! writes the status if it says something new ([`report`]).

mod allowed;
mod balance;
mod endpoint;
mod facts;
mod failure_domains;
mod floating_ip;
pub(crate) mod halt;
mod hooks;
mod load_balancer;
mod load_balancer_plan;
mod lookups;
mod members;
pub(super) mod memory;
pub mod names;
mod network;
mod normal;
mod pick;
mod removal;
mod report;
mod router;
mod rule_spec;
mod rules;
mod security_groups;
mod shop;
mod spec;
mod teardown;
mod visit;
mod wanted;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt;

use self::{
    facts::Neighbours,
    halt::{Halt, Step},
    names::Names,
    visit::{Visit, kubernetes_failed},
};
use super::{
    Context, Outcome,
    capi::{self, has_annotation},
};
use crate::status::conditions::kind;
use capo_api::v1beta2::OpenStackCluster;
use capo_core::{ConditionState, Reason};

/// The controller's name in logs and metrics.
pub const CONTROLLER: &str = "openstackcluster";
/// Our finalizer, the same as CAPO's.
pub const FINALIZER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// One pass over an `OpenStackCluster`.
pub fn pass(object: Arc<OpenStackCluster>, context: Arc<Context>) -> BoxFuture<'static, Outcome> {
    async move { Box::pin(one_pass(&object, &context)).await }.boxed()
}

async fn one_pass(object: &OpenStackCluster, context: &Context) -> Outcome {
    let name = report::name_of(object);
    let deleting = object.metadata.deletion_timestamp.is_some();
    let moved = deleting && has_annotation(&object.metadata, capi::DELETE_FOR_MOVE_ANNOTATION);
    if moved || has_annotation(&object.metadata, capi::MANAGED_BY_ANNOTATION) {
        // Somebody else's now: neither object nor cloud is touched.
        context.membership.forget_load_balancer(&name);
        context.clusters.forget(&name);
        return Outcome::Done;
    }
    let Some(cluster) = cluster_name(object) else {
        return Box::pin(ownerless(object, context)).await;
    };
    let neighbours = match facts::neighbours(context, &name.namespace, &cluster).await {
        Ok(neighbours) => neighbours,
        Err(error) => return kubernetes_failed("Reading the owning Cluster", &error),
    };
    let mut visit = Visit::new(context, object.clone(), neighbours);
    if is_untouchable(object, &visit.neighbours) {
        return Box::pin(paused(visit)).await;
    }
    visit
        .report
        .tell(kind::PAUSED, ConditionState::unmet(Reason::NotPaused, ""));
    if deleting {
        return Box::pin(removal::run(visit)).await;
    }
    if visit.neighbours.cluster.is_none() {
        let message = format!("Waiting for Cluster {cluster}, which does not exist");
        visit.report.ready = Some(ConditionState::unknown(
            Reason::WaitingForOwner,
            message.clone(),
        ));
        visit.note_wait(Outcome::wait(
            Reason::WaitingForOwner,
            message,
            Duration::from_mins(1),
        ));
        return visit.end().await;
    }
    let first = object
        .status
        .as_ref()
        .is_none_or(|status| status.conditions.is_empty());
    if let Err(failed) = visit.set_finalizer(FINALIZER, true).await {
        return failed;
    }
    // Every condition is there before anything slow begins.
    if first && let Err(failed) = visit.write().await {
        return failed;
    }
    Box::pin(normal::run(visit)).await
}

/// The name of the Cluster that owns the object; for one that goes, the label will do.
fn cluster_name(object: &OpenStackCluster) -> Option<String> {
    let owner = capi::owner(&object.metadata, "Cluster").map(|owner| owner.name.clone());
    let label = || object.labels().get(capi::CLUSTER_NAME_LABEL).cloned();
    if object.metadata.deletion_timestamp.is_some() {
        owner.or_else(label)
    } else {
        owner
    }
}

/// Nobody owns the object yet, or any more.
async fn ownerless(object: &OpenStackCluster, context: &Context) -> Outcome {
    let neighbours = Neighbours {
        cluster: None,
        cluster_name: String::new(),
        machines: Vec::new(),
        control_plane: facts::ControlPlane::default(),
    };
    let mut visit = Visit::new(context, object.clone(), neighbours);
    let finalizer = object.finalizers().iter().any(|f| f == FINALIZER);
    if object.metadata.deletion_timestamp.is_some() && !finalizer {
        return Outcome::Done;
    }
    let message = "Waiting for an owner reference to the Cluster (metadata.ownerReferences)";
    visit.report.ready = Some(ConditionState::unknown(Reason::WaitingForOwner, message));
    visit.note_wait(Outcome::wait(
        Reason::WaitingForOwner,
        message,
        Duration::from_mins(1),
    ));
    visit.end().await
}

/// Paused, or being moved: nothing is touched, and membership knows.
fn is_untouchable(object: &OpenStackCluster, neighbours: &Neighbours) -> bool {
    let moving = |meta: &kube::core::ObjectMeta| {
        has_annotation(meta, capi::DELETE_FOR_MOVE_ANNOTATION)
            || has_annotation(meta, capi::PAUSED_ANNOTATION)
    };
    moving(&object.metadata)
        || neighbours.cluster.as_ref().is_some_and(|cluster| {
            cluster.spec.paused
                || has_annotation(&cluster.metadata, capi::DELETE_FOR_MOVE_ANNOTATION)
        })
}

async fn paused(mut visit: Visit<'_>) -> Outcome {
    let shown = visit.shown();
    let (wanted, _) = spec::read(&shown, visit.names(), &visit.object.spec);
    let facts = normal::gather_facts(&mut visit).await;
    if visit.seen.load_balancer.is_some() {
        let object = format!("OpenStackCluster {shown}");
        let asker = super::identity::Asker {
            object: &object,
            namespace: &visit.name.namespace,
        };
        let reference = &visit.object.spec.identity_ref;
        let cloud = super::identity::cloud(visit.context, asker, reference).await;
        visit.hand_over(cloud.ok(), &wanted, facts);
    }
    let message = if visit
        .neighbours
        .cluster
        .as_ref()
        .is_some_and(|c| c.spec.paused)
    {
        "Cluster spec.paused is set to true"
    } else {
        "OpenStackCluster or Cluster has an annotation that pauses or moves it"
    };
    visit.report.tell(
        kind::PAUSED,
        ConditionState {
            message: message.to_owned(),
            ..ConditionState::met(Reason::Paused)
        },
    );
    visit.end().await
}

/// Two Clusters whose names make one name: the younger one stops, so that it takes nothing of the other's.
fn not_colliding(visit: &Visit<'_>) -> Step<()> {
    let names = visit.names();
    let age = |object: &OpenStackCluster| {
        let created = object.metadata.creation_timestamp.as_ref().map(|t| t.0);
        (created, report::name_of(object))
    };
    let own = age(&visit.object);
    let older = visit
        .context
        .stores
        .openstack_clusters
        .state_filter(|other| {
            let other_names = cluster_name(other)
                .map(|cluster| Names::new(&other.namespace().unwrap_or_default(), &cluster));
            other_names.as_ref() == Some(&names)
                && report::name_of(other) != visit.name
                && age(other) < own
        });
    let Some(other) = older.first() else {
        return Ok(());
    };
    Err(Halt::refused(
        kind::NETWORK_READY,
        Reason::AmbiguousMatch,
        format!(
            "OpenStackCluster {}: the name {} of its objects in OpenStack is that of OpenStackCluster {} too; a Cluster \
             of another name is needed",
            visit.name,
            names.network(),
            report::name_of(other)
        ),
    ))
}

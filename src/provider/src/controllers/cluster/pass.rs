//! One pass over an `OpenStackCluster`: where it begins, its inputs, what it finds, and its outcome.

mod writes;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};

use super::{
    FINALIZER,
    cache::CachedCluster,
    desired::DesiredCluster,
    ownership::cluster_name,
    related_objects::{self, ClusterRelatedObjects, ControlPlane},
    report::Report,
    step_context::{KnownIds, StepContext},
    validate,
};
use crate::{
    controllers::{
        Context, Outcome,
        capi::{self, has_annotation},
    },
    kubernetes::conditions::kind,
    reconcile::{
        StepError, StepResult,
        cluster_names::Names,
        creations::Creations,
        identity::{self, Identity},
        is_paused_or_moved, name_of,
        start::Start,
    },
    subject::Subject,
};
use capo_api::v1beta2::OpenStackCluster;
use capo_core::{ConditionState, ObjectName, Reason};
use capo_gate::desired::ClusterFacts;
use capo_openstack::Cloud;

/// One pass over an `OpenStackCluster`.
pub fn pass(object: Arc<OpenStackCluster>, context: Arc<Context>) -> BoxFuture<'static, Outcome> {
    async move { Box::pin(one_pass(&object, &context)).await }.boxed()
}

async fn one_pass(object: &OpenStackCluster, context: &Context) -> Outcome {
    let name = name_of(object);
    let deleting = object.metadata.deletion_timestamp.is_some();
    let moved = deleting && has_annotation(&object.metadata, capi::DELETE_FOR_MOVE_ANNOTATION);
    if moved || has_annotation(&object.metadata, capi::MANAGED_BY_ANNOTATION) {
        // clusterctl deletes this copy after a move, or another program manages the object (annotation `managed-by`).
        // Neither the object nor the cloud is changed.
        return forget(context, &name);
    }
    let Some(cluster) = cluster_name(object) else {
        return Box::pin(ownerless(object, context)).await;
    };
    let related = match related_objects::related(context, &name.namespace, &cluster).await {
        Ok(related) => related,
        Err(error) => return Outcome::kubernetes("Reading the owning Cluster", &error),
    };
    let pass = Pass::new(context, object.clone(), related);
    match Start::of(&object.metadata, FINALIZER, pass.is_paused_or_moved()) {
        Start::Gone => forget(context, &name),
        Start::Moved | Start::Paused => Box::pin(pass.paused()).await,
        Start::Delete => Box::pin(pass.delete()).await,
        Start::Apply => Box::pin(pass.begin()).await,
    }
}

/// Forgets the cluster everywhere in this process.
pub(super) fn forget(context: &Context, name: &ObjectName) -> Outcome {
    context.tracker.forget_load_balancer(name);
    context.clusters.forget(name);
    context.cluster_creations.forget(name);
    Outcome::Done
}

/// The pass over an object that has no owning Cluster.
async fn ownerless(object: &OpenStackCluster, context: &Context) -> Outcome {
    let related = ClusterRelatedObjects {
        cluster: None,
        cluster_name: String::new(),
        machines: Vec::new(),
        control_plane: ControlPlane::default(),
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

/// One pass over one `OpenStackCluster`.
pub(crate) struct Pass<'a> {
    /// The state that all passes share.
    pub context: &'a Context,
    /// The object as it was last read or written.
    pub object: OpenStackCluster,
    /// Its name.
    pub name: ObjectName,
    /// The related Kubernetes objects.
    pub related: ClusterRelatedObjects,
    /// What earlier passes of this process have read.
    pub cached: CachedCluster,
    /// The recorder of what the pass creates in OpenStack.
    pub creations: Creations<OpenStackCluster>,
    /// What the pass reports at its end.
    pub report: Report,
    /// The moment at which the pass began.
    pub now: Instant,
    /// Whether something changed on which the cluster's machines depend, so that they need a pass too.
    pub enqueue_machines: bool,
    outcomes: Vec<Outcome>,
    optional_outcomes: Vec<Outcome>,
}

impl<'a> Pass<'a> {
    /// Begins a pass.
    pub(crate) fn new(
        context: &'a Context,
        object: OpenStackCluster,
        related: ClusterRelatedObjects,
    ) -> Self {
        let name = name_of(&object);
        let cached = context
            .clusters
            .get(&name, object.metadata.uid.as_deref())
            .unwrap_or_default();
        context.cluster_creations.load(&object, &name);
        let creations = Creations::new(
            context.api(&name.namespace),
            &object,
            &context.cluster_creations,
            &context.events,
        );
        Self {
            context,
            object,
            name,
            related,
            cached,
            creations,
            report: Report::default(),
            now: Instant::now(),
            enqueue_machines: false,
            outcomes: Vec::new(),
            optional_outcomes: Vec::new(),
        }
    }

    /// The pass over a cluster that is neither deleted nor paused. Nothing is created before its Cluster exists.
    async fn begin(mut self) -> Outcome {
        self.not_paused();
        if self.related.cluster.is_none() {
            let cluster = &self.related.cluster_name;
            let message = format!("Waiting for Cluster {cluster}, which does not exist");
            self.report.ready = Some(ConditionState::unknown(
                Reason::WaitingForOwner,
                message.clone(),
            ));
            self.record_wait(Outcome::wait(
                Reason::WaitingForOwner,
                message,
                Duration::from_mins(1),
            ));
            return self.end().await;
        }
        let first = self
            .object
            .status
            .as_ref()
            .is_none_or(|status| status.conditions.is_empty());
        let context = self.context;
        let written = context.set_finalizer(&mut self.object, FINALIZER, true);
        if let Err(error) = written.await {
            return Outcome::kubernetes("Writing the finalizer", &error);
        }
        // The first pass writes all conditions before anything slow begins.
        if first && let Err(failed) = self.write().await {
            return failed;
        }
        Box::pin(self.apply()).await
    }

    /// The pass over a cluster that is paused or being moved. It changes nothing in OpenStack, and publishes to the
    /// tracker that the cluster is paused, together with the other facts.
    async fn paused(mut self) -> Outcome {
        let name = self.full_name();
        let (desired, problems) = validate::read(&name, self.names(), &self.object.spec);
        let facts = self.gather_facts().await;
        if self.cached.load_balancer.found().is_some() {
            let published = PublishedFacts {
                cloud: self.cloud().await.ok(),
                facts,
            };
            self.publish(&desired, &problems, &published);
        } else {
            self.context.tracker.set_facts(&self.name, &facts);
        }
        let message = if self.related.cluster.as_ref().is_some_and(|c| c.spec.paused) {
            "Cluster spec.paused is set to true"
        } else {
            "OpenStackCluster or Cluster has an annotation that pauses or moves it"
        };
        self.report.set_condition(
            kind::PAUSED,
            ConditionState {
                message: message.to_owned(),
                ..ConditionState::met(Reason::Paused)
            },
        );
        self.end().await
    }

    /// Whether the object or its Cluster is paused or being moved.
    pub(super) fn is_paused_or_moved(&self) -> bool {
        is_paused_or_moved(&self.object.metadata)
            || self.related.cluster.as_ref().is_some_and(|cluster| {
                cluster.spec.paused
                    || has_annotation(&cluster.metadata, capi::DELETE_FOR_MOVE_ANNOTATION)
            })
    }

    /// `namespace/name`, for messages.
    pub(crate) fn full_name(&self) -> String {
        self.name.to_string()
    }

    /// The cloud that the object names. This sends no request to OpenStack.
    pub(crate) async fn cloud(&self) -> StepResult<Cloud> {
        let subject = Subject::new("OpenStackCluster", &self.name);
        identity::cloud(self.context, &subject, &self.object.spec.identity_ref).await
    }

    /// Signs in to the cloud that the object names.
    pub(crate) async fn sign_in(&self, cloud: StepResult<Cloud>) -> StepResult<Identity> {
        let subject = Subject::new("OpenStackCluster", &self.name);
        identity::sign_in(&subject, &self.object.spec.identity_ref, cloud?).await
    }

    /// Sets the condition Paused to False.
    pub(crate) fn not_paused(&mut self) {
        self.report
            .set_condition(kind::PAUSED, ConditionState::unmet(Reason::NotPaused, ""));
    }

    /// The names of all managed OpenStack objects of this cluster.
    pub(crate) fn names(&self) -> Names {
        Names::new(&self.name.namespace, &self.related.cluster_name)
    }

    /// The reference to the object in events.
    pub(crate) fn reference(&self) -> ObjectReference {
        self.object.object_ref(&())
    }

    /// The generation of the object.
    pub(crate) fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or_default()
    }

    /// The value of an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.object.annotations().get(key).map(String::as_str)
    }

    /// Records the error of a step that did not complete. Other steps continue.
    pub(crate) fn record(&mut self, step_error: StepError) {
        self.report
            .set_condition(step_error.condition, step_error.state);
        self.outcomes.push(step_error.outcome);
    }

    /// Records the error of a step that no machine depends on.
    pub(crate) fn record_optional(&mut self, step_error: StepError) {
        self.report
            .set_condition(step_error.condition, step_error.state);
        self.optional_outcomes.push(step_error.outcome);
    }

    /// Records a wait that another condition shows.
    pub(crate) fn record_wait(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Records a wait that no condition shows and on which no machine depends.
    pub(crate) fn record_optional_wait(&mut self, outcome: Outcome) {
        self.optional_outcomes.push(outcome);
    }

    /// Returns the value of a step, or records its error and returns `None`.
    pub(crate) fn ok_or_record<T>(&mut self, step: StepResult<T>) -> Option<T> {
        step.map_err(|step_error| self.record(step_error)).ok()
    }

    /// Records that a condition is True.
    pub(crate) fn set_true(&mut self, kind: &'static str) {
        self.report
            .set_condition(kind, ConditionState::met(Reason::Ready));
    }

    /// Whether nothing that machines depend on has stopped the pass so far.
    pub(crate) fn is_clear(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// The context of this pass's steps, with the credentials of `identity`. `pause` is the time until the cluster
    /// is reconciled again while something is being deleted.
    pub(crate) fn step_context<'s>(
        &self,
        identity: &'s Identity,
        desired: &'s DesiredCluster,
        pause: Duration,
    ) -> StepContext<'s>
    where
        'a: 's,
    {
        let status = self.object.status.as_ref();
        StepContext {
            cloud: &identity.cloud,
            project: identity.project.clone(),
            desired,
            known: status.map(KnownIds::of).unwrap_or_default(),
            machine_admitted: self.related.machine_admitted(),
            pause,
            events: &self.context.events,
            object: self.reference(),
            creations: self.creations.clone(),
            has_changed: AtomicBool::new(false),
        }
    }

    /// Whether the status says that the cluster was provisioned.
    pub(crate) fn is_provisioned(&self) -> bool {
        let status = self.object.status.as_ref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|initialization| initialization.provisioned) == Some(true)
    }
}

/// What a pass publishes to the load balancer's tracker besides the load balancer itself.
pub(crate) struct PublishedFacts {
    /// The cloud, where the credentials could be read.
    pub cloud: Option<Cloud>,
    /// The facts that gates depend on.
    pub facts: ClusterFacts,
}

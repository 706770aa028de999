//! One pass over one object: its inputs, what it finds, and its outcome.

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt, api::Patch, runtime::reflector::ObjectRef};
use serde_json::json;

use super::{
    bastion::addresses::{self as bastion, addresses as bastion_addresses},
    cache::CachedCluster,
    desired::DesiredCluster,
    load_balancer::allowed_cidrs,
    observe::RelatedObjects,
    report::{self, Report},
    step_context::{KnownIds, StepContext},
    tracking::{DesiredTracking, is_load_balancer_known},
    validate::problems::Problem,
};
use crate::reconcile::{
    StepError, StepResult,
    cluster_names::Names,
    identity::{self, Identity},
    name_of,
};
use crate::subject::Subject;
use crate::tracker::OctaviaClient;
use crate::{
    controllers::{Context, Outcome},
    kubernetes::{
        conditions::kind,
        patch::{self, Written},
    },
};
use capo_api::v1beta2::{ApiEndpoint, OpenStackCluster};

use capo_core::{ConditionState, GateOverride, ObjectName, Reason, gate_override};
use capo_gate::desired::ClusterFacts;
use capo_openstack::Cloud;

/// One pass over one `OpenStackCluster`.
pub(crate) struct Pass<'a> {
    /// The state that all passes share.
    pub context: &'a Context,
    /// The object as it was last read or written.
    pub object: OpenStackCluster,
    /// Its name.
    pub name: ObjectName,
    /// The related Kubernetes objects.
    pub related: RelatedObjects,
    /// What earlier passes of this process have read.
    pub cached: CachedCluster,
    /// What the pass reports at its end.
    pub report: Report,
    /// The moment at which the pass began.
    pub now: Instant,
    /// Whether something changed on which the cluster's machines depend, so that they need a pass too.
    pub wake_machines: bool,
    outcomes: Vec<Outcome>,
    optional_outcomes: Vec<Outcome>,
}

impl<'a> Pass<'a> {
    /// Begins a pass.
    pub(crate) fn new(
        context: &'a Context,
        object: OpenStackCluster,
        related: RelatedObjects,
    ) -> Self {
        let name = name_of(&object);
        let cached = context
            .clusters
            .get(&name, object.metadata.uid.as_deref())
            .unwrap_or_default();
        Self {
            context,
            object,
            name,
            related,
            cached,
            report: Report::default(),
            now: Instant::now(),
            wake_machines: false,
            outcomes: Vec::new(),
            optional_outcomes: Vec::new(),
        }
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

    /// The context of this pass's steps, with the credentials of `identity`. `pause` is the time until the next look at
    /// something that is being deleted.
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
            has_changed: AtomicBool::new(false),
        }
    }

    /// Whether the status says that the cluster was provisioned.
    pub(crate) fn is_provisioned(&self) -> bool {
        let status = self.object.status.as_ref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|initialization| initialization.provisioned) == Some(true)
    }

    /// The address ranges that may connect to the load balancer. `None` means that an address of the cluster itself is
    /// not known yet.
    pub(crate) fn allowed_cidrs(&self, allowed: Option<&[IpNet]>) -> Option<Vec<IpNet>> {
        let key = ObjectRef::new(&bastion::server_name(&self.related.cluster_name))
            .within(&self.name.namespace);
        let server = self.context.stores.openstack_servers.get(&key);
        let status = self.object.status.as_ref();
        let shown = self.cached.bastion.as_ref().map(|seen| &seen.status);
        let shown = shown.or(status.and_then(|status| status.bastion.as_ref()));
        let bastion = bastion_addresses(&self.object.spec, shown, server.as_deref());
        let vip = self
            .cached
            .load_balancer
            .found()
            .and_then(|found| found.vip);
        allowed_cidrs::ranges(allowed, &self.cached.networking, bastion.as_deref(), vip)
    }

    /// Publishes the load balancer and the facts about its cluster to the tracker. While it is unknown whether there is
    /// a load balancer, only the facts are published. If the facts alone open a gate and the load balancer has no
    /// worker yet, one is started without credentials.
    pub(crate) fn publish(
        &self,
        desired: &DesiredCluster,
        problems: &[Problem],
        published: &Published,
    ) {
        let facts = &published.facts;
        let tracker = &self.context.tracker;
        let is_known = desired.is_port_known(problems)
            && match &desired.load_balancer {
                None => true,
                Some(load_balancer) => is_load_balancer_known(&self.cached, load_balancer),
            };
        if !is_known && (tracker.set_facts(&self.name, facts) || !self.opens_a_gate(facts)) {
            return;
        }
        let spec = desired.load_balancer.as_ref();
        let restriction = spec.and_then(|spec| spec.allowed_cidrs.as_deref());
        let load_balancer = DesiredTracking {
            generation: self.generation(),
            cached: &self.cached,
            desired,
            allowed_cidrs: self.allowed_cidrs(restriction),
        };
        let cloud = published
            .cloud
            .clone()
            .filter(|cloud| is_known && self.cached.is_verified(cloud));
        let load_balancer = load_balancer.for_tracker(facts.clone());
        tracker.set_load_balancer(&self.name, cloud.map(OctaviaClient), load_balancer);
        // The object may have vanished during the pass. The store is checked after publishing, so that either this
        // check or the watch stops the worker.
        let key = ObjectRef::new(&self.name.name).within(&self.name.namespace);
        if self.context.stores.openstack_clusters.get(&key).is_none() {
            tracker.forget_load_balancer(&self.name);
        }
    }

    /// Whether a gate opens regardless of the load balancer's state: the cluster is being deleted, or an operator
    /// bypasses a gate.
    fn opens_a_gate(&self, facts: &ClusterFacts) -> bool {
        let machines = &self.context.stores.openstack_machines;
        let is_bypassed = |name: &ObjectName| {
            let machine = machines.get(&ObjectRef::new(&name.name).within(&name.namespace));
            machine.is_some_and(|machine| {
                let annotation = machine.annotations().get(gate_override::KEY);
                let annotation = annotation.map(String::as_str);
                is_bypass(&gate_override::parse_optional(annotation, Timestamp::now()))
            })
        };
        facts.cluster_deleting
            || is_bypass(&facts.operator)
            || facts.machines.iter().any(is_bypassed)
    }

    /// Writes the endpoint into the spec, where it never changes again.
    pub(crate) async fn write_endpoint(&mut self, host: &str, port: u16) -> StepResult<()> {
        let endpoint = ApiEndpoint {
            host: Some(host.to_owned()),
            port: Some(port.into()),
        };
        let body = json!({
            "metadata": { "resourceVersion": self.object.resource_version() },
            "spec": { "controlPlaneEndpoint": endpoint },
        });
        let api = self.context.api::<OpenStackCluster>(&self.name.namespace);
        let params = kube::api::PatchParams::default();
        match api
            .patch(&self.name.name, &params, &Patch::Merge(&body))
            .await
        {
            Ok(written) => {
                // The generation that this write creates requires no new read.
                let generation = written.metadata.generation.unwrap_or_default();
                if let Some(read) = &mut self.cached.networking_read {
                    read.value = generation;
                }
                self.object = written;
                Ok(())
            }
            Err(error) => Err(StepError::kubernetes(
                kind::API_ENDPOINT_READY,
                "Writing spec.controlPlaneEndpoint",
                &error,
            )),
        }
    }

    /// Writes the report into the status if the report differs from it.
    pub(crate) async fn write(&mut self) -> Result<(), Outcome> {
        let api = self.context.api::<OpenStackCluster>(&self.name.namespace);
        let (report, now) = (&self.report, Timestamp::now());
        let build = |object: &OpenStackCluster| report.status(object, now);
        match patch::write_status(&self.context.replaced, &api, &self.object, build).await {
            Ok(Written::Changed(written)) => {
                report::publish_problems(&self.context.events, &self.reference(), &self.report);
                self.object = *written;
                Ok(())
            }
            Ok(Written::Unchanged | Written::Gone) => Ok(()),
            Err(error) => Err(Outcome::status_not_written(&error)),
        }
    }

    /// Ends the pass: writes the status and keeps what was read for the next pass.
    pub(crate) fn end(self) -> BoxFuture<'a, Outcome> {
        Box::pin(self.finish())
    }

    async fn finish(mut self) -> Outcome {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.append(&mut self.optional_outcomes);
        let outcome = Outcome::of_steps(outcomes);
        self.report.complete = outcome == Outcome::Done;
        let written = self.write().await;
        let uid = self.object.metadata.uid.as_deref();
        self.context.clusters.put(&self.name, uid, self.cached);
        if self.wake_machines {
            let cluster = ObjectName::new(&self.name.namespace, &self.related.cluster_name);
            let context = self.context;
            context
                .queues
                .enqueue_machines_of(&cluster, &context.stores);
        }
        match (written, outcome) {
            (Err(failed), Outcome::Done | Outcome::Wait { .. }) => failed,
            (_, outcome) => outcome,
        }
    }
}

/// What a pass publishes to the load balancer's tracker besides the load balancer itself.
pub(crate) struct Published {
    /// The cloud, where the credentials could be read.
    pub cloud: Option<Cloud>,
    /// The facts that gates depend on.
    pub facts: ClusterFacts,
}

fn is_bypass(operator: &GateOverride) -> bool {
    matches!(operator, GateOverride::Bypass { .. })
}

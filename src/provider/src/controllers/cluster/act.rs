//! The pass over a cluster that is not being deleted. Each step changes only what is missing, and no step waits.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    bastion,
    desired::DesiredCluster,
    endpoint, failure_domains,
    load_balancer::{
        plan::LoadBalancerPlan, reconcile as load_balancer_step, report as load_balancer_report,
    },
    networking,
    ownership::ensure_names_are_unique,
    pass::{Pass, PublishedFacts},
    project,
    report::LoadBalancerReport,
    settled_networking, spec_problems,
    step_context::StepContext,
    validate::{
        self,
        problems::{Problem, SpecPart, has_problem},
    },
};
use crate::{
    controllers::{Outcome, identity::Identity},
    kubernetes::conditions::kind,
    reconcile::{StepResult, deletion_hooks::release_orphaned},
};
use capo_core::{GateOverride, Reason, gate_override};

/// The time until the cluster is reconciled again while a security group is being deleted.
const GROUP_PAUSE: Duration = Duration::from_secs(10);
/// The time until the cluster is reconciled again while its load balancer is being created, unless the worker of the
/// load balancer enqueues the cluster before.
const LOAD_BALANCER_PAUSE: Duration = Duration::from_secs(10);

impl Pass<'_> {
    /// Makes the cloud match the object as far as that is possible without waiting.
    pub(super) async fn apply(mut self) -> Outcome {
        let name = self.full_name();
        let (desired, problems) = validate::read(&name, self.names(), &self.object.spec);
        if let Err(step_error) = ensure_names_are_unique(self.context, &self.object, &self.names())
        {
            self.record(step_error);
            return self.end().await;
        }
        let facts = self.gather_facts().await;
        let cloud = self.cloud().await;
        let published = PublishedFacts {
            cloud: cloud.as_ref().ok().cloned(),
            facts,
        };
        // The facts that are known already are published first, so that no gate waits for the rest of this pass.
        // Credentials that differ from the last ones are published only after they were verified.
        let cloud_changed = matches!(&cloud, Ok(cloud) if !self.cached.is_verified(cloud));
        if !cloud_changed {
            self.publish(&desired, &problems, &published);
        }
        let signed_in = self.sign_in(cloud).await;
        if let Some(identity) = self.ok_or_record(signed_in) {
            self.act(&desired, &problems, &published, &identity).await;
            self.record_creations().await;
        }
        spec_problems::report(&mut self, &desired, problems.clone());
        if let GateOverride::Refused { message } = &published.facts.gate_override {
            let note = format!("Annotation {}: {message}", gate_override::KEY);
            let events = &self.context.events;
            events.warning(&self.reference(), Reason::InvalidSpec, "Gate", &note);
        }
        self.publish(&desired, &problems, &published);
        let ungated = desired.load_balancer.is_none() || self.related.is_being_deleted();
        release_orphaned(self.context, &self.name, &self.related.machines, ungated).await;
        let findings = self.context.tracker.findings(&self.name);
        load_balancer_report::report(&mut self, &desired, findings.as_ref(), LOAD_BALANCER_PAUSE);
        self.report.provisioned =
            self.is_clear() && self.object.spec.control_plane_endpoint.is_some();
        if desired.load_balancer.is_some() {
            load_balancer_report::await_generation(
                &mut self,
                findings.as_deref(),
                LOAD_BALANCER_PAUSE,
            );
        }
        self.end().await
    }

    /// Carries out the steps that need OpenStack, the gates' load balancer first.
    async fn act(
        &mut self,
        desired: &DesiredCluster,
        problems: &[Problem],
        published: &PublishedFacts,
        identity: &Identity,
    ) {
        let context = self.step_context(identity, desired, GROUP_PAUSE);
        // Gates depend on the load balancer, so nothing else that may fail comes before this lookup.
        let Some(plan) = look_up_and_verify(self, &context).await else {
            return;
        };
        let recorded = project::record(self, &context.project).await;
        if self.ok_or_record(recorded).is_none() {
            return;
        }
        let plan = self.ok_or_record(plan).flatten();
        self.publish(desired, problems, published);
        self.read_octavia_version(&context).await;
        let scope = networking::scope(self);
        failure_domains::reconcile(self, &context, scope).await;
        let lists = networking::reconcile(self, &context, problems, scope).await;
        self.report.networking = self.cached.networking.clone();
        match (&desired.load_balancer, plan) {
            (None, _) => self.report.load_balancer = LoadBalancerReport::None,
            (Some(_), None) => {}
            // No load balancer is created while it is uncertain on which port it would listen.
            (Some(_), Some(LoadBalancerPlan::Create)) if !desired.is_port_known(problems) => {}
            (Some(desired), Some(plan)) => {
                let step = load_balancer_step::carry_out(self, &context, desired, plan).await;
                self.ok_or_record(step);
            }
        }
        if !has_problem(problems, SpecPart::Endpoint) {
            let step = endpoint::reconcile(self, &context, &published.facts).await;
            self.ok_or_record(step);
        }
        bastion::reconcile(self, &context).await;
        if context.has_changed.load(Ordering::Relaxed) {
            self.cached.settled_networking = None;
        } else if let Some(lists) = lists {
            settled_networking::remember(self, &lists);
        }
    }
}

/// Looks up the load balancer, verifies that the credentials lead to the cluster's project, and keeps in the cluster's
/// cache which load balancer is the cluster's. Returns the plan for the load balancer; it is absent if no lookup was
/// made. `None` where the credentials lead to another project, or where that could not be found out.
pub(super) async fn look_up_and_verify(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
) -> Option<StepResult<Option<LoadBalancerPlan>>> {
    let recorded = project::check_recorded(pass, &context.project);
    pass.ok_or_record(recorded)?;
    let found = match &context.desired.load_balancer {
        Some(_) => load_balancer_step::look_up(pass, context).await,
        None => Ok(None),
    };
    let balancers = match &found {
        Ok(Some(found)) => found.as_slice(),
        Ok(None) | Err(_) => &[],
    };
    let verified = project::verify(pass, context, balancers).await;
    pass.ok_or_record(verified)?;
    if !pass.cached.is_verified(context.cloud) {
        // Other credentials may see other networks, so the networking is read again.
        pass.cached.networking_read = None;
    }
    pass.cached.verified_cloud = Some(context.cloud.clone());
    pass.cached.project = Some(context.project.clone());
    pass.set_true(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
    Some(found.map(|found| {
        let decision = load_balancer_step::decide(pass, context, &found?);
        pass.cached.load_balancer = decision.load_balancer;
        Some(decision.plan)
    }))
}

//! The pass over a cluster that is not being deleted. Each step changes only what is missing, and no step waits.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    bastion,
    desired::DesiredCluster,
    endpoint::{endpoint, plan::takes_floating_ip},
    failure_domains::zones,
    load_balancer::{plan::LoadBalancerPlan, reconcile as load_balancer_step},
    networking::{self, networking},
    not_colliding, observe,
    pass::{Pass, Published},
    project,
    report::{LoadBalancerReport, LoadBalancerState},
    settled_networking,
    step_context::StepContext,
    tracking::unsupported,
    validate::{
        self,
        problems::{Part, Problem, has_problem},
    },
};
use crate::reconcile::{StepError, StepResult};
use crate::{
    controllers::{Outcome, identity::Identity},
    kubernetes::conditions::kind,
    reconcile::deletion_hooks::release_orphaned,
};
use capo_api::v1beta2::ApiEndpoint;
use capo_core::{ConditionState, Endpoint, GateOverride, Lookup, Priority, Reason, gate_override};
use capo_gate::findings::Findings;

/// The time until the next look at a security group that is being deleted.
const GROUP_PAUSE: Duration = Duration::from_secs(10);
/// The time until the next look at a load balancer that is being created, unless its worker enqueues the cluster
/// before.
const LOAD_BALANCER_PAUSE: Duration = Duration::from_secs(10);

/// Makes the cloud match the object as far as that is possible without waiting.
pub(crate) async fn run(mut pass: Pass<'_>) -> Outcome {
    let shown = pass.full_name();
    let (desired, problems) = validate::read(&shown, pass.names(), &pass.object.spec);
    if let Err(step_error) = not_colliding(&pass) {
        pass.record(step_error);
        return pass.end().await;
    }
    let facts = gather_facts(&mut pass).await;
    let cloud = pass.cloud().await;
    let published = Published {
        cloud: cloud.as_ref().ok().cloned(),
        facts,
    };
    // The facts that are known already are published first, so that no gate waits for the rest of this pass.
    // Credentials that differ from the last ones are published only after they were verified.
    let cloud_changed = matches!(&cloud, Ok(cloud) if !pass.cached.is_verified(cloud));
    if !cloud_changed {
        pass.publish(&desired, &problems, &published);
    }
    let signed_in = pass.sign_in(cloud).await;
    if let Some(identity) = pass.ok_or_record(signed_in) {
        act(&mut pass, &desired, &problems, &published, &identity).await;
    }
    report_problems(&mut pass, &desired, problems.clone());
    if let GateOverride::Refused { message } = &published.facts.operator {
        let note = format!("Annotation {}: {message}", gate_override::KEY);
        let events = &pass.context.events;
        events.warning(&pass.reference(), Reason::InvalidSpec, "Gate", &note);
    }
    pass.publish(&desired, &problems, &published);
    let ungated = desired.load_balancer.is_none() || pass.related.is_being_deleted();
    release_orphaned(pass.context, &pass.name, &pass.related.machines, ungated).await;
    let findings = pass.context.tracker.findings(&pass.name);
    report_load_balancer(&mut pass, &desired, findings.as_ref());
    pass.report.provisioned = pass.is_clear() && pass.object.spec.control_plane_endpoint.is_some();
    if desired.load_balancer.is_some() {
        load_balancer_step::await_generation(&mut pass, findings.as_deref(), LOAD_BALANCER_PAUSE);
    }
    pass.end().await
}

/// Reports every value of the spec that can't be used: as an event where the value is optional, else in the condition
/// of its part.
fn report_problems(pass: &mut Pass<'_>, desired: &DesiredCluster, problems: Vec<Problem>) {
    for problem in problems {
        if problem.part.is_optional() {
            let events = &pass.context.events;
            events.warning(
                &pass.reference(),
                Reason::InvalidSpec,
                "Reconcile",
                &problem.message,
            );
        } else {
            pass.record(StepError::refused(
                problem.part.condition(),
                Reason::InvalidSpec,
                problem.message,
            ));
        }
    }
    let found = pass.cached.load_balancer.found();
    if let (Some(lb), Some(found)) = (&desired.load_balancer, found) {
        for limit in unsupported(lb, found, pass.cached.octavia_version) {
            let note = format!(
                "OpenStackCluster {}: spec.apiServer.managedLoadBalancer.{limit}",
                desired.object
            );
            let events = &pass.context.events;
            events.warning(&pass.reference(), Reason::NotSupported, "Reconcile", &note);
        }
    }
}

/// Where clients reach the control plane, once both host and port are known.
fn known_endpoint(given: Option<&ApiEndpoint>) -> Option<Endpoint> {
    let given = given?;
    Some(Endpoint {
        host: given.host.clone().filter(|host| !host.is_empty())?,
        port: u16::try_from(given.port?).ok()?,
    })
}

/// The facts that gates depend on, as of now.
pub(crate) async fn gather_facts(pass: &mut Pass<'_>) -> capo_gate::desired::ClusterFacts {
    let operator = pass.annotation(gate_override::KEY).map(ToOwned::to_owned);
    observe::facts(
        pass.context,
        &pass.name,
        operator.as_deref(),
        super::is_paused_or_moved(&pass.object, &pass.related),
        known_endpoint(pass.object.spec.control_plane_endpoint.as_ref()),
        &pass.related,
        &mut pass.cached,
    )
    .await
}

/// Reads which version of its API Octavia offers, if the spec restricts which addresses may connect. If the read fails,
/// the last known version stays.
async fn read_octavia_version(pass: &mut Pass<'_>, context: &StepContext<'_>) {
    let desired = context.desired.load_balancer.as_ref();
    if desired.is_none_or(|desired| desired.allowed_cidrs.is_none()) {
        return;
    }
    let version = context
        .cloud
        .load_balancer_api_version(Priority::Settling)
        .await;
    match version {
        Ok(version) => pass.cached.octavia_version = Some(version),
        Err(error) => tracing::debug!(%error, "Reading the version of Octavia's API failed"),
    }
}

async fn act(
    pass: &mut Pass<'_>,
    desired: &DesiredCluster,
    problems: &[Problem],
    published: &Published,
    identity: &Identity,
) {
    let context = pass.step_context(identity, desired, GROUP_PAUSE);
    // Gates depend on the load balancer, so nothing else that may fail comes before this lookup.
    let Some(plan) = look_up_and_verify(pass, &context).await else {
        return;
    };
    let recorded = project::record(pass, &context.project).await;
    if pass.ok_or_record(recorded).is_none() {
        return;
    }
    let plan = pass.ok_or_record(plan).flatten();
    pass.publish(desired, problems, published);
    read_octavia_version(pass, &context).await;
    let scope = networking::scope(pass);
    zones(pass, &context, scope).await;
    let lists = networking(pass, &context, problems, scope).await;
    pass.report.networking = pass.cached.networking.clone();
    match (&desired.load_balancer, plan) {
        (None, _) => pass.report.load_balancer = LoadBalancerReport::None,
        (Some(_), None) => {}
        // No load balancer is created while it is uncertain on which port it would listen.
        (Some(_), Some(LoadBalancerPlan::Create)) if !desired.is_port_known(problems) => {}
        (Some(desired), Some(plan)) => {
            let step = load_balancer_step::carry_out(pass, &context, desired, plan).await;
            pass.ok_or_record(step);
        }
    }
    if !has_problem(problems, Part::Endpoint) {
        let step = endpoint(pass, &context, &published.facts).await;
        pass.ok_or_record(step);
    }
    bastion::reconcile(pass, &context).await;
    if context.has_changed.load(Ordering::Relaxed) {
        pass.cached.settled_networking = None;
    } else if let Some(lists) = lists {
        settled_networking::remember(pass, &lists);
    }
}

/// Looks up the load balancer and verifies that the credentials lead to the cluster's project. `None` where they do not,
/// or where that could not be found out.
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
    Some(found.map(|found| load_balancer_step::decide(pass, context, found)))
}

/// Sets what the conditions and the status show of the load balancer.
fn report_load_balancer(
    pass: &mut Pass<'_>,
    desired: &DesiredCluster,
    findings: Option<&Arc<Findings>>,
) {
    const KIND: &str = kind::API_SERVER_LOAD_BALANCER_READY;
    if desired.load_balancer.is_none() {
        let verdict = ConditionState {
            message: "spec.apiServer.managedLoadBalancer is not enabled".to_owned(),
            ..ConditionState::met(Reason::LoadBalancerDisabled)
        };
        pass.report.set_condition(KIND, verdict);
        return;
    }
    if let Some(known) = pass.cached.load_balancer.found().cloned() {
        let wants_floating_ip = desired.endpoint.wants_floating_ip()
            && takes_floating_ip(desired.floating_ip, known.vip)
            && pass.cached.networking.external != Lookup::Absent;
        let floating_ip = match &pass.cached.floating_ip {
            Some(read) => read.value.floating_ip_address.into(),
            None if wants_floating_ip => Lookup::Unknown,
            None => Lookup::Absent,
        };
        let state = LoadBalancerState {
            floating_ip,
            known,
            findings: findings.cloned(),
        };
        pass.report.load_balancer = LoadBalancerReport::Known(Box::new(state));
    }
    load_balancer_step::report_condition(pass, findings.map(Arc::as_ref), LOAD_BALANCER_PAUSE);
}

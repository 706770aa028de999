//! The pass over a cluster that is not being deleted: each step changes only what is missing, and none waits.

use std::{sync::Arc, time::Duration};

use super::{
    bastion,
    desired::DesiredCluster,
    endpoint::EndpointPlan,
    failure_domains, floating_ip,
    load_balancer::{plan::LoadBalancerPlan, reconcile as load_balancer_step},
    network::{self, NetworkState},
    not_colliding, observe, project,
    reconcile::{Published, Reconcile, supports_allowed_cidrs},
    report::{LoadBalancerReport, LoadBalancerState},
    router, security_groups,
    spec::{
        self,
        problems::{Part, Problem},
    },
    step_context::StepContext,
};
use crate::reconcile::{StepError, StepResult};
use crate::{
    controllers::{
        Outcome,
        identity::{self, Asker, Identity},
    },
    kubernetes::conditions::kind,
    reconcile::deletion_hooks::release_orphaned,
};
use capo_core::{
    ConditionState, FailureClass, GateOverride, Lookup, Priority, Reason, gate_override,
};
use capo_gate::findings::Findings;
use capo_openstack::network::Network;

/// What was read of the network is good for this long, as no pass of ours depends on its last change.
const NETWORKING_AGE: Duration = Duration::from_mins(5);
/// Zones come and go seldom.
const ZONES_AGE: Duration = Duration::from_mins(10);
/// How soon to look again for a load balancer that is being made, should its task not wake us.
const LOAD_BALANCER_PAUSE: Duration = Duration::from_secs(10);

/// Makes the cloud match the object as far as that is possible without waiting.
pub(crate) async fn run(mut pass: Reconcile<'_>) -> Outcome {
    let shown = pass.shown();
    let spec = pass.object.spec.clone();
    let (desired, problems) = spec::read(&shown, pass.names(), &spec);
    bastion::report(&mut pass);
    if let Err(step_error) = not_colliding(&pass) {
        pass.note(step_error);
        return pass.end().await;
    }
    let facts = gather_facts(&mut pass).await;
    let object = format!("OpenStackCluster {shown}");
    let asker = Asker {
        object: &object,
        namespace: &pass.name.namespace.clone(),
    };
    let cloud = identity::cloud(pass.context, asker, &spec.identity_ref).await;
    let published = Published {
        cloud: cloud.as_ref().ok().cloned(),
        facts,
    };
    // What is known already goes out first: no gate waits for what else this pass has to do.
    // Credentials other than the last ones go out only after they were verified.
    let cloud_changed = matches!(&cloud, Ok(cloud) if !pass.seen.is_verified(cloud));
    if !cloud_changed {
        pass.publish(&desired, &problems, &published);
    }
    let signed_in = match cloud {
        Ok(cloud) => identity::sign_in(asker, &spec.identity_ref, cloud).await,
        Err(step_error) => Err(step_error),
    };
    if let Some(identity) = pass.settle(signed_in) {
        act(&mut pass, &desired, &problems, &published, &identity).await;
    }
    report_problems(&mut pass, &desired, problems.clone());
    if let GateOverride::Refused { message } = &published.facts.operator {
        let note = format!("Annotation {}: {message}", gate_override::KEY);
        let events = &pass.context.events;
        events.warning(&pass.reference(), Reason::InvalidSpec, "Gate", &note);
    }
    pass.publish(&desired, &problems, &published);
    let ungated = desired.load_balancer.is_none() || pass.related.going();
    release_orphaned(pass.context, &pass.name, &pass.related.machines, ungated).await;
    let findings = pass.context.membership.findings(&pass.name);
    report_load_balancer(&mut pass, &desired, findings.as_ref());
    pass.report.provisioned = pass.is_clear() && pass.object.spec.control_plane_endpoint.is_some();
    if desired.load_balancer.is_some() {
        load_balancer_step::await_generation(&mut pass, findings.as_deref(), LOAD_BALANCER_PAUSE);
    }
    pass.end().await
}

/// Shows every value of the spec that can't be used.
fn report_problems(pass: &mut Reconcile<'_>, desired: &DesiredCluster, problems: Vec<Problem>) {
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
            pass.note(StepError::refused(
                problem.part.condition(),
                Reason::InvalidSpec,
                problem.message,
            ));
        }
    }
    let restricted = desired
        .load_balancer
        .as_ref()
        .is_some_and(|lb| lb.allowed_cidrs.is_some());
    let provider = pass
        .seen
        .load_balancer
        .found()
        .map(|lb| lb.provider.as_str());
    if restricted && provider.is_some_and(|provider| !supports_allowed_cidrs(provider)) {
        let note = format!(
            "OpenStackCluster {}: spec.apiServer.managedLoadBalancer.allowedCIDRs is not in force, because Octavia's \
             provider {} does not support it: every address may connect",
            desired.object,
            provider.unwrap_or_default()
        );
        let events = &pass.context.events;
        events.warning(&pass.reference(), Reason::NotSupported, "Reconcile", &note);
    }
}

/// The facts that gates ask for, as of now.
pub(crate) async fn gather_facts(pass: &mut Reconcile<'_>) -> capo_gate::desired::ClusterFacts {
    let operator = pass.annotation(gate_override::KEY).map(ToOwned::to_owned);
    observe::facts(
        pass.context,
        &pass.name,
        operator.as_deref(),
        super::is_untouchable(&pass.object, &pass.related),
        &pass.related,
        &mut pass.seen,
    )
    .await
}

async fn act(
    pass: &mut Reconcile<'_>,
    desired: &DesiredCluster,
    problems: &[Problem],
    published: &Published,
    identity: &Identity,
) {
    let reference = pass.reference();
    let context = StepContext {
        cloud: &identity.cloud,
        project: identity.project.clone(),
        desired,
        known: pass.known_ids(),
        machine_admitted: pass.related.machine_admitted(),
        events: &pass.context.events,
        object: &reference,
    };
    // Gates depend on the load balancer: nothing else that may fail stands before this lookup.
    let found = match &desired.load_balancer {
        Some(_) => load_balancer_step::look_up(pass, &context).await,
        None => Ok(None),
    };
    let is_found = matches!(&found, Ok(Some(found)) if !found.is_empty());
    let verified = project::verify(pass, &context, is_found).await;
    if pass.settle(verified).is_none() {
        return;
    }
    pass.seen.verified_cloud = Some(identity.cloud.clone());
    pass.good(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
    let plan = found.map(|found| load_balancer_step::decide(pass, &context, found));
    let plan = pass.settle(plan).flatten();
    pass.publish(desired, problems, published);
    zones(pass, &context).await;
    networking(pass, &context, problems).await;
    pass.report.networking = pass.seen.networking.clone();
    match (&desired.load_balancer, plan) {
        (None, _) => pass.report.load_balancer = LoadBalancerReport::None,
        (Some(_), None) => {}
        // The port that the load balancer would listen on is not certain.
        (Some(_), Some(LoadBalancerPlan::Create)) if !desired.is_port_known(problems) => {}
        (Some(desired), Some(plan)) => {
            let step = load_balancer_step::carry_out(pass, &context, desired, plan).await;
            pass.settle(step);
        }
    }
    if !has_problem(problems, Part::Endpoint) {
        let step = endpoint(pass, &context).await;
        pass.settle(step);
    }
}

fn has_problem(problems: &[Problem], part: Part) -> bool {
    problems.iter().any(|problem| problem.part == part)
}

/// Network, router and groups: as read a short while ago for this generation, or looked after now. Each part goes as far
/// as it can without the others, and keeps what was read of it before where it fails.
async fn networking(pass: &mut Reconcile<'_>, context: &StepContext<'_>, problems: &[Problem]) {
    if let Some((generation, at)) = pass.seen.networking_read
        && generation == pass.generation()
        && pass.now.saturating_duration_since(at) < NETWORKING_AGE
    {
        for kind in [
            kind::NETWORK_READY,
            kind::ROUTER_READY,
            kind::SECURITY_GROUPS_READY,
        ] {
            pass.good(kind);
        }
        return;
    }
    pass.seen.networking_read = None;
    let external = network::external(context, &context.desired.external).await;
    let external = pass.settle(external).map(Lookup::from);
    let network = if has_problem(problems, Part::Network) {
        network::find(context).await
    } else {
        network::network(context).await.map(Some)
    };
    let network = pass.settle(network).flatten();
    let mut complete = external.is_some() && network.is_some();
    if let Some(external) = external.clone() {
        pass.seen.networking.external = external;
    }
    if let Some(network) = network {
        let primary = primary_subnet(context, &network).await;
        let primary = pass.settle(primary);
        complete &= primary.is_some();
        if let Some(primary) = primary {
            pass.seen.networking.primary_subnet = Lookup::Found(primary);
        }
        if complete {
            pass.good(kind::NETWORK_READY);
        }
        let external = external
            .as_ref()
            .filter(|_| !has_problem(problems, Part::Router));
        complete &= router(pass, context, &network, external).await;
        complete &= groups(pass, context, &network).await;
        pass.seen.networking.network = Lookup::Found(network);
    }
    complete &= load_balancer_network(pass, context, problems).await;
    if complete {
        pass.seen.networking_read = Some((pass.generation(), pass.now));
    }
}

/// The router step; without a known external network, or with a value that can't be used, the router is only read.
async fn router(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
    network: &NetworkState,
    external: Option<&Lookup<Network>>,
) -> bool {
    let step = match external {
        Some(external) => router::router(context, network, external.found()).await,
        None => router::find(context).await,
    };
    let Some(router) = pass.settle(step) else {
        return false;
    };
    pass.seen.networking.router = router.into();
    if external.is_some() {
        pass.good(kind::ROUTER_READY);
    }
    external.is_some()
}

async fn groups(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
    network: &NetworkState,
) -> bool {
    let groups = match &context.desired.security {
        Some(desired) => {
            let groups = security_groups::groups(context, desired, &network.ranges()).await;
            match pass.settle(groups) {
                Some(groups) => Lookup::Found(groups),
                None => return false,
            }
        }
        None => Lookup::Absent,
    };
    pass.seen.networking.groups = groups;
    pass.good(kind::SECURITY_GROUPS_READY);
    true
}

async fn load_balancer_network(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
    problems: &[Problem],
) -> bool {
    let own = context
        .desired
        .load_balancer
        .as_ref()
        .filter(|lb| lb.has_own_network());
    let Some(desired) = own else {
        pass.seen.networking.load_balancer_network = Lookup::Absent;
        return true;
    };
    if has_problem(problems, Part::LoadBalancerNetwork) {
        return false;
    }
    let found = network::of_load_balancer(context, desired).await;
    match pass.settle(found) {
        Some(network) => {
            pass.seen.networking.load_balancer_network = Lookup::Found(network);
            true
        }
        None => false,
    }
}

async fn primary_subnet(context: &StepContext<'_>, network: &NetworkState) -> StepResult<String> {
    if let Some(reference) = &context.desired.primary_subnet {
        let within = Some(network.network.id.as_str());
        let subnet = network::subnet_by(context, reference, within, "spec.primarySubnet").await?;
        return Ok(subnet.id.into());
    }
    Ok(network
        .subnets
        .first()
        .map(|subnet| subnet.id.to_string())
        .unwrap_or_default())
}

async fn zones(pass: &mut Reconcile<'_>, context: &StepContext<'_>) {
    let fresh = pass
        .seen
        .zones
        .as_ref()
        .filter(|(_, at)| pass.now.saturating_duration_since(*at) < ZONES_AGE)
        .map(|(names, _)| names.clone());
    let names = match fresh {
        Some(names) => names,
        None => match context.cloud.availability_zones(Priority::Settling).await {
            Ok(zones) => {
                let available = zones.into_iter().filter(|zone| zone.available);
                let names: Vec<String> = available.map(|zone| zone.name).collect();
                pass.seen.zones = Some((names.clone(), pass.now));
                names
            }
            Err(error) => {
                zones_failed(pass, &error);
                return;
            }
        },
    };
    pass.report.zones = Some(failure_domains::plan(
        &names,
        &context.desired.control_plane_zones,
        context.desired.omit_zone,
    ));
}

/// The zones that are in the status stay. A cluster that is not provisioned yet waits for them, because its first machines
/// would be placed without them, unless the credentials may not list zones at all.
fn zones_failed(pass: &mut Reconcile<'_>, error: &capo_openstack::Error) {
    const DOING: &str = "Listing availability zones for status.failureDomains";
    let note = format!("{DOING}: {error}");
    let events = &pass.context.events;
    events.warning(
        &pass.reference(),
        Reason::OpenStackError,
        "Reconcile",
        &note,
    );
    if error.class() == FailureClass::Denied {
        return;
    }
    let step_error = StepError::cloud(kind::READY, Reason::OpenStackError, DOING, error);
    if !pass.is_provisioned() {
        pass.report.ready = Some(step_error.state);
    }
    pass.note_wait(step_error.outcome);
}

/// Where the API server is reached, with the floating IP that it takes.
async fn endpoint(pass: &mut Reconcile<'_>, context: &StepContext<'_>) -> StepResult<()> {
    let mut inputs = context.desired.endpoint.clone();
    let external = pass.seen.networking.external.clone();
    if !external.is_known() && inputs.floating_ip && inputs.external_network {
        // NetworkReady shows why it is unknown; an endpoint that exists stays as it is.
        return Ok(());
    }
    inputs.external_network = external.found().is_some();
    if inputs.floating_ip && inputs.external_network && !pass.seen.networking.router.is_known() {
        // A floating IP works through the router, and RouterReady shows why that is unknown.
        return Ok(());
    }
    let external = external.found().map(|network| network.id.as_str());
    let wants_floating_ip = context.desired.wants_floating_ip();
    let floating = match (external, pass.seen.load_balancer.found().cloned()) {
        (Some(external), Some(balancer)) if wants_floating_ip => {
            load_balancer_step::floating_ip(pass, context, external, &balancer).await?
        }
        _ => None,
    };
    let host = match inputs.plan() {
        EndpointPlan::Given { .. } => None,
        EndpointPlan::LoadBalancer { .. } => {
            let vip = pass.seen.load_balancer.found().and_then(|lb| lb.vip);
            let Some(address) = floating.or(vip) else {
                // What keeps the load balancer from being created has a condition of its own.
                let told = pass.report.condition(kind::API_SERVER_LOAD_BALANCER_READY);
                if told.is_none() && pass.seen.networking.network.is_known() {
                    let text = "The load balancer has no address yet";
                    let verdict = ConditionState::unmet(Reason::APIEndpointConfigFailed, text);
                    pass.report.set_condition(kind::API_ENDPOINT_READY, verdict);
                }
                return Ok(());
            };
            Some(address.to_string())
        }
        EndpointPlan::FloatingIp { .. } => {
            let fip = floating_ip::ensure(context, external.unwrap_or_default(), None).await?;
            fip.floating_ip_address.map(|address| address.to_string())
        }
        EndpointPlan::FixedIp { host, .. } => Some(host),
        EndpointPlan::Nowhere => {
            return Err(StepError::refused(
                kind::API_ENDPOINT_READY,
                Reason::APIEndpointConfigFailed,
                format!(
                    "OpenStackCluster {}: nothing says where the API server is reached; one of \
                     spec.controlPlaneEndpoint, spec.apiServer.managedLoadBalancer, a floating IP (with an external \
                     network), or spec.apiServer.fixedIP with enableFloatingIP false is needed",
                    context.desired.object
                ),
            ));
        }
    };
    if let Some(host) = host {
        pass.write_endpoint(&host, inputs.port()).await?;
    } else if pass
        .object
        .spec
        .control_plane_endpoint
        .as_ref()
        .is_some_and(|e| e.port.is_none())
        && let Some(given) = inputs.given_host.clone()
    {
        pass.write_endpoint(&given, inputs.port()).await?;
    }
    if pass.report.condition(kind::API_ENDPOINT_READY).is_none() {
        pass.good(kind::API_ENDPOINT_READY);
    }
    Ok(())
}

/// What the conditions and the status tell of the load balancer.
fn report_load_balancer(
    pass: &mut Reconcile<'_>,
    desired: &DesiredCluster,
    findings: Option<&Arc<Findings>>,
) {
    const KIND: &str = kind::API_SERVER_LOAD_BALANCER_READY;
    let wants_floating_ip =
        desired.wants_floating_ip() && pass.seen.networking.external != Lookup::Absent;
    let Some(desired) = &desired.load_balancer else {
        let verdict = ConditionState {
            message: "spec.apiServer.managedLoadBalancer is not enabled".to_owned(),
            ..ConditionState::met(Reason::LoadBalancerDisabled)
        };
        pass.report.set_condition(KIND, verdict);
        return;
    };
    if let Some(known) = pass.seen.load_balancer.found().cloned() {
        let ranges = if supports_allowed_cidrs(&known.provider) {
            pass.allowed_cidrs(desired.allowed_cidrs.as_deref())
        } else {
            Some(Vec::new())
        };
        let floating_ip = match &pass.seen.floating_ip {
            Some((fip, _)) => fip.floating_ip_address.into(),
            None if wants_floating_ip => Lookup::Unknown,
            None => Lookup::Absent,
        };
        let state = LoadBalancerState {
            floating_ip,
            known,
            allowed_cidrs: ranges.map(|ranges| ranges.iter().map(ToString::to_string).collect()),
            findings: findings.cloned(),
        };
        pass.report.load_balancer = LoadBalancerReport::Known(Box::new(state));
    }
    load_balancer_step::tell(pass, findings.map(Arc::as_ref), LOAD_BALANCER_PAUSE);
}

//! The pass over a cluster that is to be: as many steps as possible, each only where something is missing.

use std::{sync::Arc, time::Duration};

use super::{
    desired::DesiredCluster,
    endpoint::EndpointPlan,
    failure_domains, floating_ip,
    halt::{Halt, Step},
    load_balancer::reconcile as load_balancer_step,
    memory::NetworkingState,
    network, not_colliding, observe, project,
    reconcile::Reconcile,
    report::{BASTION_READY, LoadBalancerReport, LoadBalancerState},
    router, security_groups, spec,
    step_context::StepContext,
};
use crate::{
    controllers::{
        Outcome,
        identity::{self, Asker, Identity},
    },
    kubernetes::conditions::kind,
    reconcile::deletion_hooks::release_orphaned,
};
use capo_core::Priority;
use capo_core::{ConditionState, GateOverride, Reason, gate_override};
use capo_gate::findings::Findings;

/// What was read of the network is good for this long, as no pass of ours depends on its last change.
const NETWORKING_AGE: Duration = Duration::from_mins(5);
/// Zones come and go seldom.
const ZONES_AGE: Duration = Duration::from_mins(10);
/// How soon to look again for a load balancer that is being made, should its task not wake us.
const LOAD_BALANCER_PAUSE: Duration = Duration::from_secs(10);

/// Makes the cloud match the object as far as that goes without waiting.
pub(crate) async fn run(mut pass: Reconcile<'_>) -> Outcome {
    let shown = pass.shown();
    let spec = pass.object.spec.clone();
    let (desired, problems) = spec::read(&shown, pass.names(), &spec);
    if let Some(message) = spec::not_supported(&shown, &spec) {
        pass.report.set_condition(
            BASTION_READY,
            ConditionState::unmet(Reason::NotSupported, message),
        );
    }
    if let Err(halt) = not_colliding(&pass) {
        pass.note(halt);
        return pass.end().await;
    }
    let facts = gather_facts(&mut pass).await;
    let object = format!("OpenStackCluster {shown}");
    let asker = Asker {
        object: &object,
        namespace: &pass.name.namespace.clone(),
    };
    let cloud = identity::cloud(pass.context, asker, &spec.identity_ref).await;
    // What is known already goes out first: no gate waits for what else this pass has to do.
    // Other credentials than the last ones go out only after they were verified.
    let other = matches!(&cloud, Ok(cloud) if !pass.seen.is_verified(cloud));
    if !other && (pass.seen.load_balancer.found().is_some() || desired.load_balancer.is_none()) {
        pass.publish(cloud.as_ref().ok().cloned(), &desired, facts.clone());
    }
    let signed_in = match cloud {
        Ok(cloud) => identity::sign_in(asker, &spec.identity_ref, cloud).await,
        Err(halt) => Err(halt),
    };
    let identity = pass.settle(signed_in);
    if let Some(identity) = &identity {
        build(&mut pass, &desired, identity, problems.is_empty()).await;
    }
    for problem in problems {
        pass.note(Halt::refused(
            problem.condition,
            problem.reason,
            problem.message,
        ));
    }
    if let GateOverride::Refused { message } = &facts.operator {
        let note = format!("Annotation {}: {message}", gate_override::KEY);
        let events = &pass.context.events;
        events.warning(&pass.reference(), Reason::InvalidSpec, "Gate", &note);
    }
    let cloud = identity.map(|identity| identity.cloud);
    let cloud = cloud.filter(|cloud| pass.seen.is_verified(cloud));
    pass.publish(cloud, &desired, facts);
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

/// Looks for the load balancer first, because gates wait for it: neither a bad value in the spec nor a failure of another
/// step keeps it unknown.
async fn build(
    pass: &mut Reconcile<'_>,
    desired: &DesiredCluster,
    identity: &Identity,
    spec_is_valid: bool,
) {
    let reference = pass.reference();
    let context = StepContext {
        cloud: &identity.cloud,
        project: identity.project.clone(),
        desired,
        known: pass.known_ids(),
        events: &pass.context.events,
        object: &reference,
    };
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
    let plan = pass.settle(plan);
    if !spec_is_valid {
        return;
    }
    zones(pass, &context).await;
    let Some(networking) = networking(pass, &context).await else {
        return;
    };
    pass.report.networking = Some(networking.clone());
    match (&desired.load_balancer, plan) {
        (Some(desired), Some(Some(plan))) => {
            let network = networking
                .load_balancer_network
                .as_ref()
                .unwrap_or(&networking.network);
            let step = load_balancer_step::carry_out(pass, &context, desired, network, plan).await;
            pass.settle(step);
        }
        (Some(_), _) => {}
        (None, _) => pass.report.balancer = LoadBalancerReport::None,
    }
    let step = endpoint(pass, &context, &networking).await;
    pass.settle(step);
}

/// Network, router and groups: as read a short while ago for this generation, or looked after now.
async fn networking(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
) -> Option<NetworkingState> {
    if let Some((known, generation, at)) = &pass.seen.networking
        && *generation == pass.generation()
        && pass.now.saturating_duration_since(*at) < NETWORKING_AGE
    {
        let known = known.clone();
        for kind in [
            kind::NETWORK_READY,
            kind::ROUTER_READY,
            kind::SECURITY_GROUPS_READY,
        ] {
            pass.good(kind);
        }
        return Some(known);
    }
    pass.seen.networking = None;
    let external = network::external(context, &context.desired.external).await;
    let external = pass.settle(external)?;
    let network = network::network(context).await;
    let network = pass.settle(network)?;
    let primary_subnet = primary_subnet(context, &network).await;
    let primary_subnet = pass.settle(primary_subnet)?;
    pass.good(kind::NETWORK_READY);
    let router = router::router(context, &network, external.as_ref()).await;
    let router = pass.settle(router);
    if router.is_some() {
        pass.good(kind::ROUTER_READY);
    }
    let groups = match &context.desired.security {
        Some(desired) => {
            let groups = security_groups::groups(context, desired, &network.ranges()).await;
            pass.settle(groups).map(Some)
        }
        None => Some(None),
    };
    if groups.is_some() {
        pass.good(kind::SECURITY_GROUPS_READY);
    }
    let balancer_network = match &context.desired.load_balancer {
        Some(desired) if desired.network.is_some() || !desired.subnets.is_empty() => {
            let field = "spec.apiServer.managedLoadBalancer";
            let (network_field, subnets_field) =
                (format!("{field}.network"), format!("{field}.subnets"));
            let found = network::existing(
                context,
                desired.network.as_ref(),
                &desired.subnets,
                &network_field,
                &subnets_field,
            )
            .await;
            pass.settle(found).map(Some)
        }
        Some(_) => Some(Some(network.clone())),
        None => Some(None),
    };
    let networking = NetworkingState {
        external,
        network,
        router: router?,
        groups: groups?,
        load_balancer_network: balancer_network?,
        primary_subnet,
    };
    pass.seen.networking = Some((networking.clone(), pass.generation(), pass.now));
    Some(networking)
}

async fn primary_subnet(
    context: &StepContext<'_>,
    network: &network::NetworkState,
) -> Step<String> {
    if let Some(lookup) = &context.desired.primary_subnet {
        let within = Some(network.network.id.as_str());
        let subnet = network::subnet_by(context, lookup, within, "spec.primarySubnet").await?;
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
                pass.note(Halt::cloud(
                    kind::API_ENDPOINT_READY,
                    Reason::OpenStackError,
                    "Listing availability zones for status.failureDomains",
                    &error,
                ));
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

/// Where the API server is reached, with the floating IP that it takes.
async fn endpoint(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
    networking: &NetworkingState,
) -> Step<()> {
    let mut inputs = context.desired.endpoint.clone();
    inputs.external_network = networking.external.is_some();
    let external = networking.external.as_ref().map(|n| n.id.as_str());
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
                // What keeps the load balancer from being there tells more than its absence.
                if pass
                    .report
                    .condition(kind::API_SERVER_LOAD_BALANCER_READY)
                    .is_none()
                {
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
            return Err(Halt::refused(
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
    let Some(desired) = &desired.load_balancer else {
        let verdict = ConditionState {
            message: "spec.apiServer.managedLoadBalancer is not enabled".to_owned(),
            ..ConditionState::met(Reason::LoadBalancerDisabled)
        };
        pass.report.set_condition(KIND, verdict);
        return;
    };
    let networking = pass.seen.networking.as_ref().map(|(there, _, _)| there);
    if let Some(known) = pass.seen.load_balancer.found().cloned() {
        let ranges = networking
            .map(|there| super::load_balancer::allowed_cidrs::ranges(&desired.allowed_cidrs, there))
            .unwrap_or_default();
        let balancer = LoadBalancerState {
            floating_ip: pass
                .seen
                .floating_ip
                .as_ref()
                .and_then(|(fip, _)| fip.floating_ip_address),
            known,
            allowed_cidrs: ranges.iter().map(ToString::to_string).collect(),
            findings: findings.cloned(),
        };
        pass.report.balancer = LoadBalancerReport::Known(Box::new(balancer));
    }
    load_balancer_step::tell(pass, findings.map(Arc::as_ref), LOAD_BALANCER_PAUSE);
}

//! The pass over a cluster that is to be: as many steps as possible, each only where something is missing.

use std::{sync::Arc, time::Duration};

use super::{
    balance,
    endpoint::EndpointPlan,
    facts, failure_domains, floating_ip,
    halt::{Halt, Step},
    hooks,
    memory::Surroundings,
    network, not_colliding,
    report::{BASTION_READY, BalancerReport, BalancerWord},
    router, security_groups,
    shop::Shop,
    spec,
    visit::Visit,
    wanted::Wanted,
};
use crate::{
    controllers::{
        Outcome,
        identity::{self, Asker, Identity},
    },
    status::conditions::kind,
};
use capo_core::Priority;
use capo_core::{ConditionState, GateOverride, Reason, gate_override};
use capo_gate::findings::Findings;

/// What was read of the network is good for this long, as no pass of ours depends on its last change.
const SURROUNDINGS_AGE: Duration = Duration::from_mins(5);
/// Zones come and go seldom.
const ZONES_AGE: Duration = Duration::from_mins(10);
/// How soon to look again for a load balancer that is being made, should its task not wake us.
const BALANCER_PAUSE: Duration = Duration::from_secs(10);

/// Makes the cloud match the object as far as that goes without waiting.
pub(crate) async fn run(mut visit: Visit<'_>) -> Outcome {
    let shown = visit.shown();
    let spec = visit.object.spec.clone();
    let (wanted, problems) = spec::read(&shown, visit.names(), &spec);
    if let Some(message) = spec::not_supported(&shown, &spec) {
        visit.report.tell(
            BASTION_READY,
            ConditionState::unmet(Reason::NotSupported, message),
        );
    }
    if let Err(halt) = not_colliding(&visit) {
        visit.note(halt);
        return visit.end().await;
    }
    let facts = gather_facts(&mut visit).await;
    let object = format!("OpenStackCluster {shown}");
    let asker = Asker {
        object: &object,
        namespace: &visit.name.namespace.clone(),
    };
    let cloud = identity::cloud(visit.context, asker, &spec.identity_ref).await;
    let for_membership = cloud.as_ref().ok().cloned();
    // What is known already goes out first: no gate waits for what else this pass has to do.
    if visit.seen.load_balancer.is_some() || wanted.load_balancer.is_none() {
        visit.hand_over(for_membership.clone(), &wanted, facts.clone());
    }
    let signed_in = match cloud {
        Ok(cloud) => identity::sign_in(asker, &spec.identity_ref, cloud).await,
        Err(halt) => Err(halt),
    };
    if let Some(identity) = visit.settle(signed_in) {
        visit.good(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
        if problems.is_empty() {
            build(&mut visit, &wanted, &identity).await;
        }
    }
    for problem in problems {
        visit.note(Halt::refused(
            problem.condition,
            problem.reason,
            problem.message,
        ));
    }
    if let GateOverride::Refused { message } = &facts.operator {
        let note = format!("Annotation {}: {message}", gate_override::KEY);
        let events = &visit.context.events;
        events.warning(&visit.reference(), Reason::InvalidSpec, "Gate", &note);
    }
    visit.hand_over(for_membership, &wanted, facts);
    hooks::release_orphans(&visit, wanted.load_balancer.is_none()).await;
    let findings = visit.context.membership.findings(&visit.name);
    tell_balancer(&mut visit, &wanted, findings.as_ref());
    visit.report.provisioned =
        visit.is_clear() && visit.object.spec.control_plane_endpoint.is_some();
    if wanted.load_balancer.is_some() {
        balance::await_generation(&mut visit, findings.as_deref(), BALANCER_PAUSE);
    }
    visit.end().await
}

/// The facts that gates ask for, as of now.
pub(crate) async fn gather_facts(visit: &mut Visit<'_>) -> capo_gate::desired::ClusterFacts {
    let operator = visit.annotation(gate_override::KEY).map(ToOwned::to_owned);
    facts::facts(
        visit.context,
        &visit.name,
        operator.as_deref(),
        super::is_untouchable(&visit.object, &visit.neighbours),
        &visit.neighbours,
        &mut visit.seen,
    )
    .await
}

async fn build(visit: &mut Visit<'_>, wanted: &Wanted, identity: &Identity) {
    let reference = visit.reference();
    let shop = Shop {
        cloud: &identity.cloud,
        project: identity.project.clone(),
        wanted,
        known: visit.known_ids(),
        events: &visit.context.events,
        object: &reference,
    };
    zones(visit, &shop).await;
    let Some(surroundings) = surroundings(visit, &shop).await else {
        return;
    };
    visit.report.surroundings = Some(surroundings.clone());
    match &wanted.load_balancer {
        Some(wish) => {
            let network = surroundings
                .load_balancer_network
                .as_ref()
                .unwrap_or(&surroundings.network);
            let step = balance::load_balancer(visit, &shop, wish, network).await;
            visit.settle(step);
        }
        None => visit.report.balancer = BalancerWord::None,
    }
    let step = endpoint(visit, &shop, &surroundings).await;
    visit.settle(step);
}

/// Network, router and groups: as read a short while ago for this generation, or looked after now.
async fn surroundings(visit: &mut Visit<'_>, shop: &Shop<'_>) -> Option<Surroundings> {
    if let Some((known, generation, at)) = &visit.seen.surroundings
        && *generation == visit.generation()
        && visit.now.saturating_duration_since(*at) < SURROUNDINGS_AGE
    {
        let known = known.clone();
        for kind in [
            kind::NETWORK_READY,
            kind::ROUTER_READY,
            kind::SECURITY_GROUPS_READY,
        ] {
            visit.good(kind);
        }
        return Some(known);
    }
    visit.seen.surroundings = None;
    let external = network::external(shop, &shop.wanted.external).await;
    let external = visit.settle(external)?;
    let network = network::network(shop).await;
    let network = visit.settle(network)?;
    let primary_subnet = primary_subnet(shop, &network).await;
    let primary_subnet = visit.settle(primary_subnet)?;
    visit.good(kind::NETWORK_READY);
    let router = router::router(shop, &network, external.as_ref()).await;
    let router = visit.settle(router);
    if router.is_some() {
        visit.good(kind::ROUTER_READY);
    }
    let groups = match &shop.wanted.security {
        Some(wish) => {
            let groups = security_groups::groups(shop, wish, &network.ranges()).await;
            visit.settle(groups).map(Some)
        }
        None => Some(None),
    };
    if groups.is_some() {
        visit.good(kind::SECURITY_GROUPS_READY);
    }
    let balancer_network = match &shop.wanted.load_balancer {
        Some(wish) if wish.network.is_some() || !wish.subnets.is_empty() => {
            let field = "spec.apiServer.managedLoadBalancer";
            let (network_field, subnets_field) =
                (format!("{field}.network"), format!("{field}.subnets"));
            let found = network::existing(
                shop,
                wish.network.as_ref(),
                &wish.subnets,
                &network_field,
                &subnets_field,
            )
            .await;
            visit.settle(found).map(Some)
        }
        Some(_) => Some(Some(network.clone())),
        None => Some(None),
    };
    let surroundings = Surroundings {
        external,
        network,
        router: router?,
        groups: groups?,
        load_balancer_network: balancer_network?,
        primary_subnet,
    };
    visit.seen.surroundings = Some((surroundings.clone(), visit.generation(), visit.now));
    Some(surroundings)
}

async fn primary_subnet(shop: &Shop<'_>, network: &network::NetworkState) -> Step<String> {
    if let Some(lookup) = &shop.wanted.primary_subnet {
        let within = Some(network.network.id.as_str());
        let subnet = network::subnet_by(shop, lookup, within, "spec.primarySubnet").await?;
        return Ok(subnet.id);
    }
    Ok(network
        .subnets
        .first()
        .map(|subnet| subnet.id.clone())
        .unwrap_or_default())
}

async fn zones(visit: &mut Visit<'_>, shop: &Shop<'_>) {
    let fresh = visit
        .seen
        .zones
        .as_ref()
        .filter(|(_, at)| visit.now.saturating_duration_since(*at) < ZONES_AGE)
        .map(|(names, _)| names.clone());
    let names = match fresh {
        Some(names) => names,
        None => match shop.cloud.availability_zones(Priority::Settling).await {
            Ok(zones) => {
                let available = zones.into_iter().filter(|zone| zone.available);
                let names: Vec<String> = available.map(|zone| zone.name).collect();
                visit.seen.zones = Some((names.clone(), visit.now));
                names
            }
            Err(error) => {
                visit.note(Halt::cloud(
                    kind::API_ENDPOINT_READY,
                    Reason::OpenStackError,
                    "Listing availability zones for status.failureDomains",
                    &error,
                ));
                return;
            }
        },
    };
    visit.report.zones = Some(failure_domains::plan(
        &names,
        &shop.wanted.control_plane_zones,
        shop.wanted.omit_zone,
    ));
}

/// Where the API server is reached, with the floating IP that it takes.
async fn endpoint(visit: &mut Visit<'_>, shop: &Shop<'_>, surroundings: &Surroundings) -> Step<()> {
    let mut inputs = shop.wanted.endpoint.clone();
    inputs.external_network = surroundings.external.is_some();
    let external = surroundings.external.as_ref().map(|n| n.id.as_str());
    let wants_floating_ip = shop.wanted.wants_floating_ip();
    let floating = match (external, visit.seen.load_balancer.clone()) {
        (Some(external), Some(balancer)) if wants_floating_ip => {
            balance::floating_ip(visit, shop, external, &balancer).await?
        }
        _ => None,
    };
    let host = match inputs.plan() {
        EndpointPlan::Given { .. } => None,
        EndpointPlan::LoadBalancer { .. } => {
            let vip = visit.seen.load_balancer.as_ref().and_then(|lb| lb.vip);
            let Some(address) = floating.or(vip) else {
                // What keeps the load balancer from being there tells more than its absence.
                if visit
                    .report
                    .told(kind::API_SERVER_LOAD_BALANCER_READY)
                    .is_none()
                {
                    let text = "The load balancer has no address yet";
                    let verdict = ConditionState::unmet(Reason::APIEndpointConfigFailed, text);
                    visit.report.tell(kind::API_ENDPOINT_READY, verdict);
                }
                return Ok(());
            };
            Some(address.to_string())
        }
        EndpointPlan::FloatingIp { .. } => {
            let fip = floating_ip::ensure(shop, external.unwrap_or_default(), None).await?;
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
                    shop.wanted.object
                ),
            ));
        }
    };
    if let Some(host) = host {
        visit.write_endpoint(&host, inputs.port()).await?;
    } else if visit
        .object
        .spec
        .control_plane_endpoint
        .as_ref()
        .is_some_and(|e| e.port.is_none())
        && let Some(given) = inputs.given_host.clone()
    {
        visit.write_endpoint(&given, inputs.port()).await?;
    }
    if visit.report.told(kind::API_ENDPOINT_READY).is_none() {
        visit.good(kind::API_ENDPOINT_READY);
    }
    Ok(())
}

/// What the conditions and the status tell of the load balancer.
fn tell_balancer(visit: &mut Visit<'_>, wanted: &Wanted, findings: Option<&Arc<Findings>>) {
    const KIND: &str = kind::API_SERVER_LOAD_BALANCER_READY;
    let Some(wish) = &wanted.load_balancer else {
        let verdict = ConditionState {
            message: "spec.apiServer.managedLoadBalancer is not enabled".to_owned(),
            ..ConditionState::met(Reason::LoadBalancerDisabled)
        };
        visit.report.tell(KIND, verdict);
        return;
    };
    let surroundings = visit.seen.surroundings.as_ref().map(|(there, _, _)| there);
    if let Some(known) = visit.seen.load_balancer.clone() {
        let ranges = surroundings
            .map(|there| super::allowed::ranges(&wish.allowed_cidrs, there))
            .unwrap_or_default();
        let balancer = BalancerReport {
            floating_ip: visit
                .seen
                .floating_ip
                .as_ref()
                .and_then(|(fip, _)| fip.floating_ip_address),
            known,
            allowed_cidrs: ranges.iter().map(ToString::to_string).collect(),
            findings: findings.cloned(),
        };
        visit.report.balancer = BalancerWord::Known(Box::new(balancer));
    }
    balance::tell(visit, findings.map(Arc::as_ref), BALANCER_PAUSE);
}

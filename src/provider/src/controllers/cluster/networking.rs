//! Network, router and security groups in a pass.

use std::time::Duration;

use super::{
    network::{self, NetworkState},
    reconcile::Reconcile,
    router, security_groups,
    spec::problems::{Part, Problem, has_problem},
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind;
use crate::reconcile::StepResult;
use capo_core::Lookup;
use capo_openstack::network::Network;

/// What was read is used for this long, because no pass depends on the last change.
const NETWORKING_AGE: Duration = Duration::from_mins(5);

/// Network, router and groups: as read a short while ago for this generation, or looked after now. Each part goes as far
/// as it can without the others, and keeps what was read of it before where it fails.
pub(crate) async fn networking(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
    problems: &[Problem],
) {
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

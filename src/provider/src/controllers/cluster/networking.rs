//! Reads and creates network, router and security groups in a pass.

use std::{sync::Arc, time::Duration};

use super::{
    desired::Reference,
    network,
    observation::{NetworkState, RotatingRead},
    pass::Pass,
    router, security_groups, settled_networking,
    step_context::StepContext,
    validate::problems::{Problem, SpecPart, has_problem},
};
use crate::kubernetes::conditions::kind;
use crate::reconcile::ReadAt;
use crate::reconcile::StepResult;
use capo_core::Lookup;
use capo_core::ids::SubnetId;
use capo_openstack::network::{Network, ProjectNetworking};

/// The parts of the networking that a pass reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nothing is read. The values of a recent read are used.
    Nothing,
    /// Everything that may have changed is read, and in addition one of the parts that hardly ever change.
    Part(RotatingRead),
    /// Everything is read.
    All,
}

impl Scope {
    /// The scope of a pass over `generation`. `read` is the generation of the last read without an error and the age of
    /// that read. Values that are younger than half the sync period are used without a new read, because no pass
    /// depends on the latest change.
    pub(crate) fn of(
        read: Option<(i64, Duration)>,
        generation: i64,
        sync_period: Duration,
        turn: RotatingRead,
    ) -> Self {
        match read {
            Some((of, age)) if of == generation && age < sync_period / 2 => Self::Nothing,
            Some((of, _)) if of == generation => Self::Part(turn),
            _ => Self::All,
        }
    }

    /// Whether the pass reads this one of the parts that hardly ever change.
    pub(crate) fn includes(self, turn: RotatingRead) -> bool {
        match self {
            Self::Nothing => false,
            Self::Part(its) => its == turn,
            Self::All => true,
        }
    }
}

/// The scope of this pass.
pub(crate) fn scope(pass: &Pass<'_>) -> Scope {
    let read = pass.cached.networking_read.as_ref();
    let read = read.map(|read| (read.value, read.age(pass.now)));
    let sync_period = pass.context.settings.sync_period;
    Scope::of(read, pass.generation(), sync_period, pass.cached.turn)
}

/// Reads and creates network, router and security groups, within `scope`. Each part goes on as far as it can without
/// the others. If a part fails, its former value is kept. Returns the project's lists for
/// [`settled_networking::remember`] if nothing failed; they were read before everything else.
pub(crate) async fn reconcile(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    problems: &[Problem],
    mut scope: Scope,
) -> Option<Arc<ProjectNetworking>> {
    if scope == Scope::Nothing {
        set_all_true(pass);
        return None;
    }
    let lists = settled_networking::read_lists(pass, context).await;
    if let (Scope::Part(_), Some(lists)) = (scope, &lists) {
        if settled_networking::is_unchanged(pass, lists) {
            pass.cached.networking_read = Some(ReadAt::new(pass.generation(), pass.now));
            if let Some(floating_ip) = &mut pass.cached.floating_ip {
                floating_ip.at = pass.now;
            }
            set_all_true(pass);
            return None;
        }
        scope = Scope::All;
    }
    pass.cached.networking_read = None;
    pass.cached.settled_networking = None;
    let external = if scope.includes(RotatingRead::ExternalNetwork) {
        let external = network::find_external(context, &context.desired.external).await;
        pass.ok_or_record(external).map(Lookup::from)
    } else {
        Some(pass.cached.networking.external.clone())
    };
    let kept = pass.cached.networking.network.found().cloned();
    let kept = kept.filter(|_| !scope.includes(RotatingRead::Network));
    let network = if has_problem(problems, SpecPart::Network) {
        network::find(context).await
    } else {
        network::ensure(context, kept.as_ref()).await.map(Some)
    };
    let network = pass.ok_or_record(network).flatten();
    let mut complete = external.is_some() && network.is_some();
    if let Some(external) = external.clone() {
        pass.cached.networking.external = external;
    }
    if let Some(network) = network {
        let primary = find_primary_subnet(context, &network).await;
        let primary = pass.ok_or_record(primary);
        complete &= primary.is_some();
        if let Some(primary) = primary {
            pass.cached.networking.primary_subnet = Lookup::Found(primary);
        }
        if complete {
            pass.set_true(kind::NETWORK_READY);
        }
        let external = external
            .as_ref()
            .filter(|_| !has_problem(problems, SpecPart::Router));
        complete &= reconcile_router(pass, context, &network, external, scope).await;
        complete &= reconcile_security_groups(pass, context, &network).await;
        pass.cached.networking.network = Lookup::Found(network);
    }
    if scope.includes(RotatingRead::Network) {
        complete &= read_load_balancer_network(pass, context, problems).await;
    }
    if complete {
        pass.cached.networking_read = Some(ReadAt::new(pass.generation(), pass.now));
        if let Scope::Part(turn) = scope {
            pass.cached.turn = turn.next();
        }
    }
    lists.filter(|_| complete)
}

/// Sets the conditions of all parts to True, because nothing has changed since the last read without an error.
fn set_all_true(pass: &mut Pass<'_>) {
    for kind in [
        kind::NETWORK_READY,
        kind::ROUTER_READY,
        kind::SECURITY_GROUPS_READY,
    ] {
        pass.set_true(kind);
    }
}

/// The router step. If the external network is unknown or a value of the spec can't be used, the router is only read.
async fn reconcile_router(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    network: &NetworkState,
    external: Option<&Lookup<Network>>,
    scope: Scope,
) -> bool {
    let kept = pass.cached.networking.router.found();
    let kept = kept.filter(|_| !scope.includes(RotatingRead::Router));
    let step = match external {
        Some(external) => router::ensure(context, network, external.found(), kept).await,
        None => router::find(context).await,
    };
    let Some(router) = pass.ok_or_record(step) else {
        return false;
    };
    pass.cached.networking.router = router.into();
    if external.is_some() {
        pass.set_true(kind::ROUTER_READY);
    }
    external.is_some()
}

async fn reconcile_security_groups(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    network: &NetworkState,
) -> bool {
    let groups = match &context.desired.security {
        Some(desired) => {
            let groups = security_groups::ensure(context, desired, &network.ranges()).await;
            match pass.ok_or_record(groups) {
                Some(groups) => Lookup::Found(groups),
                None => return false,
            }
        }
        None => Lookup::Absent,
    };
    pass.cached.networking.groups = groups;
    pass.set_true(kind::SECURITY_GROUPS_READY);
    true
}

async fn read_load_balancer_network(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    problems: &[Problem],
) -> bool {
    let own = context
        .desired
        .load_balancer
        .as_ref()
        .filter(|lb| lb.has_own_network());
    let Some(desired) = own else {
        pass.cached.networking.load_balancer_network = Lookup::Absent;
        return true;
    };
    if has_problem(problems, SpecPart::LoadBalancerNetwork) {
        return false;
    }
    let found = network::find_for_load_balancer(context, desired).await;
    match pass.ok_or_record(found) {
        Some(network) => {
            pass.cached.networking.load_balancer_network = Lookup::Found(network);
            true
        }
        None => false,
    }
}

async fn find_primary_subnet(
    context: &StepContext<'_>,
    network: &NetworkState,
) -> StepResult<SubnetId> {
    if let Some(reference) = &context.desired.primary_subnet {
        let listed = network.subnets.iter();
        let mut listed = listed.filter(|subnet| *reference == Reference::Id(subnet.id.clone()));
        if let Some(subnet) = listed.next() {
            return Ok(subnet.id.clone());
        }
        let within = Some(&network.network.id);
        let subnet = network::find_subnet(context, reference, within, "spec.primarySubnet").await?;
        return Ok(subnet.id);
    }
    Ok(network
        .subnets
        .first()
        .map(|subnet| subnet.id.clone())
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_read_for_another_generation_and_after_an_error_else_one_in_turn() {
        let sync_period = Duration::from_mins(10);
        let at = |generation, minutes| Some((generation, Duration::from_mins(minutes)));
        let cases = [
            (None, Scope::All),
            (at(1, 1), Scope::All),
            (at(2, 4), Scope::Nothing),
            (at(2, 8), Scope::Part(RotatingRead::Router)),
        ];
        for (read, expected) in cases {
            let scope = Scope::of(read, 2, sync_period, RotatingRead::Router);
            assert_eq!(scope, expected, "{read:?}");
        }
        let mut turns = vec![RotatingRead::default()];
        for _ in 0..3 {
            turns.extend(turns.last().map(|turn| turn.next()));
        }
        for turn in [
            RotatingRead::ExternalNetwork,
            RotatingRead::Network,
            RotatingRead::Router,
            RotatingRead::Zones,
        ] {
            assert!(turns.contains(&turn), "{turn:?}");
            assert!(Scope::All.includes(turn) && !Scope::Nothing.includes(turn));
        }
    }
}

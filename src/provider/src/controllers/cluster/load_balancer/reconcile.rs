//! The load balancer in a pass: which load balancer it is, and whether to create or replace it.

use std::{net::IpAddr, time::Duration};

use super::plan::{self, FoundLoadBalancer, LoadBalancerInputs, LoadBalancerPlan, Replacements};
use crate::reconcile::{ReadAt, StepError, StepResult, matching::Match};
use crate::{
    controllers::cluster::{
        desired::DesiredLoadBalancer, floating_ip as fips, load_balancer,
        observation::KnownLoadBalancer, observe, pass::Pass, step_context::StepContext,
    },
    kubernetes::{conditions::kind, events::CloudObject},
};
use capo_core::{
    FailureClass, Lookup, ProvisioningStatus, Reason,
    ids::{LoadBalancerId, NetworkId},
};
use capo_openstack::load_balancer::LoadBalancer;

/// The annotation that allows deleting a load balancer in ERROR and creating a new one; its value is the load
/// balancer's id.
pub(crate) const REBUILD_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/rebuild-load-balancer";
/// The time until the cluster is reconciled again while a load balancer is being deleted.
const SOON: Duration = Duration::from_secs(2);

const CONDITION: &str = kind::API_SERVER_LOAD_BALANCER_READY;

/// Looks the load balancer up. Returns `None` without a request if the load balancer is known and its worker, which
/// reads it, found nothing wrong with the load balancer itself.
pub(crate) async fn look_up(
    pass: &Pass<'_>,
    context: &StepContext<'_>,
) -> StepResult<Option<Vec<LoadBalancer>>> {
    let complete = |lb: &KnownLoadBalancer| lb.vip.is_some() && lb.vip_port.is_some();
    let cached = pass.cached.load_balancer.found();
    if cached.is_some_and(complete)
        && pass.cached.is_verified(context.cloud)
        && !needs_another_lookup(pass)
    {
        return Ok(None);
    }
    let known = cached
        .map(|lb| lb.id.clone())
        .or(context.known.load_balancer.clone());
    load_balancer::find(context, known.as_ref()).await.map(Some)
}

/// What a pass decides after a lookup.
pub(crate) struct Decision {
    /// What the pass does about the load balancers that were found.
    pub plan: LoadBalancerPlan,
    /// The load balancer that is the cluster's from now on. The caller keeps it in the cluster's cache.
    pub load_balancer: Lookup<KnownLoadBalancer>,
}

/// Decides what to do about the load balancers that were found, and which of them is the cluster's.
pub(crate) fn decide(
    pass: &Pass<'_>,
    context: &StepContext<'_>,
    found: &[LoadBalancer],
) -> Decision {
    let states: Vec<FoundLoadBalancer> = found.iter().map(FoundLoadBalancer::from).collect();
    let inputs = LoadBalancerInputs {
        name: context.desired.names.load_balancer(),
        initialised: pass.related.initialised(),
        machine_admitted: pass.related.machine_admitted(),
        rebuild: pass.annotation(REBUILD_ANNOTATION).map(ToOwned::to_owned),
        replaced: pass.cached.replacements,
    };
    let plan = plan::plan(&inputs, &states, pass.now);
    if !found.is_empty() {
        let kind = CloudObject::LoadBalancer;
        context.creations.found(kind, &inputs.name);
    }
    let by_id = |id: &LoadBalancerId| {
        let known = found.iter().find(|lb| lb.id == *id);
        Lookup::from(known.map(KnownLoadBalancer::from))
    };
    let load_balancer = match &plan {
        LoadBalancerPlan::Use { id }
        | LoadBalancerPlan::Replace { id, .. }
        | LoadBalancerPlan::ReplaceLater { id, .. }
        | LoadBalancerPlan::Broken { id } => by_id(id),
        LoadBalancerPlan::Create | LoadBalancerPlan::Deleting { .. } => Lookup::Absent,
        // One of them may be the cluster's load balancer.
        LoadBalancerPlan::Ambiguous { .. } => Lookup::Unknown,
    };
    Decision {
        plan,
        load_balancer,
    }
}

/// Carries out the plan, as far as that is possible without waiting.
pub(crate) async fn carry_out(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    desired: &DesiredLoadBalancer,
    plan: LoadBalancerPlan,
) -> StepResult<()> {
    let name = context.desired.names.load_balancer();
    match plan {
        LoadBalancerPlan::Use { .. } => Ok(()),
        LoadBalancerPlan::Create => {
            pass.cached.floating_ip = None;
            create(pass, context, desired).await
        }
        LoadBalancerPlan::Deleting { id } => {
            let text = format!(
                "Load balancer {id} is being deleted; a new one is created when it is gone"
            );
            Err(StepError::wait(
                CONDITION,
                Reason::LoadBalancerPending,
                text,
                SOON,
            ))
        }
        LoadBalancerPlan::Replace { id, requested } => {
            if !requested && !is_safe_to_delete(pass).await? {
                return Err(broken(&name, &id));
            }
            replace(pass, context, &id).await
        }
        LoadBalancerPlan::ReplaceLater { id, pause } => {
            let text = format!(
                "Load balancer {id} is in ERROR; it is recreated after a pause, because the last one failed too"
            );
            Err(StepError::wait(
                CONDITION,
                Reason::LoadBalancerError,
                text,
                pause,
            ))
        }
        LoadBalancerPlan::Broken { id } => Err(broken(&name, &id)),
        LoadBalancerPlan::Ambiguous { ids } => {
            let ids = ids.into_iter().map(Into::into).collect();
            Match::<()>::Several(ids)
                .at_most_one(CONDITION, &format!("Load balancer name \"{name}\""))
                .map(drop)
        }
    }
}

async fn create(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    desired: &DesiredLoadBalancer,
) -> StepResult<()> {
    let networking = &pass.cached.networking;
    let network = match &networking.load_balancer_network {
        Lookup::Found(own) => Some(own),
        Lookup::Absent => networking.network.found(),
        Lookup::Unknown => None,
    };
    // Another condition shows why the network is unknown.
    let Some(network) = network else {
        return Ok(());
    };
    let named = context.desired.primary_subnet.as_ref();
    let primary = named.and(networking.primary_subnet.found());
    let created = load_balancer::create(context, desired, network, primary).await?;
    pass.cached.load_balancer = Lookup::Found(KnownLoadBalancer::from(&created));
    Ok(())
}

/// Whether the load balancer's worker has seen a state that the worker can't repair.
fn needs_another_lookup(pass: &Pass<'_>) -> bool {
    let Some(findings) = pass.context.tracker.findings(&pass.name) else {
        return false;
    };
    findings.absent
        || findings.provisioning_status.as_ref().is_some_and(|status| {
            matches!(
                status,
                ProvisioningStatus::Error
                    | ProvisioningStatus::PendingDelete
                    | ProvisioningStatus::Deleted
            )
        })
}

async fn is_safe_to_delete(pass: &Pass<'_>) -> StepResult<bool> {
    observe::is_safe_to_delete(
        pass.context,
        &pass.name.namespace,
        &pass.related.cluster_name,
    )
    .await
    .map_err(|e| StepError::kubernetes(CONDITION, "Reading Cluster and Machines", &e))
}

fn broken(name: &str, id: &LoadBalancerId) -> StepError {
    let message = format!(
        "Load balancer {name} is in ERROR and may still serve. Try `openstack loadbalancer failover {id}`; to have it \
         deleted and recreated, set the annotation {REBUILD_ANNOTATION}: {id}"
    );
    StepError::failed(
        CONDITION,
        FailureClass::Conflict,
        Reason::LoadBalancerError,
        message,
    )
}

async fn replace(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    id: &LoadBalancerId,
) -> StepResult<()> {
    // The worker stops writing as soon as the load balancer's id is absent.
    pass.cached.load_balancer = Lookup::Absent;
    let name = context.desired.names.load_balancer();
    if load_balancer::delete(context, &name, id).await? {
        let before = pass.cached.replacements.map_or(0, |before| before.count);
        pass.cached.replacements = Some(Replacements {
            count: before.saturating_add(1),
            last: pass.now,
        });
    }
    let text = format!(
        "Load balancer {id} was in ERROR and is being deleted; a new one is created after that"
    );
    Err(StepError::wait(
        CONDITION,
        Reason::LoadBalancerPending,
        text,
        SOON,
    ))
}

/// Returns the address of the floating IP on the load balancer, after putting it there if necessary.
pub(crate) async fn ensure_floating_ip(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    external: &NetworkId,
    balancer: &KnownLoadBalancer,
) -> StepResult<Option<IpAddr>> {
    let Some(port) = balancer.vip_port.as_ref() else {
        return Ok(None);
    };
    // A floating IP that was seen on the load balancer is read again at the same interval as the networking.
    let age = pass.context.settings.sync_period / 2;
    if let Some(read) = &pass.cached.floating_ip
        && let fip = &read.value
        && fip.port_id.as_ref() == Some(port)
        && (context.desired.floating_ip.is_none()
            || fip.floating_ip_address == context.desired.floating_ip)
        && read.age(pass.now) < age
    {
        return Ok(fip.floating_ip_address);
    }
    let name = &mut pass.cached.endpoint_name;
    let fip = fips::ensure(context, external, Some(port), name).await?;
    let address = fip.floating_ip_address;
    pass.cached.floating_ip = Some(ReadAt::new(fip, pass.now));
    Ok(address)
}

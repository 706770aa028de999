//! The pass over a cluster that is to go.

use std::time::Duration;

use kube::{ResourceExt, api::DeleteParams};

use super::{
    FINALIZER, facts,
    halt::{Halt, Step},
    hooks,
    normal::gather_facts,
    shop::Shop,
    spec, teardown,
    visit::{Visit, kubernetes_failed},
};
use crate::{
    controllers::{
        Outcome,
        capi::CLUSTER_NAME_LABEL,
        identity::{self, Asker},
    },
    status::conditions::kind,
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::Priority;
use capo_core::{ConditionState, Reason};
use capo_openstack::network::FloatingIpFilter;

/// How soon to look whether the Machines are gone, should no watch wake us.
const MACHINES_PAUSE: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(2);

/// Takes down everything that is ours, once no Machine is left.
pub(crate) async fn run(mut visit: Visit<'_>) -> Outcome {
    if !visit.object.finalizers().iter().any(|f| f == FINALIZER) {
        forget(&visit);
        return Outcome::Done;
    }
    let shown = visit.shown();
    let (wanted, _) = spec::read(&shown, visit.names(), &visit.object.spec);
    let facts = gather_facts(&mut visit).await;
    let object = format!("OpenStackCluster {shown}");
    let namespace = visit.name.namespace.clone();
    let asker = Asker {
        object: &object,
        namespace: &namespace,
    };
    let reference = visit.object.spec.identity_ref.clone();
    let cloud = identity::cloud(visit.context, asker, &reference).await;
    match machines_left(&visit).await {
        Ok(None) => {}
        Ok(Some(message)) => {
            visit.hand_over(cloud.ok(), &wanted, facts);
            hooks::release_orphans(&visit, wanted.load_balancer.is_none()).await;
            let wait = Outcome::wait(Reason::Deleting, message.clone(), MACHINES_PAUSE);
            visit.report.ready = Some(ConditionState::unmet(Reason::Deleting, message));
            visit.note_wait(wait);
            return visit.end().await;
        }
        Err(error) => return kubernetes_failed("Reading the cluster's Machines", &error),
    }
    // From here on nobody else writes to the load balancer.
    visit.context.membership.forget_load_balancer(&visit.name);
    let identity = match cloud {
        Ok(cloud) => identity::sign_in(asker, &reference, cloud).await,
        Err(halt) => Err(halt),
    };
    let Some(identity) = visit.settle(identity) else {
        let text = "Deleting: waiting for working credentials, without which nothing can be removed from OpenStack";
        visit.report.ready = Some(ConditionState::unmet(Reason::Deleting, text));
        return visit.end().await;
    };
    visit.good(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
    let told = visit.reference();
    let shop = Shop {
        cloud: &identity.cloud,
        project: identity.project.clone(),
        wanted: &wanted,
        known: visit.known_ids(),
        events: &visit.context.events,
        object: &told,
    };
    let step = take_down(&visit, &shop).await;
    match step {
        Ok(()) => match visit.set_finalizer(FINALIZER, false).await {
            Ok(()) => {
                forget(&visit);
                Outcome::Done
            }
            Err(failed) => failed,
        },
        Err(halt) => {
            let text = halt.verdict.message.clone();
            visit.report.ready = Some(ConditionState::unmet(Reason::Deleting, text));
            visit.note(halt);
            visit.end().await
        }
    }
}

async fn take_down(visit: &Visit<'_>, shop: &Shop<'_>) -> Step<()> {
    bastion(visit, shop).await?;
    let known = visit
        .seen
        .load_balancer
        .as_ref()
        .map(|lb| lb.id.clone())
        .or(shop.known.load_balancer.clone());
    teardown::teardown(shop, known.as_deref(), &visit.neighbours.cluster_name).await
}

/// What of the cluster's machines is left, in words; asked without a cache.
async fn machines_left(visit: &Visit<'_>) -> Result<Option<String>, kube::Error> {
    let cluster = &visit.neighbours.cluster_name;
    let machines =
        facts::machines_uncached(visit.context, &visit.name.namespace, cluster, Some(20)).await?;
    if !machines.is_empty() {
        let names = facts::named(&machines);
        return Ok(Some(format!(
            "Deleting: waiting for Machines to be gone: {names}"
        )));
    }
    let ours = visit
        .context
        .stores
        .openstack_machines
        .state_filter(|machine| {
            machine.metadata.namespace.as_ref() == Some(&visit.name.namespace)
                && machine.labels().get(CLUSTER_NAME_LABEL) == Some(cluster)
        });
    let mut names: Vec<String> = ours.iter().map(|machine| machine.name_any()).collect();
    names.sort();
    names.truncate(5);
    Ok((!names.is_empty()).then(|| {
        format!(
            "Deleting: waiting for OpenStackMachines to be gone: {}",
            names.join(", ")
        )
    }))
}

/// A bastion that CAPO made goes first, with its floating IP unless the user named it.
async fn bastion(visit: &Visit<'_>, shop: &Shop<'_>) -> Step<()> {
    const CONDITION: &str = super::report::BASTION_READY;
    let name = format!("{}-bastion", visit.neighbours.cluster_name);
    let servers = visit.context.api::<OpenStackServer>(&visit.name.namespace);
    let trouble = |e: &kube::Error| {
        Halt::kubernetes(CONDITION, &format!("Deleting OpenStackServer {name}"), e)
    };
    let Some(server) = servers.get_opt(&name).await.map_err(|e| trouble(&e))? else {
        return Ok(());
    };
    let uid = visit.object.uid();
    let ours = server
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == uid.as_ref());
    if !ours {
        return Ok(());
    }
    bastion_floating_ip(visit, shop).await?;
    if server.metadata.deletion_timestamp.is_none() {
        servers
            .delete(&name, &DeleteParams::default())
            .await
            .map_err(|e| trouble(&e))?;
    }
    let text = format!("OpenStackServer {name} is being deleted");
    Err(Halt::wait(CONDITION, Reason::Deleting, text, SOON))
}

async fn bastion_floating_ip(visit: &Visit<'_>, shop: &Shop<'_>) -> Step<()> {
    let Some(address) = shop.known.bastion_floating_ip else {
        return Ok(());
    };
    let bastion = visit.object.spec.bastion.as_ref();
    let given = bastion.and_then(|bastion| bastion.floating_ip.as_deref());
    if given.and_then(|ip| ip.parse().ok()) == Some(address) {
        return Ok(());
    }
    let trouble = |e: &capo_openstack::Error| {
        let doing = format!("Giving the bastion's floating IP {address} back");
        Halt::cloud(
            super::report::BASTION_READY,
            Reason::FloatingIPError,
            &doing,
            e,
        )
    };
    let filter = FloatingIpFilter {
        floating_ip_address: Some(address),
        description: Some(shop.wanted.names.description()),
        project_id: Some(shop.project.clone()),
        ..FloatingIpFilter::default()
    };
    let found = shop
        .cloud
        .floating_ips(&filter, Priority::Settling)
        .await
        .map_err(|e| trouble(&e))?;
    for fip in found {
        shop.cloud
            .delete_floating_ip(&fip.id, Priority::Settling)
            .await
            .map_err(|e| trouble(&e))?;
    }
    Ok(())
}

fn forget(visit: &Visit<'_>) {
    visit.context.membership.forget_load_balancer(&visit.name);
    visit.context.clusters.forget(&visit.name);
    visit.context.backoff.forget(super::CONTROLLER, &visit.name);
}

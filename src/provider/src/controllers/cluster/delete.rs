//! The pass over a cluster that is to go.

use std::time::Duration;

use kube::{ResourceExt, api::DeleteParams};

use super::{
    FINALIZER,
    apply::gather_facts,
    delete_steps, observe,
    reconcile::{Published, Reconcile, kubernetes_failed},
    spec,
    step_context::StepContext,
};
use crate::reconcile::{StepError, StepResult};
use crate::{
    controllers::{
        Outcome,
        capi::CLUSTER_NAME_LABEL,
        identity::{self, Asker},
    },
    kubernetes::conditions::kind,
    reconcile::deletion_hooks::release_orphaned,
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::Priority;
use capo_core::{ConditionState, Reason};
use capo_openstack::network::FloatingIpFilter;

/// How soon to look whether the Machines are gone, should no watch wake us.
const MACHINES_PAUSE: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(2);

/// Takes down everything that is ours, once no Machine is left.
pub(crate) async fn run(mut pass: Reconcile<'_>) -> Outcome {
    if !pass.object.finalizers().iter().any(|f| f == FINALIZER) {
        forget(&pass);
        return Outcome::Done;
    }
    let shown = pass.shown();
    let (desired, problems) = spec::read(&shown, pass.names(), &pass.object.spec);
    let facts = gather_facts(&mut pass).await;
    let object = format!("OpenStackCluster {shown}");
    let namespace = pass.name.namespace.clone();
    let asker = Asker {
        object: &object,
        namespace: &namespace,
    };
    let reference = pass.object.spec.identity_ref.clone();
    let cloud = identity::cloud(pass.context, asker, &reference).await;
    match machines_left(&pass).await {
        Ok(None) => {}
        Ok(Some(message)) => {
            let published = Published {
                cloud: cloud.ok(),
                facts,
            };
            pass.publish(&desired, &problems, &published);
            let ungated = desired.load_balancer.is_none() || pass.related.going();
            release_orphaned(pass.context, &pass.name, &pass.related.machines, ungated).await;
            let wait = Outcome::wait(Reason::Deleting, message.clone(), MACHINES_PAUSE);
            pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, message));
            pass.note_wait(wait);
            return pass.end().await;
        }
        Err(error) => return kubernetes_failed("Reading the cluster's Machines", &error),
    }
    // From here on nobody else writes to the load balancer.
    pass.context.membership.forget_load_balancer(&pass.name);
    let identity = match cloud {
        Ok(cloud) => identity::sign_in(asker, &reference, cloud).await,
        Err(step_error) => Err(step_error),
    };
    let Some(identity) = pass.settle(identity) else {
        let text = "Deleting: waiting for working credentials, without which nothing can be removed from OpenStack";
        pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, text));
        return pass.end().await;
    };
    pass.good(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
    let told = pass.reference();
    let context = StepContext {
        cloud: &identity.cloud,
        project: identity.project.clone(),
        desired: &desired,
        known: pass.known_ids(),
        machine_admitted: false,
        events: &pass.context.events,
        object: &told,
    };
    let step = take_down(&pass, &context).await;
    match step {
        Ok(()) => match pass.set_finalizer(FINALIZER, false).await {
            Ok(()) => {
                forget(&pass);
                Outcome::Done
            }
            Err(failed) => failed,
        },
        Err(step_error) => {
            let text = step_error.state.message.clone();
            pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, text));
            pass.note(step_error);
            pass.end().await
        }
    }
}

async fn take_down(pass: &Reconcile<'_>, context: &StepContext<'_>) -> StepResult<()> {
    bastion(pass, context).await?;
    let known = pass
        .seen
        .load_balancer
        .found()
        .map(|lb| lb.id.clone())
        .or(context.known.load_balancer.clone());
    delete_steps::delete_all(context, known.as_deref(), &pass.related.cluster_name).await
}

/// What of the cluster's machines is left, in words; asked without a cache.
async fn machines_left(pass: &Reconcile<'_>) -> Result<Option<String>, kube::Error> {
    let cluster = &pass.related.cluster_name;
    let machines =
        observe::machines_uncached(pass.context, &pass.name.namespace, cluster, Some(20)).await?;
    if !machines.is_empty() {
        let names = observe::named(&machines);
        return Ok(Some(format!(
            "Deleting: waiting for Machines to be gone: {names}"
        )));
    }
    let ours = pass
        .context
        .stores
        .openstack_machines
        .state_filter(|machine| {
            machine.metadata.namespace.as_ref() == Some(&pass.name.namespace)
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
async fn bastion(pass: &Reconcile<'_>, context: &StepContext<'_>) -> StepResult<()> {
    const CONDITION: &str = super::report::BASTION_READY;
    let name = format!("{}-bastion", pass.related.cluster_name);
    let servers = pass.context.api::<OpenStackServer>(&pass.name.namespace);
    let failed = |e: &kube::Error| {
        StepError::kubernetes(CONDITION, &format!("Deleting OpenStackServer {name}"), e)
    };
    let Some(server) = servers.get_opt(&name).await.map_err(|e| failed(&e))? else {
        return Ok(());
    };
    let uid = pass.object.uid();
    let ours = server
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == uid.as_ref());
    if !ours {
        return Ok(());
    }
    bastion_floating_ip(pass, context).await?;
    if server.metadata.deletion_timestamp.is_none() {
        servers
            .delete(&name, &DeleteParams::default())
            .await
            .map_err(|e| failed(&e))?;
    }
    let text = format!("OpenStackServer {name} is being deleted");
    Err(StepError::wait(CONDITION, Reason::Deleting, text, SOON))
}

async fn bastion_floating_ip(pass: &Reconcile<'_>, context: &StepContext<'_>) -> StepResult<()> {
    let Some(address) = context.known.bastion_floating_ip else {
        return Ok(());
    };
    let bastion = pass.object.spec.bastion.as_ref();
    let given = bastion.and_then(|bastion| bastion.floating_ip.as_deref());
    if given.and_then(|ip| ip.parse().ok()) == Some(address) {
        return Ok(());
    }
    let failed = |e: &capo_openstack::Error| {
        let doing = format!("Giving the bastion's floating IP {address} back");
        StepError::cloud(
            super::report::BASTION_READY,
            Reason::FloatingIPError,
            &doing,
            e,
        )
    };
    let filter = FloatingIpFilter {
        floating_ip_address: Some(address),
        description: Some(context.desired.names.description()),
        project_id: Some(context.project.clone()),
        ..FloatingIpFilter::default()
    };
    let found = context
        .cloud
        .floating_ips(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(&e))?;
    for fip in found {
        context
            .cloud
            .delete_floating_ip(&fip.id, Priority::Settling)
            .await
            .map_err(|e| failed(&e))?;
    }
    Ok(())
}

fn forget(pass: &Reconcile<'_>) {
    pass.context.membership.forget_load_balancer(&pass.name);
    pass.context.clusters.forget(&pass.name);
}

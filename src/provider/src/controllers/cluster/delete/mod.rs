//! The pass over a cluster that is being deleted.

mod ports;
pub(crate) mod progress;
mod services;
mod steps;
mod waiting;

use std::time::Duration;

use kube::ResourceExt;

use self::{services::DELETE_ANNOTATION, steps::DeletedCluster, waiting::SOON};
use super::{
    FINALIZER,
    act::{gather_facts, look_up_and_verify},
    bastion,
    desired::DesiredCluster,
    observe, project,
    reconcile::{Published, Reconcile},
    step_context::StepContext,
    validate,
};
use crate::reconcile::{StepError, StepResult};
use crate::{
    controllers::{
        Outcome,
        capi::CLUSTER_NAME_LABEL,
        identity::{self, Asker, Identity},
    },
    kubernetes::conditions::kind,
    reconcile::deletion_hooks::release_orphaned,
};
use capo_core::{ConditionState, Reason};

/// How soon to look whether the Machines are gone, should no watch wake us.
const MACHINES_PAUSE: Duration = Duration::from_secs(5);

/// Takes down everything that is ours, once no Machine is left.
pub(crate) async fn run(mut pass: Reconcile<'_>) -> Outcome {
    if !pass.object.finalizers().iter().any(|f| f == FINALIZER) {
        forget(&pass);
        return Outcome::Done;
    }
    let shown = pass.shown();
    let (desired, problems) = validate::read(&shown, pass.names(), &pass.object.spec);
    let facts = gather_facts(&mut pass).await;
    let object = format!("OpenStackCluster {shown}");
    let namespace = pass.name.namespace.clone();
    let asker = Asker {
        object: &object,
        namespace: &namespace,
    };
    let reference = pass.object.spec.identity_ref.clone();
    let cloud = identity::cloud(pass.context, asker, &reference).await;
    let identity = match cloud.clone() {
        Ok(cloud) => identity::sign_in(asker, &reference, cloud).await,
        Err(step_error) => Err(step_error),
    };
    let identity = pass.settle(identity);
    match machines_left(&pass).await {
        Ok(None) => {}
        Ok(Some(message)) => {
            let published = Published {
                cloud: cloud.ok(),
                facts,
            };
            if published.facts.cluster_deleting {
                // No gate waits for what OpenStack has to answer here.
                pass.publish(&desired, &problems, &published);
            }
            if let Some(identity) = identity.filter(|it| !pass.seen.is_verified(&it.cloud)) {
                verify_project(&mut pass, &desired, &identity).await;
            }
            pass.publish(&desired, &problems, &published);
            let ungated = desired.load_balancer.is_none() || pass.related.is_being_deleted();
            release_orphaned(pass.context, &pass.name, &pass.related.machines, ungated).await;
            let wait = Outcome::wait(Reason::Deleting, message.clone(), MACHINES_PAUSE);
            pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, message));
            pass.note_wait(wait);
            return pass.end().await;
        }
        Err(error) => return Outcome::kubernetes("Reading the cluster's Machines", &error),
    }
    // From here on nobody else writes to the load balancer.
    pass.context.tracker.forget_load_balancer(&pass.name);
    let Some(identity) = identity else {
        let text = "Deleting: waiting for working credentials, without which nothing can be removed from OpenStack";
        pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, text));
        return pass.end().await;
    };
    if let Err(step_error) = project::check_recorded(&pass, &identity.project) {
        let text = step_error.state.message.clone();
        pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, text));
        pass.note(step_error);
        return pass.end().await;
    }
    pass.good(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
    // The bastion's server is deleted by its own controller, in this project.
    pass.seen.project = Some(identity.project.clone());
    let context = StepContext::new(&pass, &identity, &desired, SOON);
    let step = take_down(&mut pass, &context).await;
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
            let step_error = later(&mut pass, step_error);
            pass.note(step_error);
            pass.end().await
        }
    }
}

/// Finds out whether the credentials lead to the project of the cluster that is being deleted. Its servers are deleted there
/// alone, and a process that has just started does not know it yet.
async fn verify_project(pass: &mut Reconcile<'_>, desired: &DesiredCluster, identity: &Identity) {
    let context = StepContext::new(pass, identity, desired, SOON);
    // What becomes of the load balancer is decided once no Machine is left.
    if let Some(found) = look_up_and_verify(pass, &context).await {
        pass.settle(found);
    }
}

/// The same with a pause that grows while the deletion waits for the same thing.
fn later(pass: &mut Reconcile<'_>, step_error: StepError) -> StepError {
    match step_error.outcome {
        Outcome::Wait {
            reason, message, ..
        } => {
            let progress = &mut pass.seen.deletion;
            let pause = progress.pause(step_error.condition, reason, pass.now);
            StepError {
                outcome: Outcome::wait(reason, message, pause),
                ..step_error
            }
        }
        outcome => StepError {
            outcome,
            ..step_error
        },
    }
}

async fn take_down(pass: &mut Reconcile<'_>, context: &StepContext<'_>) -> StepResult<()> {
    bastion::remove(pass, context).await?;
    let known = pass
        .seen
        .load_balancer
        .found()
        .map(|lb| lb.id.clone())
        .or(context.known.load_balancer.clone());
    let cluster = DeletedCluster {
        load_balancer: known.as_ref(),
        name: &pass.related.cluster_name,
        with_services: pass.annotation(DELETE_ANNOTATION) == Some("true"),
    };
    let mut progress = pass.seen.deletion.clone();
    let deleted = steps::delete_all(context, &cluster, &mut progress).await;
    pass.seen.deletion = progress;
    deleted
}

/// A message that names the cluster's machines which still exist, read without a cache.
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

fn forget(pass: &Reconcile<'_>) {
    pass.context.tracker.forget_load_balancer(&pass.name);
    pass.context.clusters.forget(&pass.name);
}

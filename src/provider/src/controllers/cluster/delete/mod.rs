//! The pass over a cluster that is being deleted.

mod plan;
mod ports;
pub(crate) mod progress;
mod services;
mod steps;

use std::time::Duration;

use kube::ResourceExt;

use self::{
    plan::{DeletionPlan, MachinesLeft, deletion_plan},
    services::DELETE_ANNOTATION,
    steps::DeletedCluster,
};
use super::{
    FINALIZER,
    act::look_up_and_verify,
    bastion,
    desired::DesiredCluster,
    observe,
    ownership::ensure_names_are_unique,
    pass::{Pass, PublishedFacts, forget},
    project,
    step_context::StepContext,
    validate,
};
use crate::reconcile::{StepError, StepResult};
use crate::{
    controllers::{Outcome, capi::CLUSTER_NAME_LABEL, identity::Identity},
    kubernetes::conditions::kind,
    reconcile::deletion_hooks::release_orphaned,
};
use capo_core::{ConditionState, Reason};

/// The first pause before the cluster is reconciled again while an object is being deleted.
const SOON: Duration = Duration::from_secs(2);
/// The time until the Machines are read again while some are left, in case no watch shows before that they are gone.
const MACHINES_PAUSE: Duration = Duration::from_secs(5);

impl Pass<'_> {
    /// Deletes everything that was created for the cluster, once no Machine is left.
    pub(in crate::controllers::cluster) async fn delete(mut self) -> Outcome {
        self.not_paused();
        if let Err(refused) = ensure_names_are_unique(self.context, &self.object, &self.names()) {
            // Whatever has these names belongs to the other cluster.
            let note = format!(
                "Nothing was deleted in OpenStack. {}",
                refused.state.message
            );
            let (events, reason) = (&self.context.events, Reason::AmbiguousMatch);
            events.warning(&self.reference(), reason, "Delete", &note);
            return Box::pin(self.end_deletion()).await;
        }
        let name = self.full_name();
        let (desired, problems) = validate::read(&name, self.names(), &self.object.spec);
        let facts = self.gather_facts().await;
        let cloud = self.cloud().await;
        let identity = self.sign_in(cloud.clone()).await;
        let identity = self.ok_or_record(identity);
        let left = match machines_left(&self).await {
            Ok(left) => left,
            Err(error) => return Outcome::kubernetes("Reading the cluster's Machines", &error),
        };
        let check = |identity: &Identity| project::check_recorded(&self, &identity.project);
        let plan = deletion_plan(&left, identity.as_ref(), check);
        if !matches!(plan, DeletionPlan::WaitForMachines(_)) {
            // The load balancer's worker stops here, so that from now on only the deletion writes to the load balancer.
            self.context.tracker.forget_load_balancer(&self.name);
        }
        match plan {
            DeletionPlan::WaitForMachines(message) => {
                let published = PublishedFacts {
                    cloud: cloud.ok(),
                    facts,
                };
                if published.facts.cluster_deleting {
                    // A Cluster that is being deleted opens the gates, so the facts are published before any request to
                    // OpenStack.
                    self.publish(&desired, &problems, &published);
                }
                if let Some(identity) = identity.filter(|it| !self.cached.is_verified(&it.cloud)) {
                    verify_project(&mut self, &desired, &identity).await;
                }
                self.publish(&desired, &problems, &published);
                let ungated = desired.load_balancer.is_none() || self.related.is_being_deleted();
                release_orphaned(self.context, &self.name, &self.related.machines, ungated).await;
                let wait = Outcome::wait(Reason::Deleting, message.clone(), MACHINES_PAUSE);
                deleting(&mut self, message);
                self.record_wait(wait);
            }
            DeletionPlan::WaitForCredentials => {
                let text = "Deleting: waiting for working credentials, without which nothing can be removed from OpenStack";
                deleting(&mut self, text);
            }
            DeletionPlan::Refuse(step_error) => {
                deleting(&mut self, step_error.state.message.clone());
                self.record(step_error);
            }
            DeletionPlan::TakeDown(identity) => {
                self.set_true(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
                // The server controller deletes the bastion's server, and it has to know that this is the cluster's
                // project.
                self.cached.project = Some(identity.project.clone());
                let context = self.step_context(identity, &desired, SOON);
                match take_down(&mut self, &context).await {
                    Ok(()) => return Box::pin(self.end_deletion()).await,
                    Err(step_error) => {
                        self.record_creations().await;
                        deleting(&mut self, step_error.state.message.clone());
                        let step_error = later(&mut self, step_error);
                        self.record(step_error);
                    }
                }
            }
        }
        self.end().await
    }

    /// Removes the finalizer and forgets the cluster.
    async fn end_deletion(mut self) -> Outcome {
        let context = self.context;
        self.take_written();
        let written = context.set_finalizer(&mut self.object, FINALIZER, false);
        match written.await {
            Ok(()) => forget(context, &self.name),
            Err(error) => Outcome::kubernetes("Writing the finalizer", &error),
        }
    }
}

/// Sets Ready to show what the deletion waits for.
fn deleting(pass: &mut Pass<'_>, message: impl Into<String>) {
    pass.report.ready = Some(ConditionState::unmet(Reason::Deleting, message));
}

/// Finds out whether the credentials lead to the project of the cluster that is being deleted. The server controller
/// deletes servers only in that project, and a process that has just started does not know it yet.
async fn verify_project(pass: &mut Pass<'_>, desired: &DesiredCluster, identity: &Identity) {
    let context = pass.step_context(identity, desired, SOON);
    // The plan for the load balancer is not used here: the load balancer is deleted once no Machine is left.
    if let Some(found) = look_up_and_verify(pass, &context).await {
        pass.ok_or_record(found);
    }
}

/// Returns the same error with a pause that grows while the deletion waits for the same thing.
fn later(pass: &mut Pass<'_>, step_error: StepError) -> StepError {
    match step_error.outcome {
        Outcome::Wait {
            reason, message, ..
        } => {
            let progress = &mut pass.cached.deletion;
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

async fn take_down(pass: &mut Pass<'_>, context: &StepContext<'_>) -> StepResult<()> {
    bastion::remove(pass, context).await?;
    let known = pass
        .cached
        .load_balancer
        .found()
        .map(|lb| lb.id.clone())
        .or(context.known.load_balancer.clone());
    let cluster = DeletedCluster {
        load_balancer: known.as_ref(),
        name: &pass.related.cluster_name,
        with_services: pass.annotation(DELETE_ANNOTATION) == Some("true"),
    };
    let mut progress = pass.cached.deletion.clone();
    let deleted = steps::delete_all(context, &cluster, &mut progress).await;
    pass.cached.deletion = progress;
    deleted
}

/// The cluster's machines that still exist. The Machines are read without a cache.
async fn machines_left(pass: &Pass<'_>) -> Result<MachinesLeft, kube::Error> {
    let (namespace, cluster) = (&pass.name.namespace, &pass.related.cluster_name);
    let machines = observe::machines_uncached(pass.context, namespace, cluster, Some(20)).await?;
    let stores = &pass.context.stores;
    let ours = stores.openstack_machines.state_filter(|machine| {
        machine.metadata.namespace.as_ref() == Some(namespace)
            && machine.labels().get(CLUSTER_NAME_LABEL) == Some(cluster)
    });
    let mut left = MachinesLeft {
        machines: machines.iter().map(ResourceExt::name_any).collect(),
        openstack_machines: ours.iter().map(|machine| machine.name_any()).collect(),
    };
    left.machines.sort();
    left.openstack_machines.sort();
    Ok(left)
}

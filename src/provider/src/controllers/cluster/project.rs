//! Whether credentials lead to the project that a cluster's objects are in. The id of that project is recorded on the
//! `OpenStackCluster` before anything is created, so that a process which starts later knows it too.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{desired::DesiredNetwork, network, pass::Pass, step_context::StepContext};
use crate::controllers::project_match::{PROJECT_ANNOTATION, recorded};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use crate::reconcile::{StepError, StepResult};
use capo_api::v1beta2::OpenStackCluster;
use capo_core::{FailureClass, Priority, Reason, ids::ProjectId};
use capo_openstack::load_balancer::LoadBalancer;

/// Returns an error if the annotation says that the cluster's objects are in another project than that of the
/// credentials. If a Secret was replaced by one of another project, no second network and load balancer may be created
/// there, and what exists or is absent there says nothing about this cluster.
pub(crate) fn check_recorded(pass: &Pass<'_>, project: &ProjectId) -> StepResult<()> {
    match recorded(&pass.object) {
        Some(own) if own != *project => Err(wrong_project(format!(
            "OpenStackCluster {}: the credentials of spec.identityRef belong to project {project}, and the objects of this \
             cluster are in project {own}, as the annotation {PROJECT_ANNOTATION} says; nothing is created, deleted or \
             released until the credentials of that project are back",
            pass.name
        ))),
        _ => Ok(()),
    }
}

/// Records the project of the verified credentials as that of the cluster's objects.
pub(crate) async fn record(pass: &mut Pass<'_>, project: &ProjectId) -> StepResult<()> {
    if recorded(&pass.object).is_some() {
        return Ok(());
    }
    let body = json!({"metadata": {
        "uid": pass.object.uid(),
        "annotations": {PROJECT_ANNOTATION: project},
    }});
    let api = pass.context.api::<OpenStackCluster>(&pass.name.namespace);
    let mut written = api
        .patch(
            &pass.name.name,
            &PatchParams::default(),
            &Patch::Merge(&body),
        )
        .await
        .map_err(|error| {
            let doing = "Recording the project of the cluster's objects";
            StepError::kubernetes(OPENSTACK_AUTHENTICATION_SUCCEEDED, doing, &error)
        })?;
    // The generation stays that of the object on which the pass is based, because another client may have made a newer
    // one meanwhile.
    written.metadata.generation = pass.object.metadata.generation;
    pass.object = written;
    Ok(())
}

fn wrong_project(message: String) -> StepError {
    StepError::failed(
        OPENSTACK_AUTHENTICATION_SUCCEEDED,
        FailureClass::Conflict,
        Reason::OpenStackAuthenticationFailed,
        message,
    )
}

/// Makes the same check for a cluster without the annotation. It returns an error if a control-plane Machine is
/// admitted, but neither the load balancer or the managed network of the status nor the server of such a Machine exists
/// in the project of the credentials. Names are not compared, because a cluster of the same name may be in another
/// project. The result counts until the credentials change.
pub(crate) async fn verify(
    pass: &Pass<'_>,
    context: &StepContext<'_>,
    balancers: &[LoadBalancer],
) -> StepResult<()> {
    if recorded(&pass.object).is_some()
        || pass.cached.is_verified(context.cloud)
        || !pass.related.machine_admitted()
    {
        return Ok(());
    }
    let known = &context.known;
    if balancers
        .iter()
        .any(|lb| known.load_balancer.as_ref() == Some(&lb.id))
    {
        return Ok(());
    }
    for id in pass.related.admitted_servers() {
        match context.cloud.server(&id, Priority::Settling).await {
            Ok(server) if server.project_id.as_ref() == Some(&context.project) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let doing =
                    "Looking for the control plane's servers in the project of the credentials";
                return Err(StepError::cloud(
                    OPENSTACK_AUTHENTICATION_SUCCEEDED,
                    Reason::OpenStackError,
                    doing,
                    &error,
                ));
            }
        }
    }
    if known.network.is_some() && matches!(context.desired.network, DesiredNetwork::Managed(_)) {
        let network = network::find_managed(context).await?;
        if network.is_some_and(|network| known.network.as_ref() == Some(&network.id)) {
            return Ok(());
        }
    }
    Err(wrong_project(format!(
        "OpenStackCluster {}: the credentials of spec.identityRef belong to project {}, in which neither the load \
         balancer and the managed network of the status nor a server of the control plane exists; nothing is created, \
         deleted or released until the credentials of the cluster's own project are back. If this is the cluster's \
         project, set the annotation {PROJECT_ANNOTATION}: {}",
        context.desired.object, context.project, context.project
    )))
}

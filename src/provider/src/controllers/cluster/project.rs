//! Whether credentials lead to the project that a cluster's objects are in. The id of that project is recorded on the
//! `OpenStackCluster` before anything is created, so that a process which starts later knows it too.

use std::sync::Arc;

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use serde_json::json;

use super::{desired::DesiredNetwork, network, reconcile::Reconcile, step_context::StepContext};
use crate::controllers::{
    Context,
    capi::{
        Cluster, DELETE_FOR_MOVE_ANNOTATION, MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION,
        has_annotation,
    },
};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use crate::reconcile::{StepError, StepResult};
use capo_api::v1beta2::{IdentityRef, OpenStackCluster};
use capo_core::{FailureClass, ObjectName, Priority, Reason, ids::ProjectId};
use capo_openstack::load_balancer::LoadBalancer;

/// The id of the project that a cluster's objects are in.
pub(crate) const PROJECT_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/openstack-project";

/// Whether `project` was found to be that of a cluster's objects. In any other one the absence of a server says nothing
/// about the server. Before the first pass over the cluster no project is known to be the cluster's.
pub(in crate::controllers) fn is_verified(
    context: &Context,
    cluster: &Cluster,
    project: &ProjectId,
) -> bool {
    own_project(context, cluster).is_some_and(|(_, own)| own.as_ref() == Some(project))
}

/// Whether a project is the one that a cluster's objects are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::controllers) enum ProjectMatch {
    /// It is, or nothing shows that it is another one.
    Own,
    /// It is not known to be, and the server has credentials of its own: what was created for it is in their project. An
    /// absence there is no evidence for the gates.
    OwnCredentials,
    /// It is not. Nothing is deleted there, and an absence there is no evidence.
    Elsewhere,
    /// This process has not found it out yet. What exists there may be deleted; what is absent there counts as unknown.
    Unknown,
}

/// Whether `project`, to which `identity` leads for a server, is that of a cluster's objects, by its annotation or the last
/// pass over the cluster. Without the annotation a failed verification is known from the status after a restart, and a
/// successful one is not: the credentials may be others since.
pub(in crate::controllers) fn project_match(
    context: &Context,
    cluster: &Cluster,
    identity: &IdentityRef,
    project: &ProjectId,
) -> ProjectMatch {
    let Some((object, own)) = own_project(context, cluster) else {
        return ProjectMatch::Own;
    };
    let has_failed = || {
        let conditions = object.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| {
            condition.type_ == OPENSTACK_AUTHENTICATION_SUCCEEDED
                && condition.reason == Reason::OpenStackAuthenticationFailed.as_str()
        })
    };
    match own {
        Some(own) if own == *project => ProjectMatch::Own,
        _ if !are_same_credentials(identity, &object.spec.identity_ref) => {
            ProjectMatch::OwnCredentials
        }
        Some(_) => ProjectMatch::Elsewhere,
        None if has_failed() => ProjectMatch::Elsewhere,
        None if is_left_alone(&object) => ProjectMatch::Own,
        None => ProjectMatch::Unknown,
    }
}

/// Whether both lead to the same project. The regions of a cloud share their projects.
fn are_same_credentials(one: &IdentityRef, other: &IdentityRef) -> bool {
    (&one.type_, &one.name, &one.cloud_name) == (&other.type_, &other.name, &other.cloud_name)
}

/// Whether no pass acts on the object, so that none ever verifies its project.
fn is_left_alone(object: &OpenStackCluster) -> bool {
    [
        MANAGED_BY_ANNOTATION,
        PAUSED_ANNOTATION,
        DELETE_FOR_MOVE_ANNOTATION,
    ]
    .iter()
    .any(|annotation| has_annotation(&object.metadata, annotation))
}

/// The `OpenStackCluster` of a Cluster, where it exists, and the project that is known to be that of its objects.
fn own_project(
    context: &Context,
    cluster: &Cluster,
) -> Option<(Arc<OpenStackCluster>, Option<ProjectId>)> {
    let infrastructure = cluster.spec.infrastructure_ref.as_ref()?;
    let namespace = cluster.namespace().unwrap_or_default();
    let key = ObjectRef::new(&infrastructure.name).within(&namespace);
    let object = context.stores.openstack_clusters.get(&key)?;
    let name = ObjectName::new(namespace, &infrastructure.name);
    let seen = context.clusters.get(&name, object.uid().as_deref());
    let own = recorded(&object).or_else(|| seen.and_then(|seen| seen.project));
    Some((object, own))
}

fn recorded(object: &OpenStackCluster) -> Option<ProjectId> {
    let id = object.annotations().get(PROJECT_ANNOTATION)?;
    Some(id.as_str().into())
}

/// An error where the annotation says that the cluster's objects are in another project than that of the credentials. A
/// Secret that was replaced by one of another project must not have a second network and load balancer created there, and
/// what is read or absent there says nothing about this cluster.
pub(crate) fn check_recorded(pass: &Reconcile<'_>, project: &ProjectId) -> StepResult<()> {
    match recorded(&pass.object) {
        Some(own) if own != *project => Err(elsewhere(format!(
            "OpenStackCluster {}: spec.identityRef leads to project {project}, and the objects of this cluster are in project \
             {own}, as the annotation {PROJECT_ANNOTATION} says; nothing is created, deleted or released until the \
             credentials of that project are back",
            pass.name
        ))),
        _ => Ok(()),
    }
}

/// Records the project of the credentials, which were verified, as that of the cluster's objects.
pub(crate) async fn record(pass: &mut Reconcile<'_>, project: &ProjectId) -> StepResult<()> {
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
    // The pass has judged this generation, and another client may have made a newer one meanwhile.
    written.metadata.generation = pass.object.metadata.generation;
    pass.object = written;
    Ok(())
}

fn elsewhere(message: String) -> StepError {
    StepError::failed(
        OPENSTACK_AUTHENTICATION_SUCCEEDED,
        FailureClass::Conflict,
        Reason::OpenStackAuthenticationFailed,
        message,
    )
}

/// The same for a cluster without the annotation: an error where a control-plane Machine is admitted, and neither the load
/// balancer or managed network of the status nor the server of any such Machine exists in the project of the credentials. A
/// name is no evidence: a cluster of the same name may be in another project. The result counts until the credentials change.
pub(crate) async fn verify(
    pass: &Reconcile<'_>,
    context: &StepContext<'_>,
    balancers: &[LoadBalancer],
) -> StepResult<()> {
    if recorded(&pass.object).is_some()
        || pass.seen.is_verified(context.cloud)
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
    Err(elsewhere(format!(
        "OpenStackCluster {}: spec.identityRef leads to project {}, in which neither the load balancer and the managed \
         network of the status nor a server of the control plane exists; nothing is created, deleted or released until the \
         credentials of the cluster's own project are back. If this is its project, say so with the annotation \
         {PROJECT_ANNOTATION}: {}",
        context.desired.object, context.project, context.project
    )))
}

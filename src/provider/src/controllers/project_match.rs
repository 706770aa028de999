//! Finds out whether the project of a server's credentials is the one that contains the OpenStack objects of its
//! cluster.

use std::sync::Arc;

use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::{
    Context,
    capi::{
        Cluster, DELETE_FOR_MOVE_ANNOTATION, MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION,
        has_annotation,
    },
};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use capo_api::v1beta2::{IdentityRef, OpenStackCluster};
use capo_core::{ObjectName, Reason, ids::ProjectId};

/// The annotation of an `OpenStackCluster` with the id of the project that contains the cluster's OpenStack objects.
pub(crate) const PROJECT_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/openstack-project";

/// Whether `project` was found to be that of the cluster's objects. In another project the absence of a server says
/// nothing about the server. Before the first pass over the cluster, no project is known to be the cluster's.
pub(super) fn is_verified(context: &Context, cluster: &Cluster, project: &ProjectId) -> bool {
    own_project(context, cluster).is_some_and(|(_, own)| own.as_ref() == Some(project))
}

/// Whether a project is the one that contains a cluster's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectMatch {
    /// The project is the cluster's, or nothing shows that it is another one.
    Own,
    /// The project is not known to be the cluster's, and the server has credentials of its own, so the objects that
    /// were created for it are in their project. The absence of a server there does not open a gate.
    OwnCredentials,
    /// The project is not the cluster's. Nothing is deleted there, and the absence of a server there does not open a
    /// gate.
    Elsewhere,
    /// This process does not know yet whether the project is the cluster's. What exists there may be deleted; what is
    /// absent there counts as unknown.
    Unknown,
}

/// Decides whether `project`, the project of a server's credentials `identity`, is that of the cluster's objects. The
/// annotation of the `OpenStackCluster` or the last pass over it says which project that is. If there is neither, a
/// failed verification is still known after a restart, because the status shows it. A successful one is not, because
/// the credentials may have changed since.
pub(super) fn project_match(
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
        None if has_no_passes(&object) => ProjectMatch::Own,
        None => ProjectMatch::Unknown,
    }
}

/// Whether both references lead to the same project. The region is not compared, because the regions of a cloud share
/// their projects.
fn are_same_credentials(one: &IdentityRef, other: &IdentityRef) -> bool {
    (&one.type_, &one.name, &one.cloud_name) == (&other.type_, &other.name, &other.cloud_name)
}

/// Whether passes over the object change nothing, so that none of them verifies its project.
fn has_no_passes(object: &OpenStackCluster) -> bool {
    [
        MANAGED_BY_ANNOTATION,
        PAUSED_ANNOTATION,
        DELETE_FOR_MOVE_ANNOTATION,
    ]
    .iter()
    .any(|annotation| has_annotation(&object.metadata, annotation))
}

/// The `OpenStackCluster` of a Cluster, if it exists, and the project that is known to be that of the cluster's
/// objects.
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

/// The project id in the annotation of the `OpenStackCluster`.
pub(super) fn recorded(object: &OpenStackCluster) -> Option<ProjectId> {
    let id = object.annotations().get(PROJECT_ANNOTATION)?;
    Some(id.as_str().into())
}

#[cfg(test)]
mod tests;

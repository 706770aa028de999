//! The Cluster that an `OpenStackCluster` belongs to, and whether another `OpenStackCluster` has its names in
//! OpenStack.

use kube::ResourceExt;

use crate::{
    controllers::{Context, capi, project_match::recorded},
    kubernetes::conditions::kind,
    reconcile::{StepError, StepResult, cluster_names::Names, name_of},
};
use capo_api::v1beta2::OpenStackCluster;
use capo_core::Reason;

/// The name of the Cluster that owns the object. For an object that is being deleted, the label is enough.
pub(super) fn cluster_name(object: &OpenStackCluster) -> Option<String> {
    let owner = capi::owner(&object.metadata, "Cluster").map(|owner| owner.name.clone());
    let label = || object.labels().get(capi::CLUSTER_NAME_LABEL).cloned();
    if object.metadata.deletion_timestamp.is_some() {
        owner.or_else(label)
    } else {
        owner
    }
}

/// Returns an error for the younger of two Clusters whose OpenStack objects would have the same names, so that its pass
/// neither uses nor deletes the other one's objects. One that has recorded the project of its objects goes first: a
/// restore or a move gives all objects new creation times.
pub(super) fn ensure_names_are_unique(
    context: &Context,
    object: &OpenStackCluster,
    names: &Names,
) -> StepResult<()> {
    let name = name_of(object);
    let rank = |object: &OpenStackCluster| {
        let created = object.metadata.creation_timestamp.as_ref().map(|t| t.0);
        (recorded(object).is_none(), created, name_of(object))
    };
    let own = rank(object);
    let older = context.stores.openstack_clusters.state_filter(|other| {
        let other_names = cluster_name(other)
            .map(|cluster| Names::new(&other.namespace().unwrap_or_default(), &cluster));
        other_names.as_ref() == Some(names) && name_of(other) != name && rank(other) < own
    });
    let Some(other) = older.first() else {
        return Ok(());
    };
    Err(StepError::refused(
        kind::NETWORK_READY,
        Reason::AmbiguousMatch,
        format!(
            "OpenStackCluster {name}: the name {} of its objects in OpenStack is that of OpenStackCluster {} too; a Cluster \
             of another name is needed",
            names.network(),
            name_of(&**other)
        ),
    ))
}

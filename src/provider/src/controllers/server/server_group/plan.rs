//! Decides what a pass does about the server group that its object names. The functions are pure.

use std::sync::Arc;

use kube::ResourceExt;

use capo_api::v1alpha1::{NamedServerGroup, OpenStackServer};
use capo_core::ids::ServerGroupId;
use capo_openstack::compute::{ServerGroup, ServerStatus};

/// What to do about the server group for a new server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerGroupPlan {
    /// No group has the name and the policy, so one is created.
    Create,
    /// The server is created in this group.
    Use(ServerGroupId),
}

/// Decides what to do, from all groups of the project. If several match, the one with the most servers is used, because
/// the other ones are deleted with the last server.
pub(super) fn server_group_plan(
    all: Vec<ServerGroup>,
    wanted: &NamedServerGroup,
) -> ServerGroupPlan {
    let by_members = |one: &ServerGroup, other: &ServerGroup| {
        let by_members = other.members.len().cmp(&one.members.len());
        by_members.then_with(|| one.id.cmp(&other.id))
    };
    let best = matching(all, wanted).into_iter().min_by(by_members);
    best.map_or(ServerGroupPlan::Create, |group| {
        ServerGroupPlan::Use(group.id)
    })
}

/// The groups that have the wanted name and policy.
pub(super) fn matching(mut all: Vec<ServerGroup>, wanted: &NamedServerGroup) -> Vec<ServerGroup> {
    let policy = wanted.policy.as_str();
    all.retain(|it| it.name == wanted.name && it.policies.iter().any(|it| it == policy));
    all
}

/// What the deletion of an object does about the groups with the name and policy that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerGroupDeletionPlan {
    /// Another object still needs a group of this name.
    Keep,
    /// No other object needs a group of this name. Each such group in which no server exists is deleted.
    DeleteUnused,
}

/// Decides from the objects that name the group. One of them is the object that is being deleted, with the UID
/// `own_uid`.
pub(super) fn server_group_deletion_plan(
    naming: &[Arc<OpenStackServer>],
    own_uid: Option<&str>,
) -> ServerGroupDeletionPlan {
    let needs_it = |object: &Arc<OpenStackServer>| {
        object.metadata.deletion_timestamp.is_none() && object.uid().as_deref() != own_uid
    };
    if naming.iter().any(needs_it) {
        ServerGroupDeletionPlan::Keep
    } else {
        ServerGroupDeletionPlan::DeleteUnused
    }
}

/// Whether a member of a group keeps the group from being deleted. A group also contains servers that are soft-deleted,
/// and for a while servers that do not exist any more, which have no status.
pub(super) fn is_in_use_by(member: Option<&ServerStatus>) -> bool {
    !matches!(
        member,
        None | Some(ServerStatus::Deleted | ServerStatus::SoftDeleted)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_is_used_by_name_and_policy_and_of_several_the_one_with_servers() {
        let group = |id: &str, name: &str, policy: &str, members: &[&str]| ServerGroup {
            id: id.into(),
            name: name.to_owned(),
            policies: vec![policy.to_owned()],
            members: members.iter().map(|id| (*id).into()).collect(),
        };
        let ours = |id: &str, members: &[&str]| group(id, "g", "soft-anti-affinity", members);
        let wanted = NamedServerGroup {
            name: "g".to_owned(),
            ..NamedServerGroup::default()
        };
        let used = |id: &str| ServerGroupPlan::Use(id.into());
        for (all, expected) in [
            (vec![], ServerGroupPlan::Create),
            (
                vec![group("a", "g", "affinity", &["1"])],
                ServerGroupPlan::Create,
            ),
            (
                vec![group("a", "other", "soft-anti-affinity", &[])],
                ServerGroupPlan::Create,
            ),
            (vec![ours("a", &[])], used("a")),
            (vec![ours("b", &[]), ours("a", &[])], used("a")),
            (
                vec![ours("b", &[]), ours("c", &["1"]), ours("a", &[])],
                used("c"),
            ),
        ] {
            let plan = server_group_plan(all.clone(), &wanted);
            assert_eq!(plan, expected, "{all:?}");
        }
    }

    #[test]
    fn a_group_stays_for_every_other_object_that_is_not_being_deleted() {
        use ServerGroupDeletionPlan::{DeleteUnused, Keep};
        let object = |uid: &str, is_deleting: bool| {
            let deleted_at = is_deleting.then_some("2026-01-01T00:00:00Z");
            let object: OpenStackServer = serde_json::from_value(json!({
                "metadata": {"name": uid, "uid": uid, "deletionTimestamp": deleted_at},
                "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "ports": [], "sshKeyName": ""},
            }))
            .unwrap();
            Arc::new(object)
        };
        for (naming, expected) in [
            (vec![], DeleteUnused),
            (vec![object("own", true)], DeleteUnused),
            // The store may still show the object without its deletion timestamp.
            (vec![object("own", false)], DeleteUnused),
            (
                vec![object("own", true), object("other", true)],
                DeleteUnused,
            ),
            (vec![object("own", true), object("other", false)], Keep),
        ] {
            let plan = server_group_deletion_plan(&naming, Some("own"));
            assert_eq!(plan, expected, "{naming:?}");
        }
    }

    #[test]
    fn only_a_server_that_exists_keeps_its_group() {
        for (status, expected) in [
            (None, false),
            (Some(ServerStatus::Deleted), false),
            (Some(ServerStatus::SoftDeleted), false),
            (Some(ServerStatus::Active), true),
            (Some(ServerStatus::Error), true),
        ] {
            assert_eq!(is_in_use_by(status.as_ref()), expected, "{status:?}");
        }
    }
}

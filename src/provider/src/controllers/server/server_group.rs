//! Managed server groups. A group is created before the first server that names it, and deleted with the last one.
//!
//! Groups in Nova have no tags, and their names are not unique, so a group is found by its name and policy in the
//! project of the credentials. Several objects share a group. Only one of them at a time looks the group up, creates it
//! or deletes it.

mod plan;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::ResourceExt;
use parking_lot::Mutex;

use super::{CONDITION, Creations, StepResult, creations::described, delete::Deletion, failed};
use crate::{
    controllers::{
        Context,
        identity::{Identity, identity},
    },
    kubernetes::events::CloudObject,
    reconcile::{ReadAt, name_of},
    subject::Subject,
};
use capo_api::v1alpha1::{NamedServerGroup, OpenStackServer};
use capo_core::{
    Priority, Reason,
    ids::{ProjectId, ServerGroupId, ServerId},
};
use capo_openstack::{Cloud, compute::ServerGroup};
use plan::{
    ServerGroupDeletionPlan, ServerGroupPlan, is_in_use_by, matching, server_group_deletion_plan,
    server_group_plan,
};

/// How long a group that was found is used without another lookup.
const KEPT: Duration = Duration::from_mins(5);

/// A group's name, with everything that makes it another group elsewhere: two clusters can have the same name for a
/// group, and users choose the names of stand-alone servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    auth_url: String,
    region: Option<String>,
    project: ProjectId,
    name: String,
}

impl GroupKey {
    /// The group of this name in the project of the credentials.
    pub(super) fn new(cloud: &Cloud, project: &ProjectId, name: &str) -> Self {
        let profile = cloud.profile();
        Self {
            auth_url: profile.auth_url().to_string(),
            region: profile.region().map(str::to_owned),
            project: project.clone(),
            name: name.to_owned(),
        }
    }
}

/// The groups that this process has used. A clone is cheap and shares the data.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerGroups(Arc<Mutex<HashMap<GroupKey, Group>>>);

#[derive(Debug, Default)]
struct Group {
    /// The lock of the pass that looks the group up, creates it or deletes it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The id of the group, and the time at which it was seen.
    seen: Option<ReadAt<ServerGroupId>>,
}

impl ServerGroups {
    fn turn(&self, key: &GroupKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut groups = self.0.lock();
        Arc::clone(&groups.entry(key.clone()).or_default().turn)
    }

    fn seen(&self, key: &GroupKey) -> Option<ServerGroupId> {
        let groups = self.0.lock();
        let seen = groups.get(key)?.seen.as_ref()?;
        (seen.age(Instant::now()) < KEPT).then(|| seen.value.clone())
    }

    fn see(&self, key: &GroupKey, id: &ServerGroupId) {
        let mut groups = self.0.lock();
        let seen = ReadAt::new(id.clone(), Instant::now());
        groups.entry(key.clone()).or_default().seen = Some(seen);
    }

    /// Forgets the id, so that the next lookup sends a request.
    pub(super) fn forget(&self, key: &GroupKey) {
        if let Some(group) = self.0.lock().get_mut(key) {
            group.seen = None;
        }
    }

    /// Removes a deleted group from memory. While another pass waits for the lock, only the id is removed.
    fn remove(&self, key: &GroupKey) {
        let mut groups = self.0.lock();
        if let Some(group) = groups.get_mut(key) {
            group.seen = None;
            // One reference is in the map and one is held by the current caller.
            if Arc::strong_count(&group.turn) <= 2 {
                groups.remove(key);
            }
        }
    }
}

/// The id of the group. If the group does not exist, it is created.
pub(super) async fn ensure(
    context: &Context,
    identity: &Identity,
    group: &NamedServerGroup,
    creations: &Creations,
) -> StepResult<ServerGroupId> {
    let groups = &context.servers.groups;
    let cloud = &identity.cloud;
    let key = GroupKey::new(cloud, &identity.project, &group.name);
    let turn = groups.turn(&key);
    let _turn = turn.lock().await;
    if let Some(id) = groups.seen(&key) {
        return Ok(id);
    }
    let id = match server_group_plan(all(cloud).await?, group) {
        ServerGroupPlan::Use(id) => {
            creations.found(CloudObject::ServerGroup, &group.name);
            id
        }
        ServerGroupPlan::Create => create(context, cloud, group, creations).await?,
    };
    groups.see(&key, &id);
    Ok(id)
}

/// Creates the group, unless an earlier creation may still be carried out.
async fn create(
    context: &Context,
    cloud: &Cloud,
    group: &NamedServerGroup,
    creations: &Creations,
) -> StepResult<ServerGroupId> {
    let (object, name) = (CloudObject::ServerGroup, group.name.as_str());
    // The creation for another object may be uncertain too, even one that an earlier process has recorded.
    let uncertain = &context.servers.uncertain;
    for other in named(context, name) {
        uncertain.load(&*other, &name_of(&*other));
    }
    uncertain.check_for_all(CONDITION, &described(object, name))?;
    creations.begin(CONDITION, object, name).await?;
    let policy = group.policy.as_str();
    let answer = cloud
        .create_server_group(name, policy, Priority::Gate)
        .await
        .map(|created| created.id);
    let refused = Reason::InstanceCreateFailed;
    creations
        .end(object, name, answer, ServerGroupId::as_str)
        .map_err(|error| failed(&error, refused))
}

/// The objects that name the group, in any namespace and with any credentials, because two clusters can have the same
/// name for a group.
fn named(context: &Context, group: &str) -> Vec<Arc<OpenStackServer>> {
    let names_it = |object: &OpenStackServer| {
        let named = object.spec.managed_server_group.as_ref();
        named.is_some_and(|named| named.name == group)
    };
    context.stores.openstack_servers.state_filter(names_it)
}

/// Lists all groups of the project.
async fn all(cloud: &Cloud) -> StepResult<Vec<ServerGroup>> {
    cloud
        .server_groups(Priority::Settling)
        .await
        .map_err(|error| failed(&error, Reason::DependencyFailed))
}

impl Deletion<'_> {
    /// Deletes the group if this is the last object that names it. The server of this object is gone already.
    pub(super) async fn server_group(&self) -> StepResult<()> {
        let Some(group) = &self.object.spec.managed_server_group else {
            return Ok(());
        };
        let groups = &self.context.servers.groups;
        let key = GroupKey::new(self.cloud, self.project, &group.name);
        let turn = groups.turn(&key);
        let _turn = turn.lock().await;
        // An object that is created from now on looks the group up only after this pass has released the lock.
        let naming = self.sharing(&key).await;
        match server_group_deletion_plan(&naming, self.object.uid().as_deref()) {
            ServerGroupDeletionPlan::Keep => Ok(()),
            ServerGroupDeletionPlan::DeleteUnused => {
                self.unused_server_groups(group).await?;
                groups.remove(&key);
                Ok(())
            }
        }
    }

    /// The objects that name the group and whose credentials lead to its project. An object whose credentials can't be
    /// used now counts too, so that its group is not deleted.
    async fn sharing(&self, key: &GroupKey) -> Vec<Arc<OpenStackServer>> {
        let credentials_of =
            |object: &OpenStackServer| (object.namespace(), object.spec.identity_ref.clone());
        // Most objects have the credentials of this one, and every other reference is resolved only once.
        let mut known = vec![(credentials_of(self.object), true)];
        let mut sharing = Vec::new();
        for object in named(self.context, &key.name) {
            let credentials = credentials_of(&object);
            let resolved = known.iter().find(|(known, _)| *known == credentials);
            let shares = if let Some((_, shares)) = resolved {
                *shares
            } else {
                let subject = Subject::new("OpenStackServer", &name_of(&*object));
                let found = identity(self.context, &subject, &credentials.1).await;
                let shares = found.map_or(true, |found| {
                    GroupKey::new(&found.cloud, &found.project, &key.name) == *key
                });
                known.push((credentials, shares));
                shares
            };
            if shares {
                sharing.push(object);
            }
        }
        sharing
    }

    async fn unused_server_groups(&self, group: &NamedServerGroup) -> StepResult<()> {
        let found = matching(all(self.cloud).await?, group);
        let what = described(CloudObject::ServerGroup, &group.name);
        if found.is_empty() {
            self.ensure_certain(&what)?;
        }
        for found in found {
            self.found(&what);
            if self.has_servers(&found.members).await? {
                // The servers in this group belong to another object that is being deleted, or capo-rs did not create
                // them.
                continue;
            }
            let answer = self
                .cloud
                .delete_server_group(&found.id, Priority::Gate)
                .await;
            self.deleted(
                CloudObject::ServerGroup,
                &group.name,
                found.id.as_str(),
                answer,
            )?;
        }
        Ok(())
    }

    /// Whether one of these servers still exists.
    async fn has_servers(&self, members: &[ServerId]) -> StepResult<bool> {
        for id in members {
            let status = match self.cloud.server(id, Priority::Settling).await {
                Ok(server) => Some(server.status),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            };
            if is_in_use_by(status.as_ref()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(region: &str, project: &str) -> GroupKey {
        GroupKey {
            auth_url: "https://keystone/v3".to_owned(),
            region: Some(region.to_owned()),
            project: project.into(),
            name: "g".to_owned(),
        }
    }

    #[test]
    fn a_group_is_known_until_it_is_forgotten() {
        let groups = ServerGroups::default();
        let key = key("R1", "p");
        assert_eq!(groups.seen(&key), None);
        groups.see(&key, &"1".into());
        assert_eq!(groups.seen(&key), Some("1".into()));
        groups.forget(&key);
        assert_eq!(groups.seen(&key), None);
    }

    #[test]
    fn a_group_is_not_known_in_another_project_or_region() {
        let groups = ServerGroups::default();
        groups.see(&key("R1", "p"), &"1".into());
        assert_eq!(groups.seen(&key("R1", "q")), None);
        assert_eq!(groups.seen(&key("R2", "p")), None);
    }
}

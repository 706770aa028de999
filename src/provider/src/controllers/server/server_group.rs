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
    controllers::Context,
    kubernetes::events::CloudObject,
    reconcile::{ReadAt, name_of},
};
use capo_api::v1alpha1::{NamedServerGroup, OpenStackServer};
use capo_core::{
    Priority, Reason,
    ids::{ServerGroupId, ServerId},
};
use capo_openstack::{Cloud, compute::ServerGroup};
use plan::{
    ServerGroupDeletionPlan, ServerGroupPlan, is_in_use_by, matching, server_group_deletion_plan,
    server_group_plan,
};

/// How long a group that was found is used without another lookup.
const KEPT: Duration = Duration::from_mins(5);

/// The groups that this process has used, by name. A clone is cheap and shares the data.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerGroups(Arc<Mutex<HashMap<String, Group>>>);

#[derive(Debug, Default)]
struct Group {
    /// The lock of the pass that looks the group up, creates it or deletes it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The id of the group, and the time at which it was seen.
    seen: Option<ReadAt<ServerGroupId>>,
}

impl ServerGroups {
    fn turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut groups = self.0.lock();
        Arc::clone(&groups.entry(name.to_owned()).or_default().turn)
    }

    fn seen(&self, name: &str) -> Option<ServerGroupId> {
        let groups = self.0.lock();
        let seen = groups.get(name)?.seen.as_ref()?;
        (seen.age(Instant::now()) < KEPT).then(|| seen.value.clone())
    }

    fn see(&self, name: &str, id: &ServerGroupId) {
        let mut groups = self.0.lock();
        let seen = ReadAt::new(id.clone(), Instant::now());
        groups.entry(name.to_owned()).or_default().seen = Some(seen);
    }

    /// Forgets the id, so that the next lookup sends a request.
    pub(super) fn forget(&self, name: &str) {
        if let Some(group) = self.0.lock().get_mut(name) {
            group.seen = None;
        }
    }

    /// Removes a deleted group from memory. While another pass waits for the lock, only the id is removed.
    fn remove(&self, name: &str) {
        let mut groups = self.0.lock();
        if let Some(group) = groups.get_mut(name) {
            group.seen = None;
            // One reference is in the map and one is held by the current caller.
            if Arc::strong_count(&group.turn) <= 2 {
                groups.remove(name);
            }
        }
    }
}

/// The id of the group. If the group does not exist, it is created.
pub(super) async fn ensure(
    context: &Context,
    cloud: &Cloud,
    group: &NamedServerGroup,
    creations: &Creations,
) -> StepResult<ServerGroupId> {
    let groups = &context.servers.groups;
    let turn = groups.turn(&group.name);
    let _turn = turn.lock().await;
    if let Some(id) = groups.seen(&group.name) {
        return Ok(id);
    }
    let id = match server_group_plan(all(cloud).await?, group) {
        ServerGroupPlan::Use(id) => {
            creations.found(CloudObject::ServerGroup, &group.name);
            id
        }
        ServerGroupPlan::Create => create(context, cloud, group, creations).await?,
    };
    groups.see(&group.name, &id);
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

/// The objects that name the group, in any namespace, because two clusters can have the same name for a group.
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
        let turn = groups.turn(&group.name);
        let _turn = turn.lock().await;
        // An object that is created from now on looks the group up only after this pass has released the lock.
        let naming = named(self.context, &group.name);
        match server_group_deletion_plan(&naming, self.object.uid().as_deref()) {
            ServerGroupDeletionPlan::Keep => Ok(()),
            ServerGroupDeletionPlan::DeleteUnused => {
                self.unused_server_groups(group).await?;
                groups.remove(&group.name);
                Ok(())
            }
        }
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

    #[test]
    fn a_group_is_known_until_it_is_forgotten() {
        let groups = ServerGroups::default();
        assert_eq!(groups.seen("g"), None);
        groups.see("g", &"1".into());
        assert_eq!(groups.seen("g"), Some("1".into()));
        groups.forget("g");
        assert_eq!(groups.seen("g"), None);
    }
}

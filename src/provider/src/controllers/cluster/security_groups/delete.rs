//! Deletes managed security groups.

use super::{find, find_one};
use crate::kubernetes::conditions::kind::SECURITY_GROUPS_READY;
use crate::kubernetes::events::CloudObject;
use crate::reconcile::StepResult;
use crate::{controllers::cluster::step_context::StepContext, reconcile::cluster_names::Role};
use capo_core::{Priority, Reason};
use capo_openstack::network::SecurityGroup;

const KIND: &str = "Security group";

/// Deletes every managed group that exists. Returns `Ok` when none is left.
pub(crate) async fn all(context: &StepContext<'_>) -> StepResult<()> {
    let found = find(context).await?;
    let mut is_any = false;
    for (role, group) in found.into_list() {
        is_any = true;
        let name = context.desired.names.security_group(role);
        context.creations.found(CloudObject::SecurityGroup, &name);
        delete(context, &group).await?;
    }
    if !is_any {
        return ensure_all_certain(context);
    }
    match find(context).await?.into_list().next() {
        None => ensure_all_certain(context),
        Some((_, group)) => Err(context.still_deleting(SECURITY_GROUPS_READY, KIND, &group.name)),
    }
}

/// Deletes the group of `role` if it exists. Returns `Ok` when it is gone.
pub(crate) async fn one(context: &StepContext<'_>, role: Role) -> StepResult<()> {
    let Some(group) = find_one(context, role).await? else {
        return ensure_certain(context, role);
    };
    let name = context.desired.names.security_group(role);
    context.creations.found(CloudObject::SecurityGroup, &name);
    delete(context, &group).await?;
    match find_one(context, role).await? {
        None => Ok(()),
        Some(group) => Err(context.still_deleting(SECURITY_GROUPS_READY, KIND, &group.name)),
    }
}

/// Returns a wait while the creation of the group of `role` may still be carried out, because it counts as existing.
fn ensure_certain(context: &StepContext<'_>, role: Role) -> StepResult<()> {
    let name = context.desired.names.security_group(role);
    let kind = CloudObject::SecurityGroup;
    context.creations.check(SECURITY_GROUPS_READY, kind, &name)
}

fn ensure_all_certain(context: &StepContext<'_>) -> StepResult<()> {
    let mut roles = [Role::ControlPlane, Role::Worker, Role::Bastion].into_iter();
    roles.try_for_each(|role| ensure_certain(context, role))
}

async fn delete(context: &StepContext<'_>, group: &SecurityGroup) -> StepResult<()> {
    let answer = context
        .cloud
        .delete_security_group(&group.id, Priority::Settling)
        .await;
    context
        .deleted(
            CloudObject::SecurityGroup,
            &group.name,
            group.id.as_str(),
            answer,
        )
        .map_err(|error| {
            let doing = format!("Deleting security group {}", group.name);
            let ordinary = Reason::SecurityGroupCreateFailed;
            context.in_use(SECURITY_GROUPS_READY, ordinary, &doing, &error)
        })
}

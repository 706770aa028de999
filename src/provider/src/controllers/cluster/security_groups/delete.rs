//! Deletes managed security groups.

use super::{failed, find, find_one};
use crate::kubernetes::conditions::kind::SECURITY_GROUPS_READY;
use crate::kubernetes::events::CloudObject;
use crate::reconcile::{StepError, StepResult};
use crate::{controllers::cluster::step_context::StepContext, reconcile::cluster_names::Role};
use capo_core::Priority;
use capo_openstack::network::SecurityGroup;

/// Deletes every managed group that exists. Returns `Ok` when none is left.
pub(crate) async fn all(context: &StepContext<'_>) -> StepResult<()> {
    let found = find(context).await?;
    let mut is_any = false;
    for (_, group) in found.into_list() {
        is_any = true;
        delete(context, &group).await?;
    }
    if !is_any {
        return Ok(());
    }
    match find(context).await?.into_list().next() {
        None => Ok(()),
        Some((_, group)) => Err(still_deleting(context, &group)),
    }
}

/// Deletes the group of `role` if it exists. Returns `Ok` when it is gone.
pub(crate) async fn one(context: &StepContext<'_>, role: Role) -> StepResult<()> {
    let Some(group) = find_one(context, role).await? else {
        return Ok(());
    };
    delete(context, &group).await?;
    match find_one(context, role).await? {
        None => Ok(()),
        Some(group) => Err(still_deleting(context, &group)),
    }
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
            if error.class().is_conflict() {
                let message = format!("{doing} waits for what uses it: {error}");
                return context.still_deleting(SECURITY_GROUPS_READY, message);
            }
            failed(&doing, &error)
        })
}

fn still_deleting(context: &StepContext<'_>, group: &SecurityGroup) -> StepError {
    let message = format!("Security group {} is being deleted", group.name);
    context.still_deleting(SECURITY_GROUPS_READY, message)
}

//! Makes the rules of a security group match the desired ones.

use super::{
    desired_rules::DesiredRule,
    failed,
    plan::{self, FoundRule},
    wire::{found_rule, new_rule},
};
use crate::controllers::cluster::step_context::StepContext;
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::StepResult;
use capo_core::{FailureClass, Priority};
use capo_openstack::{
    Error,
    network::{NewSecurityGroupRule, SecurityGroup},
};

/// Adds the rules that are missing and removes those that are not desired. A rule that Neutron refuses because an equal
/// one exists counts as present. If that equal rule is then removed, the desired one is added again right after that.
pub(crate) async fn apply_rules(
    context: &StepContext<'_>,
    group: &SecurityGroup,
    desired: &[DesiredRule],
    complete: bool,
) -> StepResult<()> {
    let found: Vec<FoundRule> = group.rules.iter().filter_map(found_rule).collect();
    let todo = plan::changes(desired, complete, &found);
    let present = create_rules(context, group, &todo.create).await?;
    for id in &todo.delete {
        match context
            .cloud
            .delete_security_group_rule(id, Priority::Settling)
            .await
        {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                context.failed(
                    Verb::Update,
                    CloudObject::SecurityGroup,
                    &group.name,
                    &error,
                );
                let doing = format!("Removing a rule from security group {}", group.name);
                return Err(failed(&doing, &error));
            }
        }
    }
    let present = if todo.delete.is_empty() {
        present
    } else {
        create_rules(context, group, &present).await?
    };
    let (created, deleted) = (todo.create.len() - present.len(), todo.delete.len());
    if created + deleted > 0 {
        let change = format!("{created} rules added, {deleted} removed");
        context.updated(
            CloudObject::SecurityGroup,
            &group.name,
            group.id.as_str(),
            &change,
        );
    }
    Ok(())
}

/// Creates rules with one request, or one by one if Neutron has one of them already. Returns those that Neutron has
/// already.
async fn create_rules(
    context: &StepContext<'_>,
    group: &SecurityGroup,
    rules: &[DesiredRule],
) -> StepResult<Vec<DesiredRule>> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let new: Vec<NewSecurityGroupRule> = rules.iter().map(|r| new_rule(&group.id, r)).collect();
    let refused = |error: &Error| {
        context.failed(Verb::Update, CloudObject::SecurityGroup, &group.name, error);
        let doing = format!("Adding rules to security group {}", group.name);
        failed(&doing, error)
    };
    match create_call(context, &new).await {
        Ok(()) => return Ok(Vec::new()),
        Err(error) if error.is(FailureClass::Duplicate) => {}
        Err(error) => return Err(refused(&error)),
    }
    let mut present = Vec::new();
    for (rule, new) in rules.iter().zip(&new) {
        match create_call(context, std::slice::from_ref(new)).await {
            Ok(()) => {}
            Err(error) if error.is(FailureClass::Duplicate) => present.push(rule.clone()),
            Err(error) => return Err(refused(&error)),
        }
    }
    Ok(present)
}

async fn create_call(context: &StepContext<'_>, new: &[NewSecurityGroupRule]) -> Result<(), Error> {
    context
        .cloud
        .create_security_group_rules(new, Priority::Settling)
        .await
        .map(drop)
}

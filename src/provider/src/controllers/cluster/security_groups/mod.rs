//! Managed security groups. They are created, and get exactly the rules of [`desired_rules`].

mod apply_rules;
pub(crate) mod delete;
pub(crate) mod desired_rules;
pub(crate) mod family;
mod plan;
pub(crate) mod protocol;
pub(crate) mod rule;
mod wire;

use self::{
    desired_rules::{RuleInputs, UserRule},
    plan::GroupPlan,
    rule::{Remote, Rule},
};
use super::{
    desired::{DesiredSecurityGroups, DesiredUserRule},
    observation::{Groups, KnownGroup},
    step_context::{NewObject, StepContext},
};
use crate::kubernetes::conditions::kind::SECURITY_GROUPS_READY;
use crate::kubernetes::events::CloudObject;
use crate::reconcile::{
    StepError, StepResult,
    cluster_names::{Role, SECURITY_GROUP_DESCRIPTION},
    matching::resolve,
};
use capo_core::{Priority, Reason, ids::SecurityGroupId};
use capo_openstack::{
    Error,
    network::{NewSecurityGroup, SecurityGroup, SecurityGroupFilter, Tagged},
};

/// The managed security groups that were found.
#[derive(Debug, Default)]
pub(crate) struct FoundGroups {
    control_plane: Option<SecurityGroup>,
    worker: Option<SecurityGroup>,
    bastion: Option<SecurityGroup>,
}

impl FoundGroups {
    fn into_list(self) -> impl Iterator<Item = (Role, SecurityGroup)> {
        [
            (Role::ControlPlane, self.control_plane),
            (Role::Worker, self.worker),
            (Role::Bastion, self.bastion),
        ]
        .into_iter()
        .filter_map(|(role, group)| Some((role, group?)))
    }
}

fn failed(doing: &str, error: &Error) -> StepError {
    StepError::cloud(
        SECURITY_GROUPS_READY,
        Reason::SecurityGroupCreateFailed,
        doing,
        error,
    )
}

/// Creates the groups and makes their rules match the spec. `ranges` are the ranges of the cluster's subnets.
pub(crate) async fn ensure(
    context: &StepContext<'_>,
    desired: &DesiredSecurityGroups,
    ranges: &[ipnet::IpNet],
) -> StepResult<Groups> {
    // Rules that refer to the bastion's group need its id, so no rule is changed while the groups can't be looked up.
    let found = find(context).await?;
    let control_plane = ensure_group(context, Role::ControlPlane, found.control_plane).await?;
    let worker = ensure_group(context, Role::Worker, found.worker).await?;
    let (bastion, leftover) = match plan::group(found.bastion, context.desired.bastion) {
        GroupPlan::Leave(group) => (None, Some(group)),
        GroupPlan::Nothing => (None, None),
        GroupPlan::Create => (
            Some(ensure_group(context, Role::Bastion, None).await?),
            None,
        ),
        GroupPlan::Manage(found) => {
            let bastion = ensure_group(context, Role::Bastion, Some(found)).await?;
            (Some(bastion), None)
        }
    };
    let ids = GroupIds {
        control_plane: &control_plane.id,
        worker: &worker.id,
        bastion: bastion.as_ref().map(|group| &group.id),
    };
    let inputs = rule_inputs(context, desired, ranges, &ids);
    let managed = [
        (Role::ControlPlane, Some(&control_plane)),
        (Role::Worker, Some(&worker)),
        (Role::Bastion, bastion.as_ref()),
    ];
    for (role, group) in managed {
        if let Some(group) = group {
            let complete = desired.complete || role == Role::Bastion;
            let rules = desired_rules::desired(role, &inputs);
            apply_rules::apply_rules(context, group, &rules, complete).await?;
        }
    }
    let known = |group: SecurityGroup| KnownGroup {
        id: group.id,
        name: group.name,
    };
    Ok(Groups {
        control_plane: known(control_plane),
        worker: known(worker),
        bastion: bastion.or(leftover).map(known),
    })
}

/// The ids of the managed groups, to which rules refer.
#[derive(Debug, Clone, Copy)]
struct GroupIds<'a> {
    control_plane: &'a SecurityGroupId,
    worker: &'a SecurityGroupId,
    bastion: Option<&'a SecurityGroupId>,
}

/// Looks all managed groups up with one request.
pub(crate) async fn find(context: &StepContext<'_>) -> StepResult<FoundGroups> {
    const ROLES: [Role; 3] = [Role::ControlPlane, Role::Worker, Role::Bastion];
    let mut found = list(context, &ROLES).await?;
    Ok(FoundGroups {
        control_plane: of_role(context, &mut found, Role::ControlPlane)?,
        worker: of_role(context, &mut found, Role::Worker)?,
        bastion: of_role(context, &mut found, Role::Bastion)?,
    })
}

async fn find_one(context: &StepContext<'_>, role: Role) -> StepResult<Option<SecurityGroup>> {
    let mut found = list(context, &[role]).await?;
    of_role(context, &mut found, role)
}

async fn list(context: &StepContext<'_>, roles: &[Role]) -> StepResult<Vec<SecurityGroup>> {
    let names = &context.desired.names;
    let filter = SecurityGroupFilter {
        names: roles
            .iter()
            .map(|role| names.security_group(*role))
            .collect(),
        project_id: Some(context.project.clone()),
        ..SecurityGroupFilter::default()
    };
    let doing = format!("Looking for security groups {}", filter.names.join(", "));
    context
        .cloud
        .security_groups(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(&doing, &e))
}

/// Takes the group of `role` out of the list of groups that were found.
fn of_role(
    context: &StepContext<'_>,
    found: &mut Vec<SecurityGroup>,
    role: Role,
) -> StepResult<Option<SecurityGroup>> {
    let name = context.desired.names.security_group(role);
    let known = match role {
        Role::ControlPlane => context.known.control_plane_group.as_ref(),
        Role::Worker => context.known.worker_group.as_ref(),
        Role::Bastion => context.known.bastion_group.as_ref(),
    };
    let named: Vec<SecurityGroup> = found.extract_if(.., |group| group.name == name).collect();
    resolve(named, known, |g| &g.id).at_most_one(
        SECURITY_GROUPS_READY,
        &format!("Security group name \"{name}\""),
    )
}

async fn ensure_group(
    context: &StepContext<'_>,
    role: Role,
    found: Option<SecurityGroup>,
) -> StepResult<SecurityGroup> {
    let name = context.desired.names.security_group(role);
    let group = if let Some(group) = found {
        context.creations.found(CloudObject::SecurityGroup, &name);
        group
    } else {
        let new = NewSecurityGroup {
            name: name.clone(),
            description: SECURITY_GROUP_DESCRIPTION.to_owned(),
        };
        let request = context
            .cloud
            .create_security_group(&new, Priority::Settling);
        let object = NewObject {
            condition: SECURITY_GROUPS_READY,
            kind: CloudObject::SecurityGroup,
            name: &name,
        };
        let doing = format!("Creating security group {name}");
        let failed = |e: &Error| failed(&doing, e);
        context
            .create(object, request, |group| group.id.as_str(), failed)
            .await?
    };
    context
        .tag(
            SECURITY_GROUPS_READY,
            Tagged::SecurityGroup(&group.id),
            &group.tags,
        )
        .await?;
    Ok(group)
}

fn rule_inputs(
    context: &StepContext<'_>,
    desired: &DesiredSecurityGroups,
    ranges: &[ipnet::IpNet],
    ids: &GroupIds<'_>,
) -> RuleInputs {
    let of_user = |list: &[DesiredUserRule]| -> Vec<UserRule> {
        list.iter().flat_map(|rule| expand(rule, ids)).collect()
    };
    let additional_ports = context
        .desired
        .load_balancer
        .as_ref()
        .map(|lb| lb.additional_ports.clone())
        .unwrap_or_default();
    RuleInputs {
        control_plane_group: ids.control_plane.clone(),
        worker_group: ids.worker.clone(),
        bastion_group: ids.bastion.cloned(),
        api_ports: context.desired.endpoint.node_ports(),
        additional_ports,
        allow_all_in_cluster: desired.allow_all_in_cluster,
        subnet_ranges: ranges.to_vec(),
        control_plane_rules: of_user(&desired.control_plane_rules),
        worker_rules: of_user(&desired.worker_rules),
    }
}

/// Returns one rule for each managed group at the other end of the traffic, or the rule itself if the spec names no
/// group.
fn expand(desired: &DesiredUserRule, ids: &GroupIds<'_>) -> Vec<UserRule> {
    let rule_with = |remote: Remote| UserRule {
        rule: Rule {
            remote,
            ..desired.rule.clone()
        },
        description: desired.description.clone(),
    };
    if desired.groups.is_empty() {
        return vec![rule_with(desired.rule.remote.clone())];
    }
    let groups = desired.groups.iter().filter_map(|role| match role {
        Role::ControlPlane => Some(ids.control_plane),
        Role::Worker => Some(ids.worker),
        Role::Bastion => ids.bastion,
    });
    groups
        .map(|id| rule_with(Remote::Group(id.clone())))
        .collect()
}

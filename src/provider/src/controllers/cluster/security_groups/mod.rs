//! Managed security groups: there, and with exactly the rules of [`super::rules`].

pub(crate) mod protocol;
pub(crate) mod rules;

use self::{
    protocol::Protocol,
    rules::{Direction, Family, FoundRule, Remote, Rule, RuleInputs, UserRule},
};
use super::{
    desired::{DesiredSecurityGroups, DesiredUserRule},
    names::{Role, SECURITY_GROUP_DESCRIPTION},
    resolve::resolve,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::SECURITY_GROUPS_READY;
use crate::reconcile::{StepError, StepResult};
use capo_core::{FailureClass, Priority, Reason};
use capo_openstack::{
    Error,
    network::{
        self, EtherType, NewSecurityGroup, NewSecurityGroupRule, SecurityGroup,
        SecurityGroupFilter, SecurityGroupRule, Tagged,
    },
};

/// The managed groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The control plane's: id and name.
    pub control_plane: (String, String),
    /// The workers': id and name.
    pub worker: (String, String),
    /// The bastion's, while one is enabled: id and name.
    pub bastion: Option<(String, String)>,
}

fn failed(doing: &str, error: &Error) -> StepError {
    StepError::cloud(
        SECURITY_GROUPS_READY,
        Reason::SecurityGroupCreateFailed,
        doing,
        error,
    )
}

/// Makes every group what it should be. `ranges` are the cluster's subnets.
pub(crate) async fn groups(
    context: &StepContext<'_>,
    desired: &DesiredSecurityGroups,
    ranges: &[ipnet::IpNet],
) -> StepResult<Groups> {
    let control_plane = group(context, Role::ControlPlane).await?;
    let worker = group(context, Role::Worker).await?;
    // Rules that name the bastion's group need its id: while it can't be looked up, no rule is changed.
    let bastion = if context.desired.bastion {
        find(context, Role::Bastion).await?
    } else {
        None
    };
    let ids = GroupIds {
        control_plane: &control_plane.id,
        worker: &worker.id,
        bastion: bastion.as_ref().map(|group| group.id.as_str()),
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
            apply_rules(context, group, &rules::desired(role, &inputs), complete).await?;
        }
    }
    Ok(Groups {
        control_plane: (control_plane.id.into(), control_plane.name),
        worker: (worker.id.into(), worker.name),
        bastion: bastion.map(|group| (group.id.into(), group.name)),
    })
}

/// Ids of the managed groups, which rules refer to.
#[derive(Debug, Clone, Copy)]
struct GroupIds<'a> {
    control_plane: &'a str,
    worker: &'a str,
    bastion: Option<&'a str>,
}

/// The group of `role` as it is; `None` where there is none.
pub(crate) async fn find(
    context: &StepContext<'_>,
    role: Role,
) -> StepResult<Option<SecurityGroup>> {
    let name = context.desired.names.security_group(role);
    let filter = SecurityGroupFilter {
        name: Some(name.clone()),
        project_id: Some(context.project.clone()),
        ..SecurityGroupFilter::default()
    };
    let found = context
        .cloud
        .security_groups(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(&format!("Looking for security group {name}"), &e))?;
    let known = match role {
        Role::ControlPlane => context.known.control_plane_group.as_deref(),
        Role::Worker => context.known.worker_group.as_deref(),
        Role::Bastion => context.known.bastion_group.as_deref(),
    };
    resolve(found, known, |g| &g.id).at_most_one(
        SECURITY_GROUPS_READY,
        &format!("Security group name \"{name}\""),
    )
}

async fn group(context: &StepContext<'_>, role: Role) -> StepResult<SecurityGroup> {
    let group = if let Some(group) = find(context, role).await? {
        group
    } else {
        let new = NewSecurityGroup {
            name: context.desired.names.security_group(role),
            description: SECURITY_GROUP_DESCRIPTION.to_owned(),
        };
        let group = context
            .cloud
            .create_security_group(&new, Priority::Settling)
            .await
            .map_err(|e| failed(&format!("Creating security group {}", new.name), &e))?;
        context.created("security group", &group.name, &group.id);
        group
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
        control_plane_group: ids.control_plane.to_owned(),
        worker_group: ids.worker.to_owned(),
        bastion_group: ids.bastion.map(ToOwned::to_owned),
        api_ports: context.desired.endpoint.node_ports(),
        additional_ports,
        allow_all_in_cluster: desired.allow_all_in_cluster,
        subnet_ranges: ranges.to_vec(),
        control_plane_rules: of_user(&desired.control_plane_rules),
        worker_rules: of_user(&desired.worker_rules),
    }
}

/// One rule for each managed group at the other end, or the rule itself where none is named.
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
        .map(|id| rule_with(Remote::Group(id.to_owned())))
        .collect()
}

/// Adds what is missing and removes what is too much. A rule that exists by Neutron's own comparison counts as
/// present. If the one it equals is removed as too much, it is added again right after that.
async fn apply_rules(
    context: &StepContext<'_>,
    group: &SecurityGroup,
    desired: &[rules::DesiredRule],
    complete: bool,
) -> StepResult<()> {
    let found: Vec<FoundRule> = group.rules.iter().filter_map(found_rule).collect();
    let todo = rules::changes(desired, complete, &found);
    let present = create_rules(context, group, &todo.create).await?;
    for id in &todo.delete {
        match context
            .cloud
            .delete_security_group_rule(&id.as_str().into(), Priority::Settling)
            .await
        {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let doing = format!("Removing a rule from security group {}", group.name);
                return Err(failed(&doing, &error));
            }
        }
    }
    if !todo.delete.is_empty() {
        create_rules(context, group, &present).await?;
    }
    let (created, deleted) = (todo.create.len() - present.len(), todo.delete.len());
    if created + deleted > 0 {
        let change = format!("{created} rules added, {deleted} removed");
        context.updated("security group", &group.name, &group.id, &change);
    }
    Ok(())
}

/// Creates rules in one call, or one by one where Neutron has one of them already. Returns those that it has.
async fn create_rules(
    context: &StepContext<'_>,
    group: &SecurityGroup,
    rules: &[rules::DesiredRule],
) -> StepResult<Vec<rules::DesiredRule>> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let new: Vec<NewSecurityGroupRule> = rules.iter().map(|r| new_rule(&group.id, r)).collect();
    let doing = format!("Adding rules to security group {}", group.name);
    match create_call(context, &new).await {
        Ok(()) => return Ok(Vec::new()),
        Err(error) if error.is(FailureClass::Duplicate) => {}
        Err(error) => return Err(failed(&doing, &error)),
    }
    let mut present = Vec::new();
    for (rule, new) in rules.iter().zip(&new) {
        match create_call(context, std::slice::from_ref(new)).await {
            Ok(()) => {}
            Err(error) if error.is(FailureClass::Duplicate) => present.push(rule.clone()),
            Err(error) => return Err(failed(&doing, &error)),
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

/// A rule as Neutron shows it; one of a kind that we don't know is left alone.
fn found_rule(found: &SecurityGroupRule) -> Option<FoundRule> {
    let direction = match found.direction {
        network::Direction::Ingress => Direction::Ingress,
        network::Direction::Egress => Direction::Egress,
        network::Direction::Unknown(_) => return None,
    };
    let family = match found.ether_type {
        EtherType::Ipv4 => Family::V4,
        EtherType::Ipv6 => Family::V6,
        EtherType::Unknown(_) => return None,
    };
    let remote = match (&found.remote_group_id, &found.remote_ip_prefix) {
        (Some(group), _) => Remote::Group(group.to_string()),
        (None, Some(range)) => Remote::range(range),
        (None, None) => Remote::Anywhere,
    };
    Some(FoundRule {
        id: found.id.to_string(),
        rule: Rule {
            direction,
            family,
            protocol: Protocol::parse(found.protocol.as_deref(), family),
            port_min: found.port_range_min.and_then(|port| port.try_into().ok()),
            port_max: found.port_range_max.and_then(|port| port.try_into().ok()),
            remote,
        },
    })
}

fn new_rule(group: &str, desired: &rules::DesiredRule) -> NewSecurityGroupRule {
    let rule = &desired.rule;
    let (remote_group_id, remote_ip_prefix) = match &rule.remote {
        Remote::Anywhere => (None, None),
        Remote::Range(range) => (None, Some(range.clone())),
        Remote::Group(group) => (Some(group.clone()), None),
    };
    let port = |port: Option<u32>| port.and_then(|port| port.try_into().ok());
    NewSecurityGroupRule {
        security_group_id: group.into(),
        description: desired.description.clone(),
        direction: match rule.direction {
            Direction::Ingress => network::Direction::Ingress,
            Direction::Egress => network::Direction::Egress,
        },
        ether_type: match rule.family {
            Family::V4 => EtherType::Ipv4,
            Family::V6 => EtherType::Ipv6,
        },
        protocol: rule.protocol.as_ref().map(ToString::to_string),
        port_range_min: port(rule.port_min),
        port_range_max: port(rule.port_max),
        remote_ip_prefix,
        remote_group_id: remote_group_id.map(Into::into),
    }
}

//! Managed security groups: there, and with exactly the rules of [`super::rules`].

pub(crate) mod rules;

use self::rules::{Direction, Family, FoundRule, Remote, Rule, RuleInputs, UserRule};
use super::{
    desired::{DesiredSecurityGroups, DesiredUserRule},
    halt::{Halt, Step},
    names::{Role, SECURITY_GROUP_DESCRIPTION},
    resolve::resolve,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::SECURITY_GROUPS_READY;
use capo_core::Priority;
use capo_core::Reason;
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
}

fn failed(doing: &str, error: &Error) -> Halt {
    Halt::cloud(
        SECURITY_GROUPS_READY,
        Reason::SecurityGroupCreateFailed,
        doing,
        error,
    )
}

/// Makes both groups what they should be. `ranges` are the cluster's subnets.
pub(crate) async fn groups(
    context: &StepContext<'_>,
    desired: &DesiredSecurityGroups,
    ranges: &[ipnet::IpNet],
) -> Step<Groups> {
    let control_plane = group(context, Role::ControlPlane).await?;
    let worker = group(context, Role::Worker).await?;
    let inputs = rule_inputs(context, desired, ranges, &control_plane.id, &worker.id);
    for (role, group) in [
        (Role::ControlPlane, &control_plane),
        (Role::Worker, &worker),
    ] {
        apply_rules(context, group, &rules::desired(role, &inputs)).await?;
    }
    Ok(Groups {
        control_plane: (control_plane.id.into(), control_plane.name),
        worker: (worker.id.into(), worker.name),
    })
}

/// The group of `role` as it is; `None` where there is none.
pub(crate) async fn find(context: &StepContext<'_>, role: Role) -> Step<Option<SecurityGroup>> {
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
        Role::Bastion => None,
    };
    resolve(found, known, |g| &g.id).at_most_one(
        SECURITY_GROUPS_READY,
        &format!("Security group name \"{name}\""),
    )
}

async fn group(context: &StepContext<'_>, role: Role) -> Step<SecurityGroup> {
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
    control_plane: &str,
    worker: &str,
) -> RuleInputs {
    let of_user = |list: &[DesiredUserRule]| -> Vec<UserRule> {
        list.iter()
            .flat_map(|rule| expand(rule, control_plane, worker))
            .collect()
    };
    let additional_ports = context
        .desired
        .load_balancer
        .as_ref()
        .map(|lb| lb.additional_ports.clone())
        .unwrap_or_default();
    RuleInputs {
        control_plane_group: control_plane.to_owned(),
        worker_group: worker.to_owned(),
        api_port: context.desired.endpoint.port(),
        additional_ports,
        allow_all_in_cluster: desired.allow_all_in_cluster,
        subnet_ranges: ranges
            .iter()
            .filter(|range| range.addr().is_ipv4())
            .map(|range| range.trunc().to_string())
            .collect(),
        control_plane_rules: of_user(&desired.control_plane_rules),
        worker_rules: of_user(&desired.worker_rules),
    }
}

/// One rule for each managed group at the other end, or the rule itself where none is named.
fn expand(desired: &DesiredUserRule, control_plane: &str, worker: &str) -> Vec<UserRule> {
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
    desired
        .groups
        .iter()
        .filter_map(|role| match role {
            Role::ControlPlane => Some(rule_with(Remote::Group(control_plane.to_owned()))),
            Role::Worker => Some(rule_with(Remote::Group(worker.to_owned()))),
            Role::Bastion => None,
        })
        .collect()
}

async fn apply_rules(
    context: &StepContext<'_>,
    group: &SecurityGroup,
    desired: &[rules::DesiredRule],
) -> Step<()> {
    let found: Vec<FoundRule> = group.rules.iter().filter_map(found_rule).collect();
    let todo = rules::changes(desired, &found);
    if !todo.create.is_empty() {
        let new: Vec<NewSecurityGroupRule> = todo
            .create
            .iter()
            .map(|rule| new_rule(&group.id, rule))
            .collect();
        let doing = format!("Adding rules to security group {}", group.name);
        context
            .cloud
            .create_security_group_rules(&new, Priority::Settling)
            .await
            .map_err(|e| failed(&doing, &e))?;
    }
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
    Ok(())
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
            protocol: rules::protocol(found.protocol.as_deref()),
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
        protocol: rule.protocol.clone(),
        port_range_min: port(rule.port_min),
        port_range_max: port(rule.port_max),
        remote_ip_prefix,
        remote_group_id: remote_group_id.map(Into::into),
    }
}

//! Parses the user's security group rules.

use super::problems::{Problems, SpecPart};
use crate::controllers::cluster::{
    desired::DesiredUserRule,
    security_groups::{
        family::Family,
        protocol::Protocol,
        rule::{Direction, Remote, Rule, canonical_ports},
    },
};
use crate::reconcile::cluster_names::Role;
use capo_api::v1beta2::{
    ManagedSecurityGroupName, RuleDirection, RuleEtherType, SecurityGroupRuleSpec,
};

/// Parses a list of rules; `field` is its path in the spec. A rule that can't be parsed is recorded as a problem and
/// left out.
pub(crate) fn read_all(
    field: &str,
    list: &[SecurityGroupRuleSpec],
    bastion: bool,
    problems: &mut Problems<'_>,
) -> Vec<DesiredUserRule> {
    list.iter()
        .filter_map(|spec| read(&format!("{field}[{}]", spec.name), spec, bastion, problems))
        .collect()
}

fn read(
    field: &str,
    spec: &SecurityGroupRuleSpec,
    bastion: bool,
    problems: &mut Problems<'_>,
) -> Option<DesiredUserRule> {
    const PART: SpecPart = SpecPart::SecurityGroupRules;
    let direction = match &spec.direction {
        RuleDirection::Ingress => Direction::Ingress,
        RuleDirection::Egress => Direction::Egress,
        RuleDirection::Unknown(other) => {
            let right = "ingress or egress";
            problems.invalid(PART, &format!("{field}.direction"), other, right);
            return None;
        }
    };
    let family = match &spec.ether_type {
        None | Some(RuleEtherType::Ipv4) => Family::V4,
        Some(RuleEtherType::Ipv6) => Family::V6,
        Some(RuleEtherType::Unknown(other)) => {
            problems.invalid(PART, &format!("{field}.etherType"), other, "IPv4 or IPv6");
            return None;
        }
    };
    let mut groups = Vec::new();
    for group in &spec.remote_managed_groups {
        let role = match group {
            ManagedSecurityGroupName::ControlPlane => Role::ControlPlane,
            ManagedSecurityGroupName::Worker => Role::Worker,
            ManagedSecurityGroupName::Bastion if bastion => Role::Bastion,
            ManagedSecurityGroupName::Bastion | ManagedSecurityGroupName::Unknown(_) => {
                let right = "controlplane, worker, or bastion while spec.bastion is enabled,";
                problems.invalid(PART, &format!("{field}.remoteManagedGroups"), group, right);
                return None;
            }
        };
        groups.push(role);
    }
    let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let remote = match (
        present(&spec.remote_group_id),
        present(&spec.remote_ip_prefix),
        groups.is_empty(),
    ) {
        (Some(group), None, true) => Remote::Group(group.into()),
        (None, Some(range), true) => Remote::range(&range),
        (None, None, _) => Remote::Anywhere,
        _ => {
            let found = "set more than once";
            let right = "at most one of remoteManagedGroups, remoteGroupID and remoteIPPrefix";
            problems.invalid(PART, &format!("{field}.remote"), found, right);
            return None;
        }
    };
    // Go writes 0 for a port that is not set.
    let port = |port: Option<i64>| {
        port.filter(|port| *port > 0)
            .and_then(|port| u32::try_from(port).ok())
    };
    let (port_min, port_max) =
        canonical_ports(port(spec.port_range_min), port(spec.port_range_max));
    Some(DesiredUserRule {
        rule: Rule {
            direction,
            family,
            protocol: Protocol::parse(spec.protocol.as_deref(), family),
            port_min,
            port_max,
            remote,
        },
        groups,
        description: spec.description.clone().unwrap_or_default(),
    })
}

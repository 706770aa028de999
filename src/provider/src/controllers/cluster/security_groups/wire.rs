//! Rules between Neutron's shape and ours.

use super::{
    desired_rules::DesiredRule,
    family::Family,
    plan::FoundRule,
    protocol::Protocol,
    rule::{Direction, Remote, Rule},
};
use capo_openstack::network::{self, EtherType, NewSecurityGroupRule, SecurityGroupRule};

/// A rule as Neutron shows it; one of an unknown kind is left alone.
pub(crate) fn found_rule(found: &SecurityGroupRule) -> Option<FoundRule> {
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

/// A rule as Neutron takes it.
pub(crate) fn new_rule(group: &str, desired: &DesiredRule) -> NewSecurityGroupRule {
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

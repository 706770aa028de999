//! Converts rules between the form of Neutron's API and the form that is compared.

use super::{
    desired_rules::DesiredRule,
    family::Family,
    plan::FoundRule,
    protocol::Protocol,
    rule::{Direction, Remote, Rule, canonical_ports},
};
use capo_core::ids::SecurityGroupId;
use capo_openstack::network::{self, EtherType, NewSecurityGroupRule, SecurityGroupRule};

/// Converts a rule that Neutron shows. `None` means that the rule is of an unknown kind; it is left alone.
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
    let remote = if let Some(group) = &found.remote_group_id {
        Remote::Group(group.clone())
    } else if let Some(group) = &found.remote_address_group_id {
        Remote::AddressGroup(group.clone())
    } else if let Some(range) = &found.remote_ip_prefix {
        Remote::range(range)
    } else {
        Remote::Anywhere
    };
    let port = |port: Option<i32>| port.and_then(|port| port.try_into().ok());
    // A Neutron from before 2019 shows all ports as they were written.
    let (port_min, port_max) =
        canonical_ports(port(found.port_range_min), port(found.port_range_max));
    Some(FoundRule {
        id: found.id.clone(),
        rule: Rule {
            direction,
            family,
            protocol: Protocol::parse(found.protocol.as_deref(), family),
            port_min,
            port_max,
            remote,
        },
    })
}

/// Converts a rule into the request that creates it.
pub(crate) fn new_rule(group: &SecurityGroupId, desired: &DesiredRule) -> NewSecurityGroupRule {
    let rule = &desired.rule;
    let (mut remote_group_id, mut remote_ip_prefix, mut remote_address_group_id) =
        (None, None, None);
    match &rule.remote {
        Remote::Anywhere => {}
        Remote::Range(range) => remote_ip_prefix = Some(range.clone()),
        Remote::Group(group) => remote_group_id = Some(group.clone()),
        Remote::AddressGroup(group) => remote_address_group_id = Some(group.clone()),
    }
    let port = |port: Option<u32>| port.and_then(|port| port.try_into().ok());
    NewSecurityGroupRule {
        security_group_id: group.clone(),
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
        remote_group_id,
        remote_address_group_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn remote(field: &str, value: &Value) -> Remote {
        let rule = json!({"id": "r", "direction": "ingress", "ethertype": "IPv4", (field): value});
        let rule: SecurityGroupRule = from_value(rule).unwrap();
        found_rule(&rule).unwrap().rule.remote
    }

    #[test]
    fn all_ports_are_no_range() {
        for (min, max, expected) in [
            (json!(1), json!(65_535), (None, None)),
            (Value::Null, Value::Null, (None, None)),
            (json!(1), json!(65_534), (Some(1), Some(65_534))),
            (json!(2), json!(65_535), (Some(2), Some(65_535))),
        ] {
            let rule = json!({"id": "r", "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp",
                "port_range_min": min, "port_range_max": max});
            let rule: SecurityGroupRule = from_value(rule).unwrap();
            let found = found_rule(&rule).unwrap().rule;
            assert_eq!((found.port_min, found.port_max), expected, "{min} {max}");
        }
    }

    #[test]
    fn the_other_side_is_any_address_only_where_neutron_names_none() {
        for (field, value, expected) in [
            ("remote_ip_prefix", Value::Null, Remote::Anywhere),
            ("remote_ip_prefix", json!("0.0.0.0/0"), Remote::Anywhere),
            (
                "remote_ip_prefix",
                json!("192.0.2.0/24"),
                Remote::Range("192.0.2.0/24".to_owned()),
            ),
            ("remote_group_id", json!("g"), Remote::Group("g".into())),
            (
                "remote_address_group_id",
                json!("a"),
                Remote::AddressGroup("a".to_owned()),
            ),
        ] {
            assert_eq!(remote(field, &value), expected, "{field} {value}");
        }
    }
}

//! The form in which Neutron stores a security group rule, and the comparison of two rules.
//!
//! The functions are pure: the input is the attributes of a request, the output the row's attributes or Neutron's
//! refusal.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{invalid_input, neutron_error};
use crate::wire::{Reply, Row, given, text};

/// The attributes of a rule that a request sets.
pub(super) const ATTRIBUTES: [&str; 8] = [
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id",
];

/// The protocols that have a name, with their numbers. `icmpv6` is an alias and comes after the name it stands for.
const PROTOCOLS: [(&str, u8); 25] = [
    ("ah", 51),
    ("dccp", 33),
    ("egp", 8),
    ("esp", 50),
    ("gre", 47),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("ipv6-encap", 41),
    ("ipv6-frag", 44),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ipv6-route", 43),
    ("ospf", 89),
    ("pgm", 113),
    ("rsvp", 46),
    ("sctp", 132),
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("vrrp", 112),
    ("ip", 0),
];

/// The numbers of the protocols that have ports.
const WITH_PORTS: [u8; 5] = [33, 132, 6, 17, 136];

/// The numbers of the protocols that exist in IPv6 only.
const IPV6_ONLY: [u8; 6] = [41, 44, 58, 59, 60, 43];

fn number(protocol: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
    named
        .map(|(_, number)| *number)
        .or_else(|| protocol.parse().ok())
}

/// The attributes as they are stored, every one of them present; `Err` is the refusal.
pub(super) fn canonical(body: &Row) -> Result<Row, Reply> {
    let mut rule: Row = ATTRIBUTES
        .iter()
        .map(|name| {
            let value = body.get(*name).cloned().unwrap_or_default();
            ((*name).to_owned(), value)
        })
        .collect();
    if !["ingress", "egress"].contains(&text(&rule, "direction")) {
        return Err(invalid_input(format!(
            "Invalid input for direction. Reason: '{}' is not in ['ingress', 'egress']",
            text(&rule, "direction")
        )));
    }
    let ipv6 = match given(&rule, "ethertype").map(str::to_ascii_lowercase) {
        None => false,
        Some(family) if family == "ipv4" => false,
        Some(family) if family == "ipv6" => true,
        Some(other) => {
            return Err(neutron_error(
                400,
                "SecurityGroupRuleInvalidEtherType",
                format!(
                    "Security group rule for ethertype '{other}' not supported. Allowed values are ['IPv4', 'IPv6']."
                ),
            ));
        }
    };
    let family = if ipv6 { "IPv6" } else { "IPv4" };
    rule.insert("ethertype".into(), json!(family));
    let protocol = protocol(&rule, ipv6)?;
    rule.insert("protocol".into(), json!(protocol));
    let prefix = prefix(&rule, ipv6)?;
    rule.insert("remote_ip_prefix".into(), json!(prefix));
    // All ports are stored as none, before anything is checked.
    if rule["port_range_min"] == 1 && rule["port_range_max"] == 65_535 {
        for end in ["port_range_min", "port_range_max"] {
            rule.insert(end.into(), Value::Null);
        }
    }
    ports(&rule, protocol.as_deref())?;
    let remotes = [
        "remote_ip_prefix",
        "remote_group_id",
        "remote_address_group_id",
    ];
    if remotes
        .iter()
        .filter(|name| given(&rule, name).is_some())
        .count()
        > 1
    {
        return Err(neutron_error(
            400,
            "SecurityGroupMultipleRemoteEntites",
            "Only one of remote_ip_prefix, remote_group_id or remote_address_group_id may be provided.",
        ));
    }
    Ok(rule)
}

/// The protocol as it is stored: lower case, a number as text, and for IPv6 `ipv6-icmp` or `58` however ICMP was
/// written.
fn protocol(rule: &Row, ipv6: bool) -> Result<Option<String>, Reply> {
    let written = match rule.get("protocol") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(written)) => written.to_ascii_lowercase(),
        Some(other) => other.to_string(),
    };
    if written == "any" {
        return Ok(None);
    }
    let Some(number) = number(&written) else {
        return Err(neutron_error(
            400,
            "SecurityGroupRuleInvalidProtocol",
            format!(
                "Security group rule protocol {written} not supported. Only protocol values [None, {}] and integer representations [0 to 255] are supported.",
                PROTOCOLS.map(|(name, _)| format!("'{name}'")).join(", ")
            ),
        ));
    };
    if ipv6 {
        return Ok(Some(match written.as_str() {
            "icmp" | "icmpv6" => "ipv6-icmp".to_owned(),
            "1" => "58".to_owned(),
            _ => written,
        }));
    }
    if IPV6_ONLY.contains(&number) {
        return Err(neutron_error(
            400,
            "SecurityGroupEthertypeConflictWithProtocol",
            format!("Invalid ethertype IPv4 for protocol {written}."),
        ));
    }
    Ok(Some(written))
}

/// The remote range as it is stored: an address alone becomes a range of one, host bits stay.
fn prefix(rule: &Row, ipv6: bool) -> Result<Option<String>, Reply> {
    let Some(written) = given(rule, "remote_ip_prefix") else {
        return Ok(None);
    };
    let range = written
        .parse::<IpNet>()
        .or_else(|_| written.parse::<IpAddr>().map(IpNet::from));
    let Ok(range) = range else {
        return Err(neutron_error(
            400,
            "InvalidCIDR",
            format!("Invalid CIDR {written} given as IP prefix."),
        ));
    };
    if matches!(range, IpNet::V6(_)) != ipv6 {
        return Err(neutron_error(
            400,
            "SecurityGroupRuleParameterConflict",
            format!(
                "Conflicting value ethertype {} for CIDR {range}",
                text(rule, "ethertype")
            ),
        ));
    }
    Ok(Some(range.to_string()))
}

/// Refuses ports for a protocol without ports, and invalid ranges.
fn ports(rule: &Row, protocol: Option<&str>) -> Result<(), Reply> {
    let bound = |name: &str| rule.get(name).and_then(Value::as_i64);
    let (low, high) = (bound("port_range_min"), bound("port_range_max"));
    if low.is_none() && high.is_none() {
        return Ok(());
    }
    let Some(protocol) = protocol else {
        return Err(neutron_error(
            400,
            "SecurityGroupProtocolRequiredWithPorts",
            "Must also specify protocol if port range is given.",
        ));
    };
    let number = number(protocol).unwrap_or_default();
    if WITH_PORTS.contains(&number) {
        return match (low, high) {
            (Some(0), _) | (_, Some(0)) => Err(neutron_error(
                400,
                "SecurityGroupInvalidPortValue",
                "Invalid value for port 0",
            )),
            (Some(low), Some(high)) if low <= high => Ok(()),
            _ => Err(neutron_error(
                400,
                "SecurityGroupInvalidPortRange",
                "For TCP/UDP protocols, port_range_min must be <= port_range_max",
            )),
        };
    }
    if number == 1 || number == 58 {
        if let (None, Some(code)) = (low, high) {
            return Err(neutron_error(
                400,
                "SecurityGroupMissingIcmpType",
                format!(
                    "ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing."
                ),
            ));
        }
        let outside = [("port_range_min", "type"), ("port_range_max", "code")]
            .into_iter()
            .find(|(name, _)| bound(name).is_some_and(|value| !(0..=255).contains(&value)));
        return match outside {
            None => Ok(()),
            Some((name, field)) => Err(neutron_error(
                400,
                "SecurityGroupInvalidIcmpValue",
                format!(
                    "Invalid value for ICMP {field} ({name}) {}. It must be 0 to 255.",
                    bound(name).unwrap_or_default()
                ),
            )),
        };
    }
    Err(neutron_error(
        400,
        "SecurityGroupInvalidProtocolForPort",
        format!(
            "Invalid protocol {protocol} for port range, only supported for TCP, UDP, UDPLITE, SCTP and DCCP."
        ),
    ))
}

/// Two rules of one group with the same key are the same rule to Neutron: a protocol's number equals its name, a range
/// of all addresses equals none, ports that were left out are 1 to 65535. The description does not count.
pub(super) fn key(rule: &Row) -> String {
    let value = |name: &str| match (name, rule.get(name).unwrap_or(&Value::Null)) {
        ("port_range_min", Value::Null) => "1".to_owned(),
        ("port_range_max", Value::Null) => "65535".to_owned(),
        (_, Value::Null) => "-".to_owned(),
        ("remote_ip_prefix", Value::String(all)) if all == "0.0.0.0/0" || all == "::/0" => {
            "-".to_owned()
        }
        ("protocol", Value::String(protocol)) => {
            number(protocol).map_or_else(|| protocol.clone(), |number| number.to_string())
        }
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    };
    ATTRIBUTES.map(value).join("_")
}

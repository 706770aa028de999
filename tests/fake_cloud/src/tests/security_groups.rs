//! Rules of security groups: their stored form, and which rules are equal.

use serde_json::{Value, json};

use super::{Pure, id};

const GROUPS: &str = "/network/v2.0/security-groups";
const RULES: &str = "/network/v2.0/security-group-rules";

fn group() -> (Pure, String) {
    let mut cloud = Pure::new();
    let body = json!({ "security_group": { "name": "g" } });
    let (_, group) = cloud.call("POST", GROUPS, body);
    let group = id(&group, "security_group");
    (cloud, group)
}

/// A rule for ingress of this family and protocol.
fn rule(group: &str, family: &str, protocol: &Value) -> Value {
    json!({ "security_group_id": group, "direction": "ingress", "ethertype": family, "protocol": protocol })
}

fn post(cloud: &mut Pure, rule: &Value) -> (u16, Value) {
    cloud.call("POST", RULES, json!({ "security_group_rule": rule }))
}

fn refusal(body: &Value) -> &str {
    body["NeutronError"]["type"].as_str().unwrap_or("")
}

#[test]
fn protocols_are_stored_in_neutrons_spelling() {
    for (family, sent, stored) in [
        ("IPv4", json!("TCP"), "tcp"),
        ("IPv4", json!("icmp"), "icmp"),
        ("IPv4", json!("1"), "1"),
        ("IPv4", json!(6), "6"),
        ("IPv4", json!("50"), "50"),
        ("IPv6", json!("icmp"), "ipv6-icmp"),
        ("IPv6", json!("ICMPv6"), "ipv6-icmp"),
        ("IPv6", json!("ipv6-icmp"), "ipv6-icmp"),
        ("IPv6", json!("1"), "58"),
        ("IPv6", json!("58"), "58"),
        ("IPv6", json!("udp"), "udp"),
    ] {
        let (mut cloud, group) = group();
        let (status, made) = post(&mut cloud, &rule(&group, family, &sent));
        assert_eq!(status, 201, "{family} {sent}: {made}");
        assert_eq!(
            made["security_group_rule"]["protocol"], stored,
            "{family} {sent}"
        );
    }
    let (mut cloud, group) = group();
    let (_, made) = post(&mut cloud, &rule(&group, "IPv4", &json!("any")));
    assert_eq!(made["security_group_rule"]["protocol"], Value::Null);
}

#[test]
fn one_rule_in_two_spellings_exists_already() {
    for (family, first, second) in [
        ("IPv6", json!("icmp"), json!("ipv6-icmp")),
        ("IPv6", json!("icmpv6"), json!("1")),
        ("IPv6", json!("58"), json!("icmp")),
        ("IPv4", json!("tcp"), json!("6")),
        ("IPv4", json!(17), json!("UDP")),
        ("IPv4", json!("1"), json!("icmp")),
    ] {
        let (mut cloud, group) = group();
        let (status, made) = post(&mut cloud, &rule(&group, family, &first));
        assert_eq!(status, 201, "{made}");
        let (status, body) = post(&mut cloud, &rule(&group, family, &second));
        assert_eq!(
            (status, refusal(&body)),
            (409, "SecurityGroupRuleExists"),
            "{family}: {first}, then {second}"
        );
        assert!(
            body.to_string()
                .contains(made["security_group_rule"]["id"].as_str().unwrap())
        );
    }
}

#[test]
fn all_addresses_all_ports_and_the_description_make_no_difference() {
    let (mut cloud, group) = group();
    let (status, made) = post(&mut cloud, &rule(&group, "IPv4", &json!("tcp")));
    assert_eq!(status, 201, "{made}");
    for more in [
        json!({ "remote_ip_prefix": "0.0.0.0/0" }),
        json!({ "port_range_min": 1, "port_range_max": 65535 }),
        json!({ "description": "other words" }),
    ] {
        let mut again = rule(&group, "IPv4", &json!("tcp"));
        for (name, value) in more.as_object().unwrap() {
            again[name] = value.clone();
        }
        let (status, body) = post(&mut cloud, &again);
        assert_eq!(
            (status, refusal(&body)),
            (409, "SecurityGroupRuleExists"),
            "{more}"
        );
    }
    let mut one_port = rule(&group, "IPv4", &json!("tcp"));
    one_port["port_range_min"] = json!(22);
    one_port["port_range_max"] = json!(22);
    assert_eq!(post(&mut cloud, &one_port).0, 201);
}

#[test]
fn the_rules_that_a_group_is_born_with_exist_already() {
    let (mut cloud, group) = group();
    for family in ["IPv4", "IPv6"] {
        let body =
            json!({ "security_group_id": group, "direction": "egress", "ethertype": family });
        let (status, body) = post(&mut cloud, &body);
        assert_eq!(
            (status, refusal(&body)),
            (409, "SecurityGroupRuleExists"),
            "{family}"
        );
    }
}

#[test]
fn of_a_refused_list_nothing_is_created() {
    let (mut cloud, group) = group();
    let (_, other) = cloud.call(
        "POST",
        GROUPS,
        json!({ "security_group": { "name": "other" } }),
    );
    let other = id(&other, "security_group");
    let egress = json!({ "security_group_id": group, "direction": "egress", "ethertype": "IPv4" });
    for (last, expected) in [
        (egress, (409, "SecurityGroupRuleExists")),
        (
            rule(&group, "IPv4", &json!("6")),
            (409, "DuplicateSecurityGroupRuleInPost"),
        ),
        (
            rule(&other, "IPv4", &json!("udp")),
            (400, "SecurityGroupNotSingleGroupRules"),
        ),
        (
            rule(&group, "IPv4", &json!("ipv6-icmp")),
            (400, "SecurityGroupEthertypeConflictWithProtocol"),
        ),
    ] {
        let list = json!([rule(&group, "IPv4", &json!("tcp")), last]);
        let (status, body) = cloud.call("POST", RULES, json!({ "security_group_rules": list }));
        assert_eq!((status, refusal(&body)), expected, "{list}");
        let left = cloud.get(&format!("{RULES}?security_group_id={group}"));
        assert_eq!(left["security_group_rules"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn an_invalid_rule_is_refused_with_its_reason() {
    for (change, expected) in [
        (
            json!({ "protocol": "quic" }),
            "SecurityGroupRuleInvalidProtocol",
        ),
        (
            json!({ "protocol": "300" }),
            "SecurityGroupRuleInvalidProtocol",
        ),
        (
            json!({ "ethertype": "IPX" }),
            "SecurityGroupRuleInvalidEtherType",
        ),
        (json!({ "direction": "sideways" }), "InvalidInput"),
        (json!({ "remote_ip_prefix": "10.0.0.0/33" }), "InvalidCIDR"),
        (
            json!({ "remote_ip_prefix": "fd00::/8" }),
            "SecurityGroupRuleParameterConflict",
        ),
        (
            json!({ "protocol": null, "port_range_min": 1, "port_range_max": 2 }),
            "SecurityGroupProtocolRequiredWithPorts",
        ),
        (
            json!({ "port_range_min": 0, "port_range_max": 2 }),
            "SecurityGroupInvalidPortValue",
        ),
        (
            json!({ "port_range_min": 3, "port_range_max": 2 }),
            "SecurityGroupInvalidPortRange",
        ),
        (
            json!({ "port_range_min": 3 }),
            "SecurityGroupInvalidPortRange",
        ),
        (
            json!({ "protocol": "gre", "port_range_min": 3, "port_range_max": 3 }),
            "SecurityGroupInvalidProtocolForPort",
        ),
        (
            json!({ "protocol": "icmp", "port_range_min": 256 }),
            "SecurityGroupInvalidIcmpValue",
        ),
        (
            json!({ "protocol": "icmp", "port_range_max": 3 }),
            "SecurityGroupMissingIcmpType",
        ),
        (
            json!({ "remote_ip_prefix": "10.0.0.0/8", "remote_group_id": "a-group" }),
            "SecurityGroupMultipleRemoteEntites",
        ),
        (
            json!({ "remote_group_id": "a-group" }),
            "SecurityGroupNotFound",
        ),
    ] {
        let (mut cloud, group) = group();
        let mut body = rule(&group, "IPv4", &json!("tcp"));
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        let (status, body) = post(&mut cloud, &body);
        assert!((400..500).contains(&status), "{change}: {status}");
        assert_eq!(refusal(&body), expected, "{change}");
    }
}

#[test]
fn remote_ranges_are_stored_as_ranges() {
    for (family, sent, stored, network) in [
        ("IPv4", "10.1.2.3", "10.1.2.3/32", "10.1.2.3/32"),
        ("IPv4", "10.1.2.3/24", "10.1.2.3/24", "10.1.2.0/24"),
        ("IPv6", "FD00:0::1/64", "fd00::1/64", "fd00::/64"),
    ] {
        let (mut cloud, group) = group();
        let mut body = rule(&group, family, &Value::Null);
        body["remote_ip_prefix"] = json!(sent);
        let (status, made) = post(&mut cloud, &body);
        assert_eq!(status, 201, "{made}");
        let made = &made["security_group_rule"];
        assert_eq!(
            (&made["remote_ip_prefix"], &made["normalized_cidr"]),
            (&json!(stored), &json!(network))
        );
    }
}

//! Neutron's requests and answers about ports, floating IPs, security groups, trunks and tags.

use std::collections::BTreeMap;

use capo_core::Priority;
use capo_openstack::network::{
    Direction, EtherType, FixedIp, FloatingIpFilter, NewFloatingIp, NewPort, NewSecurityGroup,
    NewSecurityGroupRule, NewTrunk, PortFilter, PortStatus, SecurityGroupFilter, SubPort, Tagged,
};
use serde_json::json;
use wiremock::ResponseTemplate;

use super::{
    answer, cloud,
    network::{at, body_of},
    ok, pairs,
};

const GATE: Priority = Priority::Gate;

#[tokio::test]
async fn ports() {
    let test = cloud().await;
    let port = json!({"id": "p1", "name": "m-0", "network_id": "n1", "status": "DOWN", "admin_state_up": true,
        "mac_address": "fa:16:3e:00:00:01", "fixed_ips": [{"subnet_id": "s1", "ip_address": "10.6.0.7"}],
        "security_groups": ["g1"], "device_id": "", "device_owner": "", "tags": []});
    answer(&test, "GET", &at("ports"), ok(json!({"ports": [port]}))).await;
    answer(&test, "POST", &at("ports"), ok(json!({ "port": port }))).await;
    let filter = PortFilter {
        ids: vec!["p1".into(), "p2".into()],
        network_id: Some("n1".into()),
        ip_address: Some([10, 6, 0, 7].into()),
        ..Default::default()
    };
    let found = test.cloud.ports(&filter, GATE).await.unwrap();
    assert_eq!(found[0].status, PortStatus::Down);
    assert_eq!(found[0].fixed_ips[0].ip_address, Some([10, 6, 0, 7].into()));
    let (query, _) = test.the_request("GET", &at("ports")).await;
    let expected = [
        ("id", "p1"),
        ("id", "p2"),
        ("network_id", "n1"),
        ("fixed_ips", "ip_address=10.6.0.7"),
        ("limit", "1000"),
    ];
    assert_eq!(query, pairs(&expected));
    let new = NewPort {
        name: "m-0".into(),
        network_id: "n1".into(),
        fixed_ips: vec![FixedIp {
            subnet_id: Some("s1".into()),
            ip_address: None,
        }],
        security_groups: Some(vec![]),
        vnic_type: Some("direct".into()),
        binding_profile: BTreeMap::from([("capabilities".into(), json!(["switchdev"]))]),
        value_specs: BTreeMap::from([("x:y".into(), "z".into())]),
        ..Default::default()
    };
    test.cloud.create_port(&new, GATE).await.unwrap();
    assert_eq!(
        body_of(&test, "POST", "ports").await,
        json!({"port": {"name": "m-0", "network_id": "n1", "fixed_ips": [{"subnet_id": "s1"}],
            "security_groups": [], "binding:vnic_type": "direct",
            "binding:profile": {"capabilities": ["switchdev"]}, "x:y": "z"}})
    );
}

#[tokio::test]
async fn floating_ips() {
    let test = cloud().await;
    let ip = json!({"id": "f1", "floating_ip_address": "203.0.113.9", "fixed_ip_address": null,
        "port_id": null, "router_id": null, "floating_network_id": "ext", "status": "DOWN", "description": "x"});
    answer(
        &test,
        "GET",
        &at("floatingips"),
        ok(json!({"floatingips": [ip]})),
    )
    .await;
    answer(
        &test,
        "POST",
        &at("floatingips"),
        ok(json!({ "floatingip": ip })),
    )
    .await;
    answer(
        &test,
        "PUT",
        &at("floatingips/f1"),
        ok(json!({ "floatingip": ip })),
    )
    .await;
    answer(
        &test,
        "DELETE",
        &at("floatingips/f1"),
        ResponseTemplate::new(204),
    )
    .await;
    let cloud = &test.cloud;
    let filter = FloatingIpFilter {
        floating_ip_address: Some([203, 0, 113, 9].into()),
        ..Default::default()
    };
    let found = cloud.floating_ips(&filter, GATE).await.unwrap();
    assert_eq!(found[0].floating_network_id.as_str(), "ext");
    let new = NewFloatingIp {
        floating_network_id: "ext".into(),
        ..Default::default()
    };
    cloud.create_floating_ip(&new, GATE).await.unwrap();
    cloud
        .associate_floating_ip(&"f1".into(), None, GATE)
        .await
        .unwrap();
    assert_eq!(
        body_of(&test, "PUT", "floatingips/f1").await,
        json!({"floatingip": {"port_id": null}}),
        "null removes it from the port"
    );
    cloud.delete_floating_ip(&"f1".into(), GATE).await.unwrap();
}

#[tokio::test]
async fn security_groups() {
    let test = cloud().await;
    let rule = json!({"id": "r1", "security_group_id": "g1", "direction": "ingress", "ethertype": "IPv4",
        "protocol": "tcp", "port_range_min": 6443, "port_range_max": 6443, "remote_ip_prefix": null,
        "remote_group_id": "g2", "description": null});
    let group = json!({"id": "g1", "name": "g", "security_group_rules": [rule]});
    answer(
        &test,
        "GET",
        &at("security-groups"),
        ok(json!({"security_groups": [group]})),
    )
    .await;
    answer(
        &test,
        "POST",
        &at("security-groups"),
        ok(json!({ "security_group": group })),
    )
    .await;
    answer(
        &test,
        "DELETE",
        &at("security-groups/g1"),
        ResponseTemplate::new(204),
    )
    .await;
    let rules = ok(json!({"security_group_rules": [rule, rule]}));
    answer(&test, "POST", &at("security-group-rules"), rules).await;
    answer(
        &test,
        "DELETE",
        &at("security-group-rules/r1"),
        ResponseTemplate::new(204),
    )
    .await;
    let cloud = &test.cloud;
    let found = cloud
        .security_groups(&SecurityGroupFilter::default(), GATE)
        .await
        .unwrap();
    assert_eq!(found[0].rules[0].remote_group_id, Some("g2".into()));
    let new = NewSecurityGroup {
        name: "g".into(),
        description: "d".into(),
    };
    cloud.create_security_group(&new, GATE).await.unwrap();
    let new = NewSecurityGroupRule {
        security_group_id: "g1".into(),
        description: String::new(),
        direction: Direction::Ingress,
        ether_type: EtherType::Ipv4,
        protocol: Some("tcp".into()),
        port_range_min: Some(22),
        port_range_max: Some(22),
        remote_ip_prefix: None,
        remote_group_id: None,
        remote_address_group_id: None,
    };
    let made = cloud
        .create_security_group_rules(&[new.clone(), new], GATE)
        .await
        .unwrap();
    assert_eq!(made.len(), 2);
    let body = body_of(&test, "POST", "security-group-rules").await;
    assert_eq!(
        body["security_group_rules"][1],
        json!({"security_group_id": "g1", "direction": "ingress", "ethertype": "IPv4",
            "protocol": "tcp", "port_range_min": 22, "port_range_max": 22})
    );
    cloud
        .delete_security_group_rule(&"r1".into(), GATE)
        .await
        .unwrap();
    cloud
        .delete_security_group(&"g1".into(), GATE)
        .await
        .unwrap();
}

#[tokio::test]
async fn tags_trunks_and_extensions() {
    let test = cloud().await;
    answer(
        &test,
        "PUT",
        &at("security-groups/g1/tags"),
        ok(json!({"tags": ["a"]})),
    )
    .await;
    let trunk = json!({"id": "t1", "name": "t", "port_id": "p1", "sub_ports": [{"port_id": "p2", "segmentation_id": 1}]});
    answer(&test, "GET", &at("trunks"), ok(json!({"trunks": [trunk]}))).await;
    answer(&test, "POST", &at("trunks"), ok(json!({ "trunk": trunk }))).await;
    answer(
        &test,
        "PUT",
        &at("trunks/t1/remove_subports"),
        ok(json!({})),
    )
    .await;
    answer(
        &test,
        "DELETE",
        &at("trunks/t1"),
        ResponseTemplate::new(204),
    )
    .await;
    let extensions =
        json!({"extensions": [{"alias": "trunk", "name": "x"}, {"alias": "standard-attr-tag"}]});
    answer(&test, "GET", &at("extensions"), ok(extensions)).await;
    let cloud = &test.cloud;
    cloud
        .replace_tags(Tagged::SecurityGroup(&"g1".into()), &["a".into()], GATE)
        .await
        .unwrap();
    assert_eq!(
        body_of(&test, "PUT", "security-groups/g1/tags").await,
        json!({"tags": ["a"]})
    );
    let found = cloud.trunks(&"p1".into(), GATE).await.unwrap();
    assert_eq!(
        found[0].sub_ports,
        [SubPort {
            port_id: "p2".into()
        }]
    );
    let new = NewTrunk {
        name: "t".into(),
        port_id: "p1".into(),
        ..Default::default()
    };
    cloud.create_trunk(&new, GATE).await.unwrap();
    cloud
        .remove_sub_ports(&"t1".into(), &found[0].sub_ports, GATE)
        .await
        .unwrap();
    assert_eq!(
        body_of(&test, "PUT", "trunks/t1/remove_subports").await,
        json!({"sub_ports": [{"port_id": "p2"}]})
    );
    cloud.delete_trunk(&"t1".into(), GATE).await.unwrap();
    for _ in 0..3 {
        let extensions = cloud.network_extensions(GATE).await.unwrap();
        assert!(extensions.contains("standard-attr-tag"));
    }
    assert_eq!(
        test.requests("GET", &at("extensions")).await.len(),
        1,
        "asked once"
    );
}

//! Neutron's requests and answers: networks, subnets, routers.

use capo_core::Priority;
use capo_openstack::network::{
    ExternalGateway, NetworkFilter, NewNetwork, NewRouter, NewSubnet, RouterFilter,
    RouterInterface, RouterUpdate, SubnetFilter, SubnetUpdate, TagFilter,
};
use serde_json::json;
use wiremock::ResponseTemplate;

use super::{TestCloud, answer, cloud, ok, pairs};

const GATE: Priority = Priority::Gate;

pub(super) fn at(path: &str) -> String {
    format!("/network/v2.0/{path}")
}

pub(super) async fn body_of(test: &TestCloud, verb: &str, path: &str) -> serde_json::Value {
    test.the_request(verb, &at(path)).await.1
}

#[tokio::test]
async fn networks_and_subnets() {
    let test = cloud().await;
    let network = json!({"id": "n1", "name": "net", "subnets": ["s1"], "tags": ["t"],
        "router:external": true, "mtu": 1450, "port_security_enabled": true, "project_id": "p"});
    let subnet = json!({"id": "s1", "name": "sub", "network_id": "n1", "cidr": "10.6.0.0/24",
        "ip_version": 4, "gateway_ip": null, "dns_nameservers": ["1.1.1.1"],
        "allocation_pools": [{"start": "10.6.0.2", "end": "10.6.0.254"}]});
    answer(
        &test,
        "GET",
        &at("networks"),
        ok(json!({"networks": [network]})),
    )
    .await;
    answer(
        &test,
        "POST",
        &at("networks"),
        ok(json!({ "network": network })),
    )
    .await;
    answer(
        &test,
        "DELETE",
        &at("networks/n1"),
        ResponseTemplate::new(204),
    )
    .await;
    answer(
        &test,
        "GET",
        &at("subnets"),
        ok(json!({"subnets": [subnet]})),
    )
    .await;
    answer(
        &test,
        "POST",
        &at("subnets"),
        ok(json!({ "subnet": subnet })),
    )
    .await;
    answer(
        &test,
        "PUT",
        &at("subnets/s1"),
        ok(json!({ "subnet": subnet })),
    )
    .await;
    let filter = NetworkFilter {
        name: Some("net".into()),
        external: Some(true),
        tags: TagFilter {
            tags: vec!["a".into(), "b".into()],
            not_tags_any: vec!["c".into()],
            ..Default::default()
        },
        ..Default::default()
    };
    let found = test.cloud.networks(&filter, GATE).await.unwrap();
    assert!(found[0].external);
    let (query, _) = test.the_request("GET", &at("networks")).await;
    let expected = [
        ("name", "net"),
        ("router:external", "true"),
        ("tags", "a,b"),
        ("not-tags-any", "c"),
        ("limit", "1000"),
    ];
    assert_eq!(query, pairs(&expected));
    let new = NewNetwork {
        name: "net".into(),
        mtu: Some(1450),
        ..Default::default()
    };
    test.cloud.create_network(&new, GATE).await.unwrap();
    assert_eq!(
        body_of(&test, "POST", "networks").await,
        json!({"network": {"name": "net", "mtu": 1450}})
    );
    test.cloud.delete_network(&"n1".into(), GATE).await.unwrap();

    let filter = SubnetFilter {
        network_id: Some("n1".into()),
        cidr: Some("10.6.0.0/24".parse().unwrap()),
        ..Default::default()
    };
    let found = test.cloud.subnets(&filter, GATE).await.unwrap();
    assert_eq!(found[0].cidr, Some("10.6.0.0/24".parse().unwrap()));
    assert_eq!(found[0].gateway_ip, None);
    let new = NewSubnet {
        network_id: "n1".into(),
        name: "sub".into(),
        description: String::new(),
        cidr: "10.6.0.0/24".parse().unwrap(),
        ip_version: 4,
        dns_nameservers: vec!["1.1.1.1".into()],
        allocation_pools: vec![],
        ipv6_address_mode: None,
        ipv6_ra_mode: None,
    };
    test.cloud.create_subnet(&new, GATE).await.unwrap();
    assert_eq!(
        body_of(&test, "POST", "subnets").await,
        json!({"subnet": {"network_id": "n1", "name": "sub", "cidr": "10.6.0.0/24", "ip_version": 4,
            "dns_nameservers": ["1.1.1.1"]}})
    );
    let update = SubnetUpdate {
        dns_nameservers: Some(vec![]),
    };
    test.cloud
        .update_subnet(&"s1".into(), &update, GATE)
        .await
        .unwrap();
    assert_eq!(
        body_of(&test, "PUT", "subnets/s1").await,
        json!({"subnet": {"dns_nameservers": []}})
    );
}

#[tokio::test]
async fn routers() {
    let test = cloud().await;
    let router = json!({"id": "r1", "name": "r", "status": "ACTIVE", "external_gateway_info":
        {"network_id": "ext", "enable_snat": true, "external_fixed_ips": [{"subnet_id": "e", "ip_address": "203.0.113.5"}]}});
    answer(
        &test,
        "GET",
        &at("routers"),
        ok(json!({"routers": [router]})),
    )
    .await;
    answer(
        &test,
        "POST",
        &at("routers"),
        ok(json!({ "router": router })),
    )
    .await;
    answer(
        &test,
        "PUT",
        &at("routers/r1"),
        ok(json!({ "router": router })),
    )
    .await;
    for action in ["add", "remove"] {
        let path = at(&format!("routers/r1/{action}_router_interface"));
        answer(&test, "PUT", &path, ok(json!({"id": "r1", "port_id": "p"}))).await;
    }
    answer(
        &test,
        "DELETE",
        &at("routers/r1"),
        ResponseTemplate::new(204),
    )
    .await;
    let cloud = &test.cloud;
    let found = cloud.routers(&RouterFilter::default(), GATE).await.unwrap();
    let gateway = found[0].external_gateway_info.as_ref().unwrap();
    assert_eq!(
        gateway.external_fixed_ips[0].ip_address,
        Some([203, 0, 113, 5].into())
    );
    let gateway = ExternalGateway {
        network_id: "ext".into(),
        ..Default::default()
    };
    let new = NewRouter {
        name: "r".into(),
        external_gateway_info: Some(gateway.clone()),
        ..Default::default()
    };
    cloud.create_router(&new, GATE).await.unwrap();
    assert_eq!(
        body_of(&test, "POST", "routers").await,
        json!({"router": {"name": "r", "external_gateway_info": {"network_id": "ext"}}})
    );
    let update = RouterUpdate {
        external_gateway_info: Some(gateway),
    };
    cloud
        .update_router(&"r1".into(), &update, GATE)
        .await
        .unwrap();
    cloud
        .add_router_interface(&"r1".into(), RouterInterface::Subnet(&"s1".into()), GATE)
        .await
        .unwrap();
    assert_eq!(
        body_of(&test, "PUT", "routers/r1/add_router_interface").await,
        json!({"subnet_id": "s1"})
    );
    cloud
        .remove_router_interface(&"r1".into(), RouterInterface::Port(&"p1".into()), GATE)
        .await
        .unwrap();
    assert_eq!(
        body_of(&test, "PUT", "routers/r1/remove_router_interface").await,
        json!({"port_id": "p1"})
    );
    cloud.delete_router(&"r1".into(), GATE).await.unwrap();
}

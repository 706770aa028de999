//! Neutron, Nova, Glance, Cinder, Keystone: forms of objects, refusals, lifecycles.

use serde_json::{Value, json};

use super::{Pure, id};

#[test]
fn what_is_in_use_can_not_be_deleted() {
    let mut cloud = Pure::new();
    let (network, subnet) = cloud.network("10.6.0.0/24");
    let (_, port) = cloud.call(
        "POST",
        "/network/v2.0/ports",
        json!({ "port": { "network_id": network, "name": "p" } }),
    );
    let port = id(&port, "port");
    let external = cloud.get("/network/v2.0/networks?router:external=true")["networks"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (_, router) = cloud.call(
        "POST",
        "/network/v2.0/routers",
        json!({ "router": { "name": "r", "external_gateway_info": { "network_id": external } } }),
    );
    let router = id(&router, "router");
    let interface = json!({ "subnet_id": subnet });
    let (status, _) = cloud.call(
        "PUT",
        &format!("/network/v2.0/routers/{router}/add_router_interface"),
        interface.clone(),
    );
    assert_eq!(status, 200);
    let body = json!({ "floatingip": { "floating_network_id": external, "port_id": port } });
    let (status, floating) = cloud.call("POST", "/network/v2.0/floatingips", body);
    assert_eq!(
        (status, floating["floatingip"]["status"].as_str()),
        (201, Some("DOWN")),
        "{floating}"
    );
    cloud.pass(1.0);
    let floating = id(&floating, "floatingip");
    let shown = cloud.get(&format!("/network/v2.0/floatingips/{floating}"));
    assert_eq!(
        (
            shown["floatingip"]["status"].as_str(),
            shown["floatingip"]["router_id"].as_str()
        ),
        (Some("ACTIVE"), Some(router.as_str()))
    );
    for (method, path, body, expected) in [
        (
            "DELETE",
            format!("networks/{network}"),
            Value::Null,
            "NetworkInUse",
        ),
        (
            "DELETE",
            format!("subnets/{subnet}"),
            Value::Null,
            "SubnetInUse",
        ),
        (
            "DELETE",
            format!("routers/{router}"),
            Value::Null,
            "RouterInUse",
        ),
        (
            "PUT",
            format!("routers/{router}/remove_router_interface"),
            interface,
            "RouterInterfaceInUseByFloatingIP",
        ),
    ] {
        let (status, body) = cloud.call(method, &format!("/network/v2.0/{path}"), body);
        assert_eq!(
            (status, body["NeutronError"]["type"].as_str()),
            (409, Some(expected)),
            "{body}"
        );
    }
    let (status, _) = cloud.call(
        "DELETE",
        &format!("/network/v2.0/ports/{port}"),
        Value::Null,
    );
    assert_eq!(status, 204);
    let shown = cloud.get(&format!("/network/v2.0/floatingips/{floating}"));
    assert_eq!(
        shown["floatingip"]["port_id"],
        Value::Null,
        "a floating IP lets go of a port that is gone"
    );
}

#[test]
fn neutron_filters_by_name_tags_and_addresses_and_refuses_unknown_filters() {
    let mut cloud = Pure::new();
    let (network, _) = cloud.network("127.66.0.0/24");
    for name in ["a", "b"] {
        let (_, port) = cloud.call(
            "POST",
            "/network/v2.0/ports",
            json!({ "port": { "network_id": network, "name": name } }),
        );
        let (status, _) = cloud.call(
            "PUT",
            &format!("/network/v2.0/ports/{}/tags", id(&port, "port")),
            json!({ "tags": ["x", name] }),
        );
        assert_eq!(status, 200);
    }
    let count = |cloud: &mut Pure, query: &str| {
        cloud.get(&format!("/network/v2.0/ports?{query}"))["ports"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count(&mut cloud, "name=a"), 1);
    assert_eq!(count(&mut cloud, "tags=x,b"), 1);
    assert_eq!(count(&mut cloud, "tags-any=a,b"), 2);
    assert_eq!(count(&mut cloud, "not-tags=x"), 0);
    assert_eq!(count(&mut cloud, "fixed_ips=ip_address%3D127.66.0.2"), 1);
    assert_eq!(
        count(&mut cloud, &format!("network_id={network}&fields=id")),
        2
    );
    let page = cloud.get("/network/v2.0/ports?tags=x&limit=1");
    assert!(
        page["ports_links"][0]["href"]
            .as_str()
            .unwrap()
            .contains("tags=x"),
        "Neutron's links keep the filters"
    );
    let (status, body) = cloud.call("GET", "/network/v2.0/ports?bogus=1", Value::Null);
    assert_eq!(
        (status, body["NeutronError"]["message"].as_str()),
        (400, Some("['bogus'] is invalid attribute for filtering"))
    );
}

#[test]
fn addresses_are_unique_and_come_back() {
    let mut cloud = Pure::new();
    let (network, subnet) = cloud.network("10.6.0.0/29");
    let make = |cloud: &mut Pure, fixed: Value| {
        let body = json!({ "port": { "network_id": network, "name": "p", "fixed_ips": [fixed] } });
        cloud.call("POST", "/network/v2.0/ports", body)
    };
    let any = json!({ "subnet_id": subnet });
    let mut ports = Vec::new();
    for _ in 0..5 {
        let (status, port) = make(&mut cloud, any.clone());
        assert_eq!(status, 201, "{port}");
        ports.push(id(&port, "port"));
    }
    let (status, body) = make(&mut cloud, any.clone());
    assert_eq!(
        (status, body["NeutronError"]["type"].as_str()),
        (409, Some("IpAddressGenerationFailure"))
    );
    let (status, body) = make(
        &mut cloud,
        json!({ "subnet_id": subnet, "ip_address": "10.6.0.3" }),
    );
    assert_eq!(
        (status, body["NeutronError"]["type"].as_str()),
        (409, Some("IpAddressAlreadyAllocated"))
    );
    cloud.call(
        "DELETE",
        &format!("/network/v2.0/ports/{}", ports[1]),
        Value::Null,
    );
    let (status, body) = make(&mut cloud, any);
    assert_eq!(
        (status, body["port"]["fixed_ips"][0]["ip_address"].as_str()),
        (201, Some("10.6.0.3"))
    );
}

#[test]
fn a_server_lives_on_its_port_and_leaves_it_behind() {
    let mut cloud = Pure::new();
    let (network, _) = cloud.network("127.66.0.0/24");
    let (_, port) = cloud.call(
        "POST",
        "/network/v2.0/ports",
        json!({ "port": { "network_id": network, "name": "p" } }),
    );
    let port = id(&port, "port");
    let flavor = cloud.get("/compute/v2.1/flavors")["flavors"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let image = cloud.get("/image/v2/images?name=cirros")["images"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let body = json!({ "server": { "name": "sv", "flavorRef": flavor, "imageRef": image, "networks": [{ "port": port }], "tags": ["t"] } });
    let (status, server) = cloud.call("POST", "/compute/v2.1/servers", body.clone());
    assert_eq!(status, 202, "{server}");
    let server = id(&server, "server");
    let (status, refused) = cloud.call("POST", "/compute/v2.1/servers", body);
    assert_eq!(status, 409, "{refused}");
    let shown = cloud.get(&format!("/compute/v2.1/servers/{server}"));
    assert_eq!(
        (
            shown["server"]["status"].as_str(),
            &shown["server"]["addresses"]
        ),
        (Some("BUILD"), &json!({}))
    );
    cloud.pass(1.5);
    let shown = cloud.get("/compute/v2.1/servers/detail?name=^sv$&tags=t");
    let shown = &shown["servers"][0];
    assert_eq!(
        (
            shown["status"].as_str(),
            shown["addresses"]["net"][0]["addr"].as_str()
        ),
        (Some("ACTIVE"), Some("127.66.0.2"))
    );
    assert_eq!(
        cloud.get(&format!("/network/v2.0/ports/{port}"))["port"]["device_id"],
        json!(server)
    );
    let (status, _) = cloud.call(
        "DELETE",
        &format!("/compute/v2.1/servers/{server}"),
        Value::Null,
    );
    assert_eq!(status, 204);
    cloud.pass(1.0);
    let (status, body) = cloud.call(
        "GET",
        &format!("/compute/v2.1/servers/{server}"),
        Value::Null,
    );
    assert_eq!(
        (status, body["itemNotFound"]["code"].as_u64()),
        (404, Some(404))
    );
    let left = cloud.get(&format!("/network/v2.0/ports/{port}"));
    assert_eq!(
        (
            left["port"]["device_id"].as_str(),
            left["port"]["status"].as_str()
        ),
        (Some(""), Some("DOWN"))
    );
}

#[test]
fn servers_fail_with_a_fault_and_quotas_are_forbidden() {
    let mut cloud = Pure::new();
    cloud.network("10.6.0.0/24");
    let flavor = cloud.get("/compute/v2.1/flavors")["flavors"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let image = cloud.get("/image/v2/images?name=cirros")["images"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    cloud.command(
        json!({ "server_rule": { "name": "sv", "fail": "No valid host was found.", "count": 1 } }),
    );
    let body = json!({ "server": { "name": "sv", "flavorRef": flavor, "imageRef": image, "networks": "auto" } });
    let (status, server) = cloud.call("POST", "/compute/v2.1/servers", body.clone());
    assert_eq!(status, 202, "{server}");
    cloud.pass(2.0);
    let shown = cloud.get(&format!("/compute/v2.1/servers/{}", id(&server, "server")));
    assert_eq!(
        shown["server"]["fault"]["message"],
        "No valid host was found."
    );
    cloud
        .command(json!({ "quota": { "service": "compute", "resource": "instances", "limit": 1 } }));
    let (status, body) = cloud.call("POST", "/compute/v2.1/servers", body);
    assert_eq!(status, 403);
    assert!(
        body["forbidden"]["message"]
            .as_str()
            .unwrap()
            .starts_with("Quota exceeded"),
        "{body}"
    );
    cloud.command(json!({ "quota": { "service": "network", "resource": "port", "limit": 0 } }));
    let network = cloud.get("/network/v2.0/networks?name=net")["networks"][0]["id"].clone();
    let (status, body) = cloud.call(
        "POST",
        "/network/v2.0/ports",
        json!({ "port": { "network_id": network } }),
    );
    assert_eq!(
        (status, body["NeutronError"]["message"].as_str()),
        (409, Some("Quota exceeded for resources: ['port']."))
    );
}

#[test]
fn volumes_become_available_and_go() {
    let mut cloud = Pure::new();
    let (status, volume) = cloud.call(
        "POST",
        "/volume/v3/p/volumes",
        json!({ "volume": { "size": 1, "name": "v" } }),
    );
    assert_eq!(
        (status, volume["volume"]["status"].as_str()),
        (202, Some("creating"))
    );
    let path = format!("/volume/v3/p/volumes/{}", id(&volume, "volume"));
    cloud.pass(1.0);
    assert_eq!(cloud.get(&path)["volume"]["status"], "available");
    let (status, _) = cloud.call("DELETE", &path, Value::Null);
    assert_eq!(status, 202);
    cloud.pass(1.0);
    let (status, _) = cloud.call("GET", &path, Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn twins_and_leftovers_are_found() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    assert_eq!(cloud.world.duplicates(), []);
    cloud.settled(&at, "same", "10.6.0.10");
    cloud.settled(&at, "same", "10.6.0.11");
    let found = cloud.world.duplicates();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind.as_str(), found[0].ids.len()), ("member", 2));
    let kinds: Vec<String> = cloud
        .world
        .leftovers("same")
        .into_iter()
        .map(|left| left.kind)
        .collect();
    assert_eq!(kinds, ["member", "member"]);
}

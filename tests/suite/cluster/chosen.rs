//! Networks and addresses that the spec chooses in ways that CAPO also accepts: by a DNS name, without subnets, by an
//! id alone.

use std::net::Ipv4Addr;

use reqwest::Method;
use serde_json::{Value, json};
use test_support::{
    contract::{Access, Raw},
    env::{Environment, environment::is},
};

use super::{quick, until_reported};

/// A client of the user of this name, in the project of the same name.
async fn user(environment: &Environment, name: &str) -> Raw {
    Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: name.into(),
        password: "secret".into(),
        project: name.into(),
    })
    .await
}

async fn create(raw: &Raw, path: &str, kind: &str, body: Value) -> Value {
    let url = raw.address("network", path);
    let (status, answer) = raw
        .send(Method::POST, &url, Some(json!({ kind: body })))
        .await;
    assert!(status < 300, "{path}: {status} {answer}");
    answer[kind].clone()
}

async fn start(namespace: &str) -> (Environment, Raw) {
    let environment = Environment::in_namespace(namespace)
        .cloud(quick())
        .start()
        .await;
    let raw = user(&environment, "demo").await;
    (environment, raw)
}

/// The port of the load balancer's address.
fn balancer_port(environment: &Environment) -> Value {
    environment.cloud.control().dump()["load_balancers"][0]["vip_port_id"].clone()
}

async fn ready(environment: &Environment, change: Value) -> Value {
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    environment.until_ready("c1").await
}

/// A host that every resolver of the C library knows without asking a name server, and that is no IP address for Rust.
fn name_of(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("{a}.{b}.{}", u32::from(c) * 256 + u32::from(d))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_of_the_endpoint_chooses_the_floating_ip_which_outlives_the_cluster() {
    let (mut environment, raw) = start("chosen-name").await;
    let (_, networks) = raw.get("network", "networks?name=public").await;
    let public = &networks["networks"][0]["id"];
    let mut floating = Vec::new();
    for _ in 0..3 {
        let body = json!({"floating_network_id": public});
        floating.push(create(&raw, "floatingips", "floatingip", body).await);
    }
    let chosen = &floating[1];
    let address: Ipv4Addr = chosen["floating_ip_address"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let endpoint = json!({"host": name_of(address), "port": 6443});
    let mark = environment.cloud.control().last_call();
    let made = ready(&environment, json!({"controlPlaneEndpoint": endpoint})).await;
    assert_eq!(made["spec"]["controlPlaneEndpoint"], endpoint);
    let balancer = &made["status"]["apiServerManagedLoadBalancer"];
    assert_eq!(balancer["ip"], chosen["floating_ip_address"]);
    let writes = environment.writes_since(mark);
    assert!(
        !writes.contains(&"floating_ip_create".to_owned()),
        "{writes:?}"
    );
    let shown = format!("floating IP {address} with id");
    until_reported(&environment, "Successfulassociatefloatingip", &shown).await;

    // A user puts another floating IP on the load balancer, to which the name does not lead.
    for (one, port) in [
        (chosen, Value::Null),
        (&floating[0], balancer_port(&environment)),
    ] {
        let path = format!("floatingips/{}", one["id"].as_str().unwrap());
        let body = json!({"floatingip": {"port_id": port}});
        let url = raw.address("network", &path);
        let (status, answer) = raw.send(Method::PUT, &url, Some(body)).await;
        assert_eq!(status, 200, "{answer}");
    }
    environment.stop().await;
    environment.start().await;
    let elsewhere = format!("resolves to {address}, but the API server's floating IP is");
    environment.until_noted(&elsewhere).await;
    for (one, port) in [
        (&floating[0], Value::Null),
        (chosen, balancer_port(&environment)),
    ] {
        let path = format!("floatingips/{}", one["id"].as_str().unwrap());
        let body = json!({"floatingip": {"port_id": port}});
        let url = raw.address("network", &path);
        raw.send(Method::PUT, &url, Some(body)).await;
    }

    // The floating IP stays after the cluster's deletion, because the user has provided it.
    environment.delete("c1").await;
    until_reported(&environment, "Successfuldisassociatefloatingip", &shown).await;
    let path = format!("floatingips/{}", chosen["id"].as_str().unwrap());
    let (status, left) = raw.get("network", &path).await;
    assert_eq!(
        (status, &left["floatingip"]["port_id"]),
        (200, &Value::Null)
    );
    assert_eq!(left["floatingip"]["tags"], json!([]), "nor is it tagged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_floating_ip_is_used_where_the_endpoints_name_leads_to_another_projects() {
    let (environment, raw) = start("chosen-foreign").await;
    environment.command(json!({"project": {"id": "other", "name": "other"}}));
    let theirs =
        json!({"name": "other", "password": "secret", "project": "other", "roles": ["member"]});
    environment.command(json!({ "user": theirs }));
    let theirs = user(&environment, "other").await;
    let (_, networks) = raw.get("network", "networks?name=public").await;
    let body = json!({"floating_network_id": networks["networks"][0]["id"]});
    let foreign = create(&theirs, "floatingips", "floatingip", body).await;
    let address: Ipv4Addr = foreign["floating_ip_address"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let host = name_of(address);
    let endpoint = json!({"host": host, "port": 6443});
    let made = ready(&environment, json!({"controlPlaneEndpoint": endpoint})).await;
    let used = &made["status"]["apiServerManagedLoadBalancer"]["ip"];
    assert!(used.is_string() && *used != foreign["floating_ip_address"]);
    environment
        .until_noted(&format!(
            "{host} does not resolve to a floating IP of this project"
        ))
        .await;
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn octavia_chooses_the_subnet_of_a_load_balancer_whose_network_is_given_alone() {
    let (environment, raw) = start("chosen-network").await;
    let front = create(&raw, "networks", "network", json!({"name": "front"})).await;
    let subnet =
        json!({"name": "front", "network_id": front["id"], "cidr": "10.9.0.0/24", "ip_version": 4});
    create(&raw, "subnets", "subnet", subnet).await;
    let mark = environment.cloud.control().last_call();
    let change = json!({"apiServer": {
        "enableFloatingIP": false, "managedLoadBalancer": {"network": {"id": front["id"]}},
    }});
    let made = ready(&environment, change).await;
    let calls = environment.cloud.control().calls_since(mark);
    let mut created = calls
        .iter()
        .filter(|call| call.label == "loadbalancer_create");
    let body = created.next().and_then(|call| call.body.clone()).unwrap();
    assert_eq!(body["loadbalancer"]["vip_network_id"], front["id"]);
    assert_eq!(body["loadbalancer"]["vip_subnet_id"], Value::Null);
    let vip = made["status"]["apiServerManagedLoadBalancer"]["internalIP"].as_str();
    assert!(vip.unwrap().starts_with("10.9.0."), "{vip:?}");
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_network_by_id_is_taken_whether_or_not_it_is_external() {
    let (environment, raw) = start("chosen-external").await;
    let own = create(&raw, "networks", "network", json!({"name": "own"})).await;
    let subnet =
        json!({"name": "own", "network_id": own["id"], "cidr": "10.8.0.0/24", "ip_version": 4});
    create(&raw, "subnets", "subnet", subnet).await;
    let other = create(&raw, "networks", "network", json!({"name": "other"})).await;
    let change = json!({
        "managedSubnets": null, "network": {"id": own["id"]}, "externalNetwork": {"id": other["id"]},
        "apiServer": {"enableFloatingIP": false},
    });
    let made = ready(&environment, change).await;
    assert_eq!(made["status"]["externalNetwork"]["id"], other["id"]);
    assert!(is(&made, "NetworkReady", "True"));
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floating_ip_by_address_is_looked_for_in_the_clusters_project() {
    let (mut environment, _) = start("chosen-project").await;
    let made = ready(&environment, json!({})).await;
    let address = made["status"]["apiServerManagedLoadBalancer"]["ip"].clone();
    environment.stop().await;
    // A user removes the floating IP from the load balancer.
    let cloud = environment.cloud.control().dump();
    let id = cloud["network"]["floatingips"][0]["id"]
        .as_str()
        .unwrap()
        .into();
    let openstack = environment.openstack();
    openstack
        .associate_floating_ip(&id, None, capo_core::Priority::Gate)
        .await
        .unwrap();
    let mark = environment.cloud.control().last_call();
    environment.start().await;
    environment.one_more_pass("c1").await;
    let again = environment.until_ready("c1").await;
    assert_eq!(
        again["status"]["apiServerManagedLoadBalancer"]["ip"],
        address
    );
    let calls = environment.cloud.control().calls_since(mark);
    let project = made_project(&cloud);
    let has = |query: &[(String, String)], key: &str, value: &str| {
        query.iter().any(|(k, v)| k == key && v == value)
    };
    let lookups: Vec<_> = calls
        .iter()
        .filter(|call| {
            call.label == "floating_ip_list"
                && has(
                    &call.query,
                    "floating_ip_address",
                    address.as_str().unwrap(),
                )
        })
        .collect();
    assert!(!lookups.is_empty());
    for call in lookups {
        assert!(has(&call.query, "project_id", &project), "{:?}", call.query);
    }
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_subnet_may_be_of_ipv6() {
    let (environment, _) = start("chosen-ipv6").await;
    let change = json!({
        "managedSubnets": [{"cidr": "fd00:6::/64", "dnsNameservers": ["2001:db8::53"]}],
        "apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["192.0.2.0/24", "2001:db8::/32"]}},
        "bastion": {"spec": {"flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "cirros"}}}},
    });
    let made = ready(&environment, change).await;
    // Octavia accepts only ranges of the VIP's address family.
    let shown = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            let ranges = &cluster["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
            let mut ranges = ranges.as_array().into_iter().flatten();
            ranges.any(|range| range == "2001:db8::/32")
        })
        .await;
    let ranges = &shown["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
    let mut ranges = ranges.as_array().unwrap().iter();
    assert!(ranges.all(|range| range.as_str().unwrap().contains(':')));
    environment
        .until_noted("allowedCIDRs has 192.0.2.0/24, which has no effect")
        .await;
    // Only IPv4 has floating IPs.
    let bastion = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            is(cluster, "BastionReady", "True")
        })
        .await;
    assert_eq!(bastion["status"]["bastion"]["floatingIP"], Value::Null);
    assert_eq!(
        environment.cloud.control().dump()["network"]["floatingips"],
        json!([])
    );
    let host = made["spec"]["controlPlaneEndpoint"]["host"]
        .as_str()
        .unwrap();
    assert!(host.starts_with("fd00:6::"), "{host}");
    let cloud = environment.cloud.control().dump();
    let rows = |kind: &str| {
        cloud["network"][kind]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let id = &made["status"]["network"]["subnets"][0]["id"];
    let subnets = rows("subnets");
    let subnet = subnets.iter().find(|subnet| subnet["id"] == *id).unwrap();
    for field in ["ipv6_address_mode", "ipv6_ra_mode"] {
        assert_eq!(subnet[field], "dhcpv6-stateful", "{subnet}");
    }
    let group = &made["status"]["controlPlaneSecurityGroup"]["id"];
    let opens_api = rows("security_group_rules").iter().any(|rule| {
        rule["security_group_id"] == *group
            && rule["ethertype"] == "IPv6"
            && rule["port_range_min"] == 6443
    });
    assert!(opens_api);
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_network_of_both_families_the_endpoint_is_of_ipv4_and_nodes_are_reached_by_both() {
    let (environment, raw) = start("chosen-dual").await;
    let own = create(&raw, "networks", "network", json!({"name": "dual"})).await;
    // The first subnet is of IPv6.
    for (cidr, version) in [("fd00:7::/64", 6), ("10.7.0.0/24", 4)] {
        let subnet =
            json!({"name": "dual", "network_id": own["id"], "cidr": cidr, "ip_version": version});
        create(&raw, "subnets", "subnet", subnet).await;
    }
    let change = json!({
        "managedSubnets": null, "network": {"id": own["id"]}, "apiServer": {"enableFloatingIP": false},
    });
    let made = ready(&environment, change).await;
    let host = made["spec"]["controlPlaneEndpoint"]["host"].as_str();
    assert!(host.unwrap().starts_with("10.7.0."), "{host:?}");
    let subnets = made["status"]["network"]["subnets"].as_array().unwrap();
    assert_eq!(subnets.len(), 2);
    let cloud = environment.cloud.control().dump();
    let rules = cloud["network"]["security_group_rules"].as_array().unwrap();
    let group = &made["status"]["workerSecurityGroup"]["id"];
    for (family, range) in [("IPv4", "10.7.0.0/24"), ("IPv6", "fd00:7::/64")] {
        let is_open = rules.iter().any(|rule| {
            rule["security_group_id"] == *group
                && rule["ethertype"] == family
                && rule["remote_ip_prefix"] == range
                && rule["port_range_min"] == 30_000
        });
        assert!(is_open, "{family}: {rules:#?}");
    }
    environment.delete("c1").await;
}

fn made_project(cloud: &Value) -> String {
    let floating = &cloud["network"]["floatingips"][0];
    floating["project_id"].as_str().unwrap().to_owned()
}

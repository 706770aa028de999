//! Networks, subnets and routers that the user provides, a load balancer on a network of its own, a router at addresses
//! of the user's choice, and credentials that clusters share.

use reqwest::Method;
use serde_json::{Value, json};

use test_support::env::{Environment, environment::is};

use super::quick;
use crate::{
    contract::{Access, Raw},
    env::{apply::apply, cluster_api::condition},
};

async fn user(environment: &Environment, name: &str) -> Raw {
    Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: name.to_owned(),
        password: "secret".into(),
        project: name.to_owned(),
    })
    .await
}

async fn neutron(raw: &Raw, method: Method, path: &str, body: Value) -> Value {
    let url = raw.address("network", path);
    let (status, answer) = raw.send(method, &url, Some(body)).await;
    assert!(status < 300, "{path}: {status} {answer}");
    answer
}

/// A network with a subnet of the same name, and their ids.
pub(crate) async fn network(raw: &Raw, name: &str, cidr: &str) -> (Value, Value) {
    let made = neutron(
        raw,
        Method::POST,
        "networks",
        json!({"network": {"name": name}}),
    )
    .await;
    let id = made["network"]["id"].clone();
    let subnet = json!({"subnet": {"name": name, "network_id": id, "cidr": cidr, "ip_version": 4}});
    let made = neutron(raw, Method::POST, "subnets", subnet).await;
    (id, made["subnet"]["id"].clone())
}

fn made_by_us(environment: &Environment, label: &str) -> usize {
    let calls = environment.cloud.control().calls_since(0);
    calls
        .iter()
        .filter(|call| call.label == label && call.agent.starts_with("capo-rs"))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_user_brings_along_is_used_and_stays() {
    let environment = Environment::in_namespace("brought")
        .cloud(quick())
        .start()
        .await;
    let raw = user(&environment, "demo").await;
    let (own, own_subnet) = network(&raw, "machines", "10.8.0.0/24").await;
    let (front, front_subnet) = network(&raw, "front", "10.9.0.0/24").await;
    let public = raw.get("network", "networks?name=public").await.1["networks"][0]["id"].clone();
    let router =
        json!({"router": {"name": "edge", "external_gateway_info": {"network_id": public}}});
    let router = neutron(&raw, Method::POST, "routers", router).await["router"]["id"].clone();
    for subnet in [&own_subnet, &front_subnet] {
        let path = format!("routers/{}/add_router_interface", router.as_str().unwrap());
        neutron(&raw, Method::PUT, &path, json!({"subnet_id": subnet})).await;
    }
    let change = json!({
        "managedSubnets": null,
        "network": {"filter": {"name": "machines"}},
        "subnets": [{"filter": {"name": "machines"}}],
        "router": {"filter": {"name": "edge"}},
        "apiServer": {"managedLoadBalancer": {"network": {"id": front}, "subnets": [{"id": front_subnet}]}},
    });
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let made = environment.until_ready("c1").await;
    assert_eq!(made["status"]["network"]["id"], own);
    assert_eq!(made["status"]["network"]["subnets"][0]["id"], own_subnet);
    assert_eq!(made["status"]["router"]["id"], router);
    let balancer = &made["status"]["apiServerManagedLoadBalancer"];
    let internal = balancer["internalIP"].as_str().unwrap();
    assert!(internal.starts_with("10.9.0."), "{internal}");
    assert_ne!(
        balancer["ip"], balancer["internalIP"],
        "the router reaches it"
    );
    for label in [
        "network_create",
        "subnet_create",
        "router_create",
        "add_router_interface",
    ] {
        assert_eq!(made_by_us(&environment, label), 0, "{label}");
    }

    // The cluster's tags are only for objects that it creates.
    assert_eq!(
        made["spec"]["tags"].as_array().map(Vec::is_empty),
        Some(false)
    );
    for (path, id) in [
        ("networks", &own),
        ("subnets", &own_subnet),
        ("networks", &front),
        ("subnets", &front_subnet),
        ("routers", &router),
    ] {
        let tags = format!("{path}/{}/tags", id.as_str().unwrap());
        assert_eq!(
            raw.get("network", &tags).await.1["tags"],
            json!([]),
            "{path}"
        );
    }

    // A member's address is on the machines' network.
    let spec = json!({"identityRef": made["spec"]["identityRef"], "flavor": {"filter": {"name": "m1.small"}},
        "image": {"filter": {"name": "cirros"}}});
    environment
        .cluster_api
        .create_machine("c1", "cp-0", true, spec)
        .await;
    environment
        .cluster_api
        .until_provisioned("OpenStackMachine", "cp-0")
        .await;
    let dump = environment.cloud.control().dump();
    let member = &dump["load_balancers"][0]["pools"][0]["members"][0];
    assert!(
        member["address"].as_str().unwrap().starts_with("10.8.0."),
        "{member}"
    );
    assert_eq!(
        member["subnet_id"], own_subnet,
        "the amphora must be plugged there"
    );

    environment.delete("c1").await;
    for (path, id) in [
        ("networks", &own),
        ("networks", &front),
        ("subnets", &own_subnet),
        ("routers", &router),
    ] {
        let path = format!("{path}/{}", id.as_str().unwrap());
        assert_eq!(
            raw.get("network", &path).await.0,
            200,
            "{path} is not ours to delete"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_takes_the_external_addresses_it_is_given() {
    let environment = Environment::in_namespace("router-addresses")
        .cloud(quick())
        .start()
        .await;
    // Only an administrator sees the subnets of an external network, and may choose addresses there.
    let raw = user(&environment, "admin").await;
    let public = raw.get("network", "networks?name=public").await.1["networks"][0]["id"].clone();
    let path = format!("subnets?network_id={}", public.as_str().unwrap());
    let subnet = raw.get("network", &path).await.1["subnets"][0].clone();
    // An address in the middle of the range, which Neutron does not assign first.
    let range = subnet["cidr"].as_str().unwrap();
    let first: std::net::Ipv4Addr = range.split('/').next().unwrap().parse().unwrap();
    let address = std::net::Ipv4Addr::from_bits(first.to_bits() + 40).to_string();
    let change = json!({"identityRef": {"cloudName": "admin"},
        "managedRouter": {"externalIPs": [{"fixedIP": address, "subnet": {"id": subnet["id"]}}]}});
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let made = environment.until_ready("c1").await;
    assert_eq!(made["status"]["router"]["ips"], json!([address]));
    let path = format!(
        "routers/{}",
        made["status"]["router"]["id"].as_str().unwrap()
    );
    let router = raw.get("network", &path).await.1;
    let addresses = &router["router"]["external_gateway_info"]["external_fixed_ips"];
    assert_eq!(addresses[0]["ip_address"], address, "{addresses}");
    // The calls are those of CAPO: the router is created without a gateway, and an update sets the gateway with its
    // addresses.
    let calls = environment.cloud.control().calls_since(0);
    let gateway = |label: &str| {
        let call = calls.iter().find(|call| call.label == label);
        let body = call.and_then(|call| call.body.clone()).unwrap_or_default();
        body["router"]["external_gateway_info"].clone()
    };
    assert_eq!(gateway("router_create"), Value::Null);
    assert_eq!(
        gateway("router_update"),
        json!({"network_id": public, "external_fixed_ips": [{"subnet_id": subnet["id"], "ip_address": address}]})
    );
    // The addresses are set once, and not again in every pass.
    let mark = environment.cloud.control().last_call();
    environment.one_more_pass("c1").await;
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_credentials_are_for_the_namespaces_that_are_let_in() {
    let environment = Environment::in_namespace("shared-credentials")
        .cloud(quick())
        .start()
        .await;
    let vault = "shared-credentials-vault";
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "prod", "namespace": vault},
        "stringData": {"clouds.yaml": environment.cloud.clouds_yaml()}});
    let shared = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackClusterIdentity",
        "metadata": {"name": "shared-credentials"},
        "spec": {"secretRef": {"name": "prod", "namespace": vault},
            "namespaceSelector": {"matchLabels": {"may-use": "prod"}}}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": vault}});
    apply(&environment.admin, &[namespace, secret, shared])
        .await
        .unwrap();
    let change = json!({"identityRef": {"type": "ClusterIdentity", "name": "shared-credentials", "cloudName": "demo"}});
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let denied = environment
        .until_object("OpenStackCluster", "c1", |object| {
            is(object, "OpenStackAuthenticationSucceeded", "False")
        })
        .await;
    let (_, reason, message) = condition(&denied, "OpenStackAuthenticationSucceeded").unwrap();
    assert_eq!(reason, "IdentityAccessDenied");
    for words in [
        "spec.identityRef.name",
        "shared-credentials",
        "namespaceSelector",
        "namespace shared-credentials",
    ] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(
        environment.cloud.control().calls_since(0),
        [],
        "not even signed in"
    );

    let label = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shared-credentials", "labels": {"may-use": "prod"}}});
    apply(&environment.admin, &[label]).await.unwrap();
    environment.until_ready("c1").await;
    environment.delete("c1").await;
}

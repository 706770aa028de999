//! Deletions that wait for objects which a server or a Service of the workload cluster has left in the network.

use reqwest::Method;
use serde_json::{Value, json};
use test_support::{
    contract::{Access, Raw},
    env::Environment,
    waiting::until,
};

use super::quick;
use crate::env::cluster_api::condition;

const ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/delete-service-load-balancers";
/// The most calls of a pass that waits. After five minutes there is at most one such pass in 192 s.
const MOST_CALLS: usize = 5;

/// The user of the cloud, who makes changes by hand.
struct User(Raw);

impl User {
    async fn of(environment: &Environment) -> Self {
        let access = Access {
            auth_url: environment.cloud.auth_url(),
            user: "demo".into(),
            password: "secret".into(),
            project: "demo".into(),
        };
        Self(Raw::sign_in(&access).await)
    }

    async fn create(&self, service: &str, path: &str, kind: &str, body: Value) -> Value {
        let url = self.0.address(service, path);
        let (status, answer) = self
            .0
            .send(Method::POST, &url, Some(json!({ kind: body })))
            .await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer[kind].clone()
    }
}

async fn with_cluster(namespace: &str) -> (Environment, Value) {
    let environment = Environment::in_namespace(namespace)
        .cloud(quick())
        .start()
        .await;
    let infrastructure = environment.cluster("c1", json!({}));
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    let made = environment.until_ready("c1").await;
    let network = made["status"]["network"]["id"].clone();
    (environment, network)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_takes_trunks_and_the_ports_of_servers_and_load_balancers_that_are_gone() {
    let (environment, network) = with_cluster("deletion-ports").await;
    let user = User::of(&environment).await;
    let port = async |name: &str, more: Value| {
        let mut body = json!({"name": name, "network_id": network,
            "description": "Created by cluster-api-provider-openstack cluster c1"});
        json_patch::merge(&mut body, &more);
        user.create("network", "ports", "port", body).await
    };
    let parent = port("cp-0-0", json!({})).await;
    let sub_port = port("cp-0-0-sub", json!({"description": "a pod's"})).await;
    let trunk = json!({"name": "cp-0-0", "port_id": parent["id"],
        "sub_ports": [{"port_id": sub_port["id"], "segmentation_type": "vlan", "segmentation_id": 7}]});
    user.create("network", "trunks", "trunk", trunk).await;
    let gone = "6a1f1b86-6c2c-44f7-8f57-2d3df7dc5b3a";
    port(
        "cp-1-0",
        json!({"device_id": gone, "device_owner": "compute:nova"}),
    )
    .await;
    // Octavia gave up in the middle of a load balancer's deletion.
    let vip = format!("octavia-lb-{gone}");
    let device = format!("lb-{gone}");
    port(
        &vip,
        json!({"description": "", "device_id": device, "device_owner": "Octavia"}),
    )
    .await;
    environment.delete("c1").await;
    for name in ["cp-", vip.as_str()] {
        assert_eq!(environment.leftovers(name), Vec::<String>::new());
    }
    let sub_port = sub_port["id"].as_str().unwrap();
    environment
        .until_noted(&format!("Deleted port with id {sub_port}"))
        .await;
}

/// Checks that there are few calls between two attempts of a deletion that waits. Each attempt has a call with this
/// label.
async fn assert_passes_cost_little(environment: &Environment, attempt: &str) {
    let mark = environment.cloud.control().last_call();
    for _ in 0..3 {
        environment.one_more_pass("c1").await;
    }
    let calls: Vec<String> = environment
        .cloud
        .control()
        .calls_since(mark)
        .into_iter()
        .map(|call| call.label)
        .filter(|label| label != "token_create" && label != "version")
        .collect();
    let attempts: Vec<usize> = calls
        .iter()
        .enumerate()
        .filter(|(_, label)| *label == attempt)
        .map(|(at, _)| at)
        .collect();
    assert!(attempts.len() >= 2, "{calls:?}");
    for pair in attempts.windows(2) {
        assert!(pair[1] - pair[0] <= MOST_CALLS, "{calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_balancers_of_services_are_named_and_deleted_only_with_leave() {
    let (environment, network) = with_cluster("deletion-services").await;
    let user = User::of(&environment).await;
    let service = "kube_service_c1_default_web";
    let balancer = json!({"name": service, "vip_network_id": network});
    let balancer = user
        .create("load-balancer", "loadbalancers", "loadbalancer", balancer)
        .await;
    let (_, networks) = user.0.get("network", "networks?name=public").await;
    let floating = json!({"floating_network_id": networks["networks"][0]["id"], "port_id": balancer["vip_port_id"],
        "description": "Floating IP for Kubernetes external service default/web from cluster c1"});
    user.create("network", "floatingips", "floatingip", floating)
        .await;

    environment.cluster_api.delete("Cluster", "c1").await;
    let held = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            condition(cluster, "Ready").is_some_and(|(_, reason, message)| {
                reason == "Deleting" && message.contains(service)
            })
        })
        .await;
    let (_, _, message) = condition(&held, "Ready").unwrap();
    assert!(message.contains(ANNOTATION), "{message}");

    assert_passes_cost_little(&environment, "remove_router_interface").await;

    // Load balancers without a floating IP hold only the network.
    let (_, floating) = user.0.get("network", "floatingips").await;
    let id = floating["floatingips"][0]["id"].as_str().unwrap();
    let url = user.0.address("network", &format!("floatingips/{id}"));
    user.0.send(Method::DELETE, &url, None).await;
    for name in ["api", "db", "queue"] {
        let internal =
            json!({"name": format!("kube_service_c1_default_{name}"), "vip_network_id": network});
        user.create("load-balancer", "loadbalancers", "loadbalancer", internal)
            .await;
    }
    until("the router is gone", async || {
        let cloud = environment.cloud.control().dump();
        (cloud["network"]["routers"] == json!([])).then_some(())
    })
    .await;
    assert_passes_cost_little(&environment, "network_delete").await;

    let leave = json!({"metadata": {"annotations": {ANNOTATION: "true"}}});
    environment.patch("OpenStackCluster", "c1", leave).await;
    environment.until_gone("OpenStackCluster", "c1").await;
    assert_eq!(environment.leftovers(service), Vec::<String>::new());
    let cloud = environment.cloud.control().dump();
    assert_eq!(cloud["network"]["floatingips"], json!([]));
}

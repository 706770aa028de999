//! Answers to creations that are lost while OpenStack carries the creation out later.

use serde_json::{Value, json};
use test_support::{
    env::{Environment, environment::quick_cloud},
    waiting::until,
};

use crate::env::cluster_api::condition;

const RECORD: &str = "infrastructure.cluster.x-k8s.io/creations-in-doubt";

/// The client gives a request up after 3 s, and the pass is repeated 5 s after that. The cloud carries the creation out
/// later than a repeated request would have arrived.
const LATE: f64 = 15.0;

/// Creates a cluster whose creation with this label is carried out late. The condition `kind` shows the wait meanwhile,
/// also after a restart. Returns the cluster X
async fn created_late(environment: &mut Environment, label: &str, kind: &str, restart: bool) {
    environment.command(late(label));
    let cluster = environment.cluster("c1", json!({}));
    environment.cluster_api.create_cluster("c1", cluster).await;
    let waits = |cluster: &Value| {
        condition(cluster, kind).is_some_and(|(status, reason, message)| {
            status == "False"
                && reason == "OpenStackUnavailable"
                && message.contains("waiting for it to appear")
        })
    };
    until("the creation is sent", async || {
        (environment.calls(label) == 1).then_some(())
    })
    .await;
    if restart {
        environment.kill().await;
        environment.start().await;
    }
    let waiting = environment
        .until_object("OpenStackCluster", "c1", waits)
        .await;
    assert_ne!(waiting["metadata"]["annotations"][RECORD], Value::Null);
    environment.until_ready("c1").await;
    assert_eq!(environment.calls(label), 1, "{label}");
    assert_eq!(environment.cloud.control().duplicates(), [], "{label}");
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            cluster["metadata"]["annotations"][RECORD].is_null()
        })
        .await;
    environment.delete("c1").await;
}

/// The fault because of which one creation is carried out late, and answered by then with an error.
fn late(label: &str) -> Value {
    json!({"fault": {"match": {"label": label}, "count": 1, "delay": LATE, "status": 504, "apply": true}})
}

async fn environment(namespace: &str) -> Environment {
    Environment::in_namespace(namespace)
        .cloud(quick_cloud())
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_that_is_created_late_is_requested_once() {
    let mut environment = environment("late-balancer").await;
    let kind = "APIServerLoadBalancerReady";
    created_late(&mut environment, "loadbalancer_create", kind, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_created_late_is_requested_once_also_by_the_next_process() {
    let mut environment = environment("late-network").await;
    created_late(&mut environment, "network_create", "NetworkReady", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floating_ip_that_is_created_late_is_requested_once() {
    let mut environment = environment("late-address").await;
    let kind = "APIEndpointReady";
    created_late(&mut environment, "floating_ip_create", kind, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_created_after_the_deletion_began_is_deleted_too() {
    let mut environment = environment("late-deleted").await;
    environment.command(late("network_create"));
    let cluster = environment.cluster("c1", json!({}));
    environment.cluster_api.create_cluster("c1", cluster).await;
    until("the creation is sent", async || {
        (environment.calls("network_create") == 1).then_some(())
    })
    .await;
    environment.kill().await;
    environment.cluster_api.delete("Cluster", "c1").await;
    environment.start().await;
    environment.until_gone("OpenStackCluster", "c1").await;
    let left = environment.leftovers("late-deleted-c1");
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(environment.calls("network_delete"), 1);
}

//! The kinds of endpoints: the requests of a release's proof go to the endpoint that clients use.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::control_plane::{create, has_joined};
use test_support::env::Environment;

/// A kind of endpoint.
struct Case {
    namespace: &'static str,
    /// What the spec has for it.
    spec: Value,
    /// The host that the endpoint must then have, with the cluster's status.
    host: fn(&Value) -> &str,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proof_goes_to_the_endpoint_be_it_a_floating_ip_a_plain_vip_or_a_name() {
    let cases = [
        Case {
            namespace: "endpoint-floating",
            spec: json!({}),
            host: |status| {
                let balancer = &status["apiServerManagedLoadBalancer"];
                assert_ne!(balancer["ip"], balancer["internalIP"]);
                balancer["ip"].as_str().unwrap()
            },
        },
        Case {
            namespace: "endpoint-vip",
            spec: json!({"apiServer": {"enableFloatingIP": false}}),
            host: |status| {
                let balancer = &status["apiServerManagedLoadBalancer"];
                balancer["internalIP"].as_str().unwrap()
            },
        },
        Case {
            namespace: "endpoint-name",
            spec: json!({
                "apiServer": {"enableFloatingIP": false},
                "controlPlaneEndpoint": {"host": "api.example.com", "port": 6443},
            }),
            host: |_| "api.example.com",
        },
    ];
    // The cases run side by side, because each of them mostly waits.
    futures::future::join_all(cases.map(replace_a_machine)).await;
}

/// Replaces a machine of a cluster with such an endpoint, and checks where the requests of the proof went.
async fn replace_a_machine(case: Case) {
    let environment = Environment::in_namespace(case.namespace).start().await;
    let mut change = json!({"apiServer": {"managedLoadBalancer": {
        "additionalPorts": [8443],
        "monitor": {"delay": 1, "timeout": 1, "maxRetries": 1, "maxRetriesDown": 1}}}});
    json_patch::merge(&mut change, &case.spec);
    let cluster = environment.cluster("c1", change);
    environment.cluster_api.create_cluster("c1", cluster).await;
    let made = environment
        .until_provisioned("OpenStackCluster", "c1")
        .await;
    let host = (case.host)(&made["status"]);
    assert_eq!(
        made["spec"]["controlPlaneEndpoint"],
        json!({"host": host, "port": 6443})
    );
    for name in ["m0", "m1"] {
        create(&environment, name).await;
        has_joined(&environment, name).await;
    }
    assert_eq!(environment.endpoint_requests.endpoints(), BTreeSet::new());

    environment.cluster_api.delete("Machine", "m0").await;
    environment.until_gone("Machine", "m0").await;
    let ports = ["6443", "8443"].map(|port| format!("{host}:{port}"));
    assert_eq!(
        environment.endpoint_requests.endpoints(),
        BTreeSet::from(ports)
    );
}

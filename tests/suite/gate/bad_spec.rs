//! A value in the spec of an OpenStackCluster that can't be used opens no gate.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::scene::{create, gate, has_joined};
use test_support::{
    env::{Environment, environment::is},
    webhooks,
};

/// The port of the endpoint, as a client of v1beta1 may write it, where the schema knows no limits.
async fn set_port(stage: &Environment, port: u32) {
    let api = webhooks::api(
        &stage.admin,
        "OpenStackCluster",
        "v1beta1",
        &stage.namespace,
    );
    let change = Patch::Merge(json!({"spec": {"controlPlaneEndpoint": {"port": port}}}));
    api.patch("c1", &PatchParams::default(), &change)
        .await
        .unwrap();
}

/// Without its port, the load balancer is not known. It must not be looked for at Kubernetes' default port, at which no machine
/// has ever served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_without_a_usable_port_holds_the_server_of_a_deleted_machine() {
    let mut stage = Environment::in_namespace("bad-port")
        .without_admission()
        .start()
        .await;
    let cluster = stage.cluster(
        "c1",
        json!({
            "controlPlaneEndpoint": {"host": "api.example.com", "port": 7443},
            "apiServer": {"enableFloatingIP": false, "managedLoadBalancer": {
                "monitor": {"delay": 1, "timeout": 1, "maxRetries": 1, "maxRetriesDown": 1}}},
        }),
    );
    stage.cluster_api.create_cluster("c1", cluster).await;
    stage.until_provisioned("OpenStackCluster", "c1").await;
    create(&stage, "m0").await;
    has_joined(&stage, "m0").await;
    stage.stop().await;
    set_port(&stage, 70_000).await;
    let before = stage.cloud.control().last_call();
    stage.start().await;
    stage.cluster_api.delete("OpenStackMachine", "m0").await;

    stage.one_more_pass("c1").await;
    let refused = stage.get("OpenStackCluster", "c1").await;
    assert!(is(&refused, "APIEndpointReady", "False"), "{refused:#}");
    stage
        .until_object("OpenStackMachine", "m0", |machine| {
            machine["metadata"]["deletionTimestamp"].is_string()
                && gate(machine).1 == "NotYetObserved"
        })
        .await;
    stage.one_more_pass("c1").await;
    assert_eq!(stage.writes_since(before), Vec::<String>::new());
    let server = stage.get("OpenStackServer", "m0").await;
    assert!(server["metadata"]["deletionTimestamp"].is_null());

    // With the right port the gate holds the machine because it is the last one, and lets it go when another one serves.
    set_port(&stage, 7443).await;
    stage
        .until_object("OpenStackMachine", "m0", |machine| {
            gate(machine).1 == "NoOtherMemberServing"
        })
        .await;
    assert_eq!(stage.calls("server_delete"), 0);
    create(&stage, "m1").await;
    has_joined(&stage, "m1").await;
    stage.until_gone("OpenStackMachine", "m0").await;
}

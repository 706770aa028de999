//! A value in the spec of an OpenStackCluster that can't be used opens no gate.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::control_plane::{create, gate, has_joined};
use test_support::{
    env::{Environment, environment::is},
    webhooks,
};

/// The port of the endpoint, as a client of v1beta1 may write it, where the schema knows no limits.
async fn set_port(environment: &Environment, port: u32) {
    let api = webhooks::api(
        &environment.admin,
        "OpenStackCluster",
        "v1beta1",
        &environment.namespace,
    );
    let change = Patch::Merge(json!({"spec": {"controlPlaneEndpoint": {"port": port}}}));
    api.patch("c1", &PatchParams::default(), &change)
        .await
        .unwrap();
}

/// Without its port, the load balancer is not known. It must not be looked for at Kubernetes' default port, at which no
/// machine has ever served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_without_a_usable_port_holds_the_server_of_a_deleted_machine() {
    let mut environment = Environment::in_namespace("bad-port")
        .without_admission()
        .start()
        .await;
    let cluster = environment.cluster(
        "c1",
        json!({
            "controlPlaneEndpoint": {"host": "api.example.com", "port": 7443},
            "apiServer": {"enableFloatingIP": false, "managedLoadBalancer": {
                "monitor": {"delay": 1, "timeout": 1, "maxRetries": 1, "maxRetriesDown": 1}}},
        }),
    );
    environment.cluster_api.create_cluster("c1", cluster).await;
    environment
        .until_provisioned("OpenStackCluster", "c1")
        .await;
    create(&environment, "m0").await;
    has_joined(&environment, "m0").await;
    environment.stop().await;
    set_port(&environment, 70_000).await;
    let before = environment.cloud.control().last_call();
    environment.start().await;
    environment
        .cluster_api
        .delete("OpenStackMachine", "m0")
        .await;

    environment.one_more_pass("c1").await;
    let refused = environment.get("OpenStackCluster", "c1").await;
    assert!(is(&refused, "APIEndpointReady", "False"), "{refused:#}");
    environment
        .until_object("OpenStackMachine", "m0", |machine| {
            machine["metadata"]["deletionTimestamp"].is_string()
                && gate(machine).1 == "NotYetObserved"
        })
        .await;
    environment.one_more_pass("c1").await;
    assert_eq!(environment.writes_since(before), Vec::<String>::new());
    let server = environment.get("OpenStackServer", "m0").await;
    assert!(server["metadata"]["deletionTimestamp"].is_null());

    // With the right port the gate holds the machine because it is the last one, and lets it go when another one
    // serves.
    set_port(&environment, 7443).await;
    environment
        .until_object("OpenStackMachine", "m0", |machine| {
            gate(machine).1 == "NoOtherMemberServing"
        })
        .await;
    assert_eq!(environment.calls("server_delete"), 0);
    create(&environment, "m1").await;
    has_joined(&environment, "m1").await;
    environment.until_gone("OpenStackMachine", "m0").await;
}

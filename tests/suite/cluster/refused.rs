//! What CAPO does and this version does not yet: said in a condition that names field and value, never ignored.

use serde_json::json;

use test_support::{
    env::{Environment, environment::is},
    waiting::PATIENCE,
};

use super::quick;
use crate::env::cluster_api::condition;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_supported_yet_is_refused_by_name_and_the_rest_goes_on() {
    let stage = Environment::in_namespace("not-yet")
        .cloud(quick())
        .start()
        .await;
    let machine = json!({"identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
        "flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "cirros"}}});
    let change = json!({
        "bastion": {"enabled": true, "spec": machine},
        "apiServer": {"managedLoadBalancer": {"enabled": false}},
    });
    stage
        .cluster_api
        .create_cluster("c1", stage.cluster("c1", change))
        .await
        .unwrap();
    let cluster = stage
        .until("OpenStackCluster", "c1", |object| {
            object["status"]["initialization"]["provisioned"] == true
        })
        .await;
    let (status, reason, message) = condition(&cluster, "BastionReady").unwrap();
    assert_eq!((status, reason), ("False", "NotSupported"));
    assert!(message.contains("spec.bastion is enabled"), "{message}");
    assert!(
        message.contains("set spec.bastion.enabled to false"),
        "{message}"
    );

    // The API server's floating IP is on no machine.
    stage
        .cluster_api
        .create_machine("c1", "cp-0", true, machine.clone())
        .await
        .unwrap();
    let control_plane = stage
        .cluster_api
        .wait_for("OpenStackMachine", "cp-0", PATIENCE, |object| {
            is(object, "APIServerIngressReady", "False")
        })
        .await
        .unwrap();
    let (_, reason, message) = condition(&control_plane, "APIServerIngressReady").unwrap();
    assert_eq!(reason, "NotSupported");
    assert!(
        message.contains("spec.apiServer.enableFloatingIP"),
        "{message}"
    );

    // A floating IP from a pool is not taken, so no server is made that would lack it.
    let mut pooled = machine;
    pooled["floatingIPPoolRef"] = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "pool-1"});
    stage
        .cluster_api
        .create_machine("c1", "w-0", false, pooled)
        .await
        .unwrap();
    let worker = stage
        .cluster_api
        .wait_for("OpenStackMachine", "w-0", PATIENCE, |object| {
            condition(object, "InstanceReady")
                .is_some_and(|(_, reason, _)| reason == "NotSupported")
        })
        .await
        .unwrap();
    let (_, _, message) = condition(&worker, "InstanceReady").unwrap();
    assert!(
        message.contains("spec.floatingIPPoolRef is OpenStackFloatingIPPool \"pool-1\""),
        "{message}"
    );
    // That of the control plane is there by now, and it is the only one.
    stage
        .cluster_api
        .wait_for("OpenStackMachine", "cp-0", PATIENCE, |object| {
            is(object, "InstanceReady", "True")
        })
        .await
        .unwrap();
    let servers = stage.cloud.control().calls_since(0);
    assert_eq!(
        servers
            .iter()
            .filter(|call| call.label == "server_create")
            .count(),
        1
    );
    stage.delete("c1").await;
}

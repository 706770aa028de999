//! Two objects that claim one: one load balancer, one server, one OpenStackMachine; and a machine that a
//! MachineHealthCheck is about to give up.

use serde_json::json;

use super::control_plane::{cluster, create, gate, is_provisioned, join, until_held, until_warned};
use crate::{
    env::{
        Environment,
        environment::{is, status_and_reason},
    },
    env::{apply::apply, cluster_api::condition},
    machine::machine_spec,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_younger_of_two_clusters_that_claim_one_load_balancer_stops_and_says_why() {
    let environment = Environment::in_namespace("claims-balancer").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let first = environment.get("OpenStackCluster", "c1").await;
    let mut second = first.clone();
    second["metadata"] = json!({"name": "c1-again", "namespace": environment.namespace,
        "ownerReferences": first["metadata"]["ownerReferences"], "labels": first["metadata"]["labels"]});
    second.as_object_mut().unwrap().remove("status");
    // The creation time shows which object is older. It is in whole seconds.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let before = environment.cloud.control().last_call();
    apply(&environment.admin, &[second]).await.unwrap();
    environment
        .until_object("OpenStackCluster", "c1-again", |cluster| {
            condition(cluster, "NetworkReady").is_some_and(|(status, reason, message)| {
                (status, reason) == ("False", "AmbiguousMatch")
                    && message.contains("claims-balancer/c1")
            })
        })
        .await;
    until_warned(
        &environment,
        "OpenStackCluster",
        "c1-again",
        &["AmbiguousMatch", "claims-balancer/c1"],
    )
    .await;
    assert_eq!(environment.writes_since(before), Vec::<String>::new());
    // The first cluster continues undisturbed.
    join(&environment, &["m1"]).await;
    // The copy can be deleted. It changes nothing of the first cluster and does not wait for its Machines.
    let before = environment.cloud.control().last_call();
    environment
        .cluster_api
        .delete("OpenStackCluster", "c1-again")
        .await;
    environment.until_gone("OpenStackCluster", "c1-again").await;
    assert_eq!(environment.writes_since(before), Vec::<String>::new());
    join(&environment, &["m2"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_machine_for_one_server_gets_nothing_and_takes_nothing_with_it() {
    let environment = Environment::in_namespace("claims-server").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let provider_id = environment.get("OpenStackMachine", "m0").await["spec"]["providerID"].clone();
    let mut spec = machine_spec();
    spec["providerID"] = provider_id;
    environment
        .cluster_api
        .create_machine("c1", "copy", true, spec)
        .await;
    let refused = environment
        .until_object("OpenStackMachine", "copy", |machine| {
            status_and_reason(machine, "InstanceReady") == ("False", "AmbiguousMatch")
        })
        .await;
    let (_, _, message) = condition(&refused, "InstanceReady").unwrap();
    assert!(
        message.contains("OpenStackServer claims-server/m0"),
        "{message}"
    );
    assert!(!is_provisioned(&refused));
    environment.cluster_api.delete("Machine", "copy").await;
    environment.until_gone("Machine", "copy").await;
    assert_eq!(environment.calls("server_delete"), 0);
    environment
        .until_object("OpenStackMachine", "m0", |machine| {
            is(machine, "Ready", "True")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_machines_with_one_openstackmachine_are_reported_by_name() {
    let environment = Environment::in_namespace("claims-machine").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let rival = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "rival", "namespace": environment.namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/control-plane": ""}},
        "spec": {"clusterName": "c1", "version": "v1.34.4", "bootstrap": {"dataSecretName": "m0-bootstrap"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "m0"}},
    });
    apply(&environment.admin, &[rival]).await.unwrap();
    until_warned(
        &environment,
        "OpenStackMachine",
        "m0",
        &["AmbiguousMatch", "Machine m0", "rival"],
    )
    .await;
    assert!(super::control_plane::is_hooked(
        &environment.get("Machine", "m0").await
    ));
    assert!(!super::control_plane::is_hooked(
        &environment.get("Machine", "rival").await
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_machine_names_the_health_check_that_will_give_it_up() {
    let environment = Environment::in_namespace("health-check").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "patience", "namespace": environment.namespace},
        "spec": {"clusterName": "c1", "selector": {"matchLabels": {"cluster.x-k8s.io/control-plane": ""}},
            "checks": {"nodeStartupTimeoutSeconds": 14}},
    });
    apply(&environment.admin, &[check]).await.unwrap();
    environment.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    create(&environment, "m1").await;
    until_held(&environment, "m1", "MemberPending", &["PENDING_CREATE"]).await;
    let words = [
        "MachineHealthCheck patience",
        "nodeStartupTimeoutSeconds 14",
    ];
    until_held(&environment, "m1", "MemberPending", &words).await;
    until_warned(&environment, "OpenStackMachine", "m1", &words).await;
    environment.command(json!({"release": ""}));
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            is_provisioned(machine) && !gate(machine).2.contains("MachineHealthCheck")
        })
        .await;
}

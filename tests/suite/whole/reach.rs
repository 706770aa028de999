//! The reach of a manager: it leaves objects alone that `--namespace` and `--watch-filter` exclude, and it keeps
//! Clusters of different namespaces apart.

use serde_json::{Value, json};

use super::isolated::IsolatedEnvironment;
use crate::env::cluster_api::condition;

pub(super) fn open_stack_cluster(name: &str, namespace: &str, filter: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace});
    if let Some(filter) = filter {
        metadata["labels"] = json!({"cluster.x-k8s.io/watch-filter": filter});
    }
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": metadata,
        "spec": {
            "identityRef": {"name": "cloud-config", "cloudName": "demo"},
            "managedSubnets": [{"cidr": "10.6.0.0/24"}],
            "enableExternalNetwork": false,
            "apiServer": {"enableFloatingIP": false},
            "controlPlaneEndpoint": {"host": "api.example.com", "port": 6443},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_looks_at_its_namespace_and_its_label_only() {
    let environment = IsolatedEnvironment::start().await;
    let elsewhere = environment.another_namespace("elsewhere").await;
    let _manager = environment
        .ready_manager("manager", &["--namespace=default", "--watch-filter=blue"])
        .await;
    // The object that the manager reconciles is created last, so there was time for the others before.
    elsewhere
        .create_cluster(
            "foreign",
            open_stack_cluster("foreign", "elsewhere", Some("blue")),
        )
        .await;
    for (name, filter) in [("red", Some("red")), ("bare", None), ("blue", Some("blue"))] {
        environment
            .cluster_api
            .create_cluster(name, open_stack_cluster(name, "default", filter))
            .await;
    }
    environment
        .until_provisioned("OpenStackCluster", "blue")
        .await;
    for (cluster_api, name) in [
        (&environment.cluster_api, "red"),
        (&environment.cluster_api, "bare"),
        (&elsewhere, "foreign"),
    ] {
        let left = cluster_api
            .get("OpenStackCluster", name)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(left["metadata"]["finalizers"], Value::Null, "{name}");
        assert_eq!(left["status"]["conditions"], Value::Null, "{name}");
        assert_eq!(
            environment.cloud.control().leftovers(&format!("-{name}")),
            [],
            "{name}"
        );
    }

    // The filter also applies to machines: the object of a server gets the label of its machine.
    let spec = json!({"flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "ubuntu-kube"}}});
    for machine in ["w-blue", "w-red"] {
        environment
            .cluster_api
            .create_machine("blue", machine, false, spec.clone())
            .await;
    }
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
    crate::env::cluster_api::api(
        &environment.kubernetes.admin().await.unwrap(),
        "default",
        "OpenStackMachine",
    )
    .patch(
        "w-blue",
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(label),
    )
    .await
    .unwrap();
    environment
        .until_provisioned("OpenStackMachine", "w-blue")
        .await;
    let left = environment
        .cluster_api
        .get("OpenStackMachine", "w-red")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(left["metadata"]["finalizers"], Value::Null);
    assert!(
        environment
            .cluster_api
            .get("OpenStackServer", "w-red")
            .await
            .unwrap()
            .is_none()
    );
}

/// An OpenStackServer as CAPO writes it, which puts the label on its owner only.
fn server_of(machine: &Value) -> Value {
    let name = &machine["metadata"]["name"];
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
        "metadata": {
            "name": name, "namespace": "default",
            "finalizers": ["openstackserver.infrastructure.cluster.x-k8s.io"],
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine", "name": name,
                "uid": machine["metadata"]["uid"], "controller": true,
            }],
        },
        "spec": {
            "identityRef": {"name": "cloud-config", "cloudName": "demo"},
            "image": {"filter": {"name": "ubuntu-kube"}}, "flavor": "m1.small", "sshKeyName": "",
            "ports": [{"network": {"filter": {"name": "public"}}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_belongs_to_the_shard_of_its_machine() {
    let environment = IsolatedEnvironment::start().await;
    let admin = environment.kubernetes.admin().await.unwrap();
    let _manager = environment
        .ready_manager("manager", &["--watch-filter=blue"])
        .await;
    // The object that the manager reconciles is created last, so there was time for the others before.
    for (name, shard) in [("kept", "red"), ("leaving", "red"), ("ours", "blue")] {
        let machine = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine",
            "metadata": {"name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/watch-filter": shard}},
            "spec": {"flavor": "m1.small", "image": {"filter": {"name": "ubuntu-kube"}}},
        });
        crate::env::apply::apply(&admin, &[machine]).await.unwrap();
        let machine = environment.cluster_api.get("OpenStackMachine", name).await;
        let server = server_of(&machine.unwrap().unwrap());
        crate::env::apply::apply(&admin, &[server]).await.unwrap();
        if name == "leaving" {
            environment
                .cluster_api
                .delete("OpenStackServer", name)
                .await;
        }
    }
    environment
        .cluster_api
        .until_object("OpenStackServer", "ours", |server| {
            server["status"]["ready"] == true
        })
        .await;
    for name in ["kept", "leaving"] {
        let server = environment.cluster_api.get("OpenStackServer", name).await;
        let server = server.unwrap().unwrap();
        assert_eq!(server["status"]["conditions"], Value::Null, "{name}");
        assert_eq!(
            server["metadata"]["finalizers"],
            json!(["openstackserver.infrastructure.cluster.x-k8s.io"]),
            "{name}"
        );
        assert_eq!(environment.cloud.control().leftovers(name), [], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_clusters_that_compute_one_name_the_younger_writes_nothing() {
    let environment = IsolatedEnvironment::start().await;
    let _manager = environment.ready_manager("manager", &[]).await;
    let first = environment.another_namespace("a").await;
    let second = environment.another_namespace("a-b").await;
    first
        .create_cluster("b-c", open_stack_cluster("b-c", "a", None))
        .await;
    first.until_provisioned("OpenStackCluster", "b-c").await;
    // The creation time shows which cluster is older. It is in whole seconds.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let mark = environment.cloud.control().last_call();
    let create_second = async || {
        let cluster = open_stack_cluster("c", "a-b", None);
        second.create_cluster("c", cluster).await;
        let is_refused = |cluster: &Value| {
            condition(cluster, "NetworkReady").is_some_and(|(status, reason, message)| {
                (status, reason) == ("False", "AmbiguousMatch") && message.contains("a/b-c")
            })
        };
        second
            .until_object("OpenStackCluster", "c", is_refused)
            .await;
    };
    create_second().await;
    // What has the names of the younger one belongs to the older one, so its deletion deletes nothing either.
    second.delete("Cluster", "c").await;
    second.until_gone("Cluster", "c").await;
    create_second().await;
    let calls = environment.cloud.control().calls_since(mark);
    let written: Vec<&str> = calls
        .iter()
        .filter(|call| call.method != "GET" && call.label != "token_create")
        .map(|call| call.label.as_str())
        .collect();
    assert_eq!(written, Vec::<&str>::new());
    // After the older cluster is deleted, the name is free.
    first.delete("Cluster", "b-c").await;
    second.until_provisioned("OpenStackCluster", "c").await;
    second.delete("Cluster", "c").await;
    second.until_gone("Cluster", "c").await;
    assert_eq!(environment.cloud.control().leftovers("a-b-c"), []);
}

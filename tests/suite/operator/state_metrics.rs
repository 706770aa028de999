//! The real kube-state-metrics with the shipped configuration and rights over real objects of ours; and what Argo CD
//! makes of the same objects.

use std::collections::BTreeSet;

use kube::{Api, api::DynamicObject};
use serde_json::{Value, json};

use super::{argo::verdict, until};
use crate::{
    env::{
        Guarded, Kubernetes,
        apply::{apply, documents},
        cluster_api::api,
        guarded::Program,
        kubernetes::free_port,
        manager::get,
        programs,
    },
    whole::isolated::IsolatedEnvironment,
};

const SHIPPED: &str = "deploy/kube-state-metrics.yaml";

/// Starts kube-state-metrics with the shipped configuration as a user with the shipped role, and returns where it
/// serves.
async fn start(kubernetes: &Kubernetes) -> (Guarded, String) {
    let shipped =
        documents(&std::fs::read_to_string(test_support::repository(SHIPPED)).unwrap()).unwrap();
    let configuration = shipped
        .iter()
        .find(|document| document["kind"] == "ConfigMap")
        .and_then(|map| map["data"]["capo.yaml"].as_str())
        .unwrap();
    let file = kubernetes.folder().join("kube-state-metrics.yaml");
    std::fs::write(&file, configuration).unwrap();
    let role = shipped
        .iter()
        .find(|document| document["kind"] == "ClusterRole")
        .unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "kube-state-metrics", "namespace": "default"}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "kube-state-metrics"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "kube-state-metrics", "namespace": "default"}],
    });
    let admin = kubernetes.admin().await.unwrap();
    apply(&admin, &[role.clone(), account, binding])
        .await
        .unwrap();
    let kubeconfig = kubernetes
        .kubeconfig_of_service_account("default", "kube-state-metrics")
        .await
        .unwrap();
    let (port, telemetry) = (free_port().unwrap(), free_port().unwrap());
    let process = Guarded::start(&Program {
        path: &programs::kube_state_metrics().unwrap(),
        arguments: vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--custom-resource-state-config-file={}", file.display()),
            "--custom-resource-state-only=true".to_owned(),
            "--host=127.0.0.1".to_owned(),
            format!("--port={port}"),
            "--telemetry-host=127.0.0.1".to_owned(),
            format!("--telemetry-port={telemetry}"),
        ],
        variables: Vec::new(),
        log: kubernetes.folder().join("kube-state-metrics.log"),
        remove_after: None,
    })
    .unwrap();
    (process, format!("127.0.0.1:{port}/metrics"))
}

async fn object(environment: &IsolatedEnvironment, kind: &str, name: &str) -> Value {
    let admin = environment.kubernetes.admin().await.unwrap();
    let api: Api<DynamicObject> = api(&admin, "default", kind);
    let mut object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
    object["kind"] = json!(kind);
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_of_our_objects_as_cluster_api_users_query_it() {
    let environment = IsolatedEnvironment::start().await;
    let _manager = environment
        .ready_manager("manager", &["--leader-elect"])
        .await;
    let (mut exporter, url) = start(&environment.kubernetes).await;
    environment.create_cluster("state", "127.77.0.0/24").await;
    environment
        .until_provisioned("OpenStackCluster", "state")
        .await;
    let annotated = json!({"metadata": {"annotations":
        {"infrastructure.cluster.x-k8s.io/load-balancer-gate": "hold reason=change freeze"}}});
    let admin = environment.kubernetes.admin().await.unwrap();
    api(&admin, "default", "OpenStackCluster")
        .patch(
            "state",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(annotated),
        )
        .await
        .unwrap();
    environment.create_machine("state", "state-cp", true).await;

    // A line holds all of these parts; their order is the exporter's business.
    let wanted: [&[&str]; 9] = [
        &[
            "capi_openstackcluster_info{",
            "cluster_name=\"state\"",
            "load_balancer_id=\"",
            "control_plane_endpoint_host=\"127.",
        ],
        &[
            "capi_openstackcluster_created{",
            "name=\"state\"",
            "namespace=\"default\"",
        ],
        &[
            "capi_openstackcluster_owner{",
            "owner_kind=\"Cluster\"",
            "owner_name=\"state\"",
        ],
        &[
            "capi_openstackcluster_status_condition{",
            "type=\"NetworkReady\"",
            "status=\"True\"",
            "} 1",
        ],
        &[
            "capi_openstackmachine_info{",
            "name=\"state-cp\"",
            "instance_state=\"ACTIVE\"",
            "provider_id=\"openstack:",
        ],
        &[
            "capi_openstackmachine_owner{",
            "owner_is_controller=\"true\"",
            "owner_kind=\"Machine\"",
            "owner_name=\"state-cp\"",
        ],
        &[
            "capi_openstackmachine_status_condition{",
            "type=\"APIServerLoadBalancerReady\"",
            "status=\"False\"",
            "} 1",
        ],
        &[
            "capi_openstackmachine_status_condition_last_transition_time{",
            "type=\"Ready\"",
        ],
        &[
            "capi_openstackserver_status_condition{",
            "type=\"InstanceReady\"",
            "status=\"True\"",
            "} 1",
        ],
    ];
    let mut last = String::new();
    let scraped = until("every series of kube-state-metrics", async || {
        assert!(
            exporter.ended().unwrap().is_none(),
            "{}",
            exporter.last_lines(10)
        );
        last = get(&url).await.ok()?.1;
        let missing: Vec<_> = wanted
            .iter()
            .filter(|parts| {
                !last
                    .lines()
                    .any(|line| parts.iter().all(|part| line.contains(part)))
            })
            .collect();
        if !missing.is_empty() {
            println!("not yet: {missing:?}");
        }
        missing.is_empty().then(|| last.clone())
    })
    .await;
    let names: BTreeSet<&str> = scraped
        .lines()
        .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split_once(' ')?.0))
        .collect();
    for kind in ["openstackcluster", "openstackmachine", "openstackserver"] {
        for name in [
            "info",
            "created",
            "annotation_paused",
            "owner",
            "status_condition",
            "status_condition_last_transition_time",
        ] {
            let name = format!("capi_{kind}_{name}");
            assert!(names.contains(name.as_str()), "{name} is not in {names:?}");
        }
    }

    // Argo CD on the same objects.
    until("Argo CD shows the hold", async || {
        let held = object(&environment, "OpenStackMachine", "state-cp").await;
        let (status, message) = verdict(&held);
        assert_eq!(status, "Progressing", "{message}");
        message.contains("change freeze").then_some(())
    })
    .await;
    let release = json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/load-balancer-gate": null}}});
    api(&admin, "default", "OpenStackCluster")
        .patch(
            "state",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(release),
        )
        .await
        .unwrap();
    environment
        .until_provisioned("OpenStackMachine", "state-cp")
        .await;
    until("Argo CD calls all three healthy", async || {
        for (kind, name) in [
            ("OpenStackCluster", "state"),
            ("OpenStackMachine", "state-cp"),
            ("OpenStackServer", "state-cp"),
        ] {
            let (status, message) = verdict(&object(&environment, kind, name).await);
            assert!(
                ["Healthy", "Progressing"].contains(&status.as_str()),
                "{kind}: {status} {message}"
            );
            if status != "Healthy" {
                println!("{kind}: {status} {message}");
                return None;
            }
        }
        Some(())
    })
    .await;
}

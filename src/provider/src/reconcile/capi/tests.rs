//! Tests of reading Cluster API's objects, including objects with unexpected content.

use serde_json::json;

use super::{Cluster, Machine, owner};

#[test]
fn reads_what_cluster_api_writes() {
    let machine: Machine = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "name": "c1-abcde", "namespace": "default",
            "labels": {"cluster.x-k8s.io/control-plane": ""},
            "deletionTimestamp": "2026-11-21T10:00:00Z",
            "annotations": {"pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member": "capo-rs"},
        },
        "spec": {
            "clusterName": "c1", "version": "v1.34.4", "failureDomain": "nova",
            "bootstrap": {"dataSecretName": "c1-abcde"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "c1-abcde"},
            "providerID": "openstack:///42",
        },
        "status": {
            "nodeRef": {"name": "c1-abcde"},
            "initialization": {"infrastructureProvisioned": true},
            "conditions": [{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                "message": "…", "lastTransitionTime": "2026-11-21T10:00:10Z", "observedGeneration": 2}],
        },
    }))
    .unwrap();
    assert!(machine.is_control_plane(None) && machine.is_admitted() && machine.is_on("c1-abcde"));
    assert!(machine.held_at().is_some());
    assert_eq!(
        machine.spec.bootstrap.data_secret_name.as_deref(),
        Some("c1-abcde")
    );
    assert_eq!(machine.status.node_ref.unwrap().name, "c1-abcde");
}

#[test]
fn reads_anything() {
    for odd in [
        json!({}),
        json!({"metadata": {"name": "x"}, "spec": null, "status": null}),
        json!({"metadata": {"name": "x"}, "spec": [1], "status": "no"}),
        json!({"metadata": {"name": "x"},
            "spec": {"paused": "yes", "controlPlaneEndpoint": {"host": 7, "port": 700_000}, "controlPlaneRef": [],
                "clusterName": {}, "bootstrap": 1, "providerID": null},
            "status": {"initialization": [], "conditions": [null, 1, {"type": "Ready", "status": "True", "lastTransitionTime": 4}],
                "nodeRef": 3}}),
    ] {
        let cluster: Cluster = serde_json::from_value(odd.clone()).unwrap();
        assert!(!cluster.spec.paused && !cluster.spec.control_plane_endpoint.is_set());
        let machine: Machine = serde_json::from_value(odd.clone()).unwrap();
        assert!(!machine.is_admitted() && machine.held_at().is_none());
        if odd["status"]["conditions"].is_array() {
            assert!(machine.condition("Ready").unwrap().is_true());
        }
    }
}

#[test]
fn a_control_plane_owns_its_machine_with_or_without_a_label() {
    let cluster: Cluster = serde_json::from_value(json!({"metadata": {"name": "c1"}, "spec": {"controlPlaneRef":
        {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"}}}))
    .unwrap();
    let owned_by = |kind: &str, name: &str| -> Machine {
        serde_json::from_value(json!({"metadata": {"name": "m", "ownerReferences": [
            {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": kind, "name": name, "uid": "1"}]}}))
        .unwrap()
    };
    let machine = owned_by("KubeadmControlPlane", "cp");
    assert!(machine.is_control_plane(Some(&cluster)) && !machine.is_control_plane(None));
    for other in [("KubeadmControlPlane", "other"), ("MachineSet", "cp")] {
        assert!(!owned_by(other.0, other.1).is_control_plane(Some(&cluster)));
    }
}

#[test]
fn finds_its_owner_at_any_version() {
    let machine: Machine = serde_json::from_value(json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Machine", "name": "no", "uid": "1"},
        {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "yes", "uid": "2"},
    ]}}))
    .unwrap();
    assert_eq!(owner(&machine.metadata, "Machine").unwrap().name, "yes");
    assert!(owner(&machine.metadata, "Cluster").is_none());
}

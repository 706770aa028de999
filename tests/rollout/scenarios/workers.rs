//! Workers while a rollout of their control plane is held.

use std::time::Duration;

use serde_json::{Value, json};

use super::{THRESHOLDS, standing, until_stuck};
use crate::{
    env::{apply::apply, cluster_api::condition},
    invariants::Promises,
    rollout::{Rollout, RolloutOptions, machines::WORKERS, proof::Proof},
};

/// A label of the workers.
const POOL: (&str, &str) = ("pool", "workers");

/// A MachineHealthCheck judges no worker of a Cluster whose infrastructure is not ready. The infrastructure stays ready
/// while a member is PENDING, so a worker whose Node fails during the hold is deleted and replaced during the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_check_replaces_a_worker_while_the_rollout_is_held() {
    let rollout = Rollout::start(RolloutOptions {
        name: "held-worker",
        replicas: 1,
        arguments: THRESHOLDS.to_vec(),
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    apply(&rollout.client, &workers(&rollout)).await.unwrap();
    let sick = until_another_worker(&rollout, None).await;
    let proof = Proof::begin(&rollout).await;

    let known = rollout.machines().await;
    rollout.roll().await;
    let new = rollout.machine_after(&known).await;
    rollout.breaks(json!({"hold": {"member": new, "status": "PENDING_CREATE"}}));
    rollout
        .stays_held(&new, "MemberPending", Duration::from_secs(10))
        .await;
    let before = (standing(&rollout).await, held_since(&rollout, &new).await);
    rollout.machines.fail_worker(&sick).await;
    rollout
        .until_object("Machine", &sick, "is called unhealthy", |machine| {
            condition(machine, "HealthCheckSucceeded")
                .is_some_and(|(is, reason, _)| (is, reason) == ("False", "UnhealthyNode"))
        })
        .await;
    rollout
        .until_object("Machine", &sick, "is gone", Value::is_null)
        .await;
    until_another_worker(&rollout, Some(&sick)).await;
    until_stuck(&rollout).await;
    rollout
        .stays_held(&new, "MemberPending", Duration::from_secs(2))
        .await;
    assert_eq!(
        (standing(&rollout).await, held_since(&rollout, &new).await),
        before
    );

    rollout.mends(json!({"release": ""}));
    rollout.until_complete().await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!((figures.replaced, figures.failed), (1, 0));
}

/// A MachineDeployment with one worker, and a MachineHealthCheck that has a worker replaced 5 s after its Node has
/// failed.
fn workers(rollout: &Rollout) -> [Value; 3] {
    let (name, cluster) = (WORKERS, &rollout.cluster);
    let metadata = json!({"name": name, "namespace": rollout.namespace});
    let labels = json!({POOL.0: POOL.1});
    let bootstrap = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": metadata, "stringData": {"value": "#cloud-config\n"},
    });
    let deployment = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": metadata,
        "spec": {
            "clusterName": cluster, "replicas": 1, "selector": {"matchLabels": labels},
            // With this value the MachineDeployment, and with it the Cluster, counts as available while its only worker
            // is missing.
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "clusterName": cluster, "version": "v1.34.4",
                    "bootstrap": {"dataSecretName": name},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": cluster,
                    },
                },
            },
        },
    });
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck", "metadata": metadata,
        "spec": {
            "clusterName": cluster, "selector": {"matchLabels": labels},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 5}]},
        },
    });
    [bootstrap, deployment, check]
}

/// Returns the worker that is not `known` as soon as Cluster API calls it available.
async fn until_another_worker(rollout: &Rollout, known: Option<&str>) -> String {
    rollout
        .until_some("another worker is available", async || {
            let workers = rollout.workers().await;
            let new = workers
                .into_iter()
                .find(|name| Some(name.as_str()) != known)?;
            let machine = rollout.get("Machine", &new).await?;
            let is_available =
                condition(&machine, "Available").is_some_and(|(is, ..)| is == "True");
            is_available.then_some(new)
        })
        .await
}

/// The time of the last transition of the gate's condition of a machine.
async fn held_since(rollout: &Rollout, machine: &str) -> Value {
    let machine = rollout.get("OpenStackMachine", machine).await.unwrap();
    let conditions = machine["status"]["conditions"].as_array().unwrap();
    let mut gate = conditions.iter();
    let gate = gate.find(|condition| condition["type"] == crate::rollout::GATE);
    gate.unwrap()["lastTransitionTime"].clone()
}

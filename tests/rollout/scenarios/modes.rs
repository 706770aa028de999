//! The ways to switch the gate off while a Machine is being deleted and held: the mode `observe`, the mode `off`, and
//! `capo-rs release-hooks` without a manager.

use std::process::Command;

use serde_json::Value;

use crate::{
    env::cluster_api::condition,
    rollout::management_cluster::ManagementCluster,
    rollout::{HOOK, Rollout, RolloutOptions},
};

/// A control plane of one, whose only machine is deleted by hand and held.
async fn held(name: &'static str) -> (Rollout, String) {
    let rollout = Rollout::start(RolloutOptions {
        name,
        replicas: 1,
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    let machine = rollout.machines().await.remove(0);
    rollout.delete("Machine", &machine).await;
    rollout.until_held(&machine, "NoOtherMemberServing").await;
    (rollout, machine)
}

/// A manager with this mode lets the held Machine go, although no API server serves any more then, and the Machine's
/// successor gets no hook.
async fn lets_go(name: &'static str, mode: &str) {
    let (rollout, machine) = held(name).await;
    rollout.start_manager(&[mode]).await;
    rollout
        .until_object("Machine", &machine, "is gone", Value::is_null)
        .await;
    // The successor can't get further than this, because no API server is left that it could join.
    let successor = rollout.machine_after(&[machine]).await;
    rollout
        .until_object("OpenStackMachine", &successor, "was looked at", |machine| {
            condition(machine, "InstanceReady").is_some()
        })
        .await;
    let successor = rollout.get("Machine", &successor).await.unwrap();
    assert!(
        successor["metadata"]["annotations"][HOOK].is_null(),
        "{successor:#}"
    );
    rollout.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_only_observes_lets_a_held_machine_go() {
    lets_go("observe", "--load-balancer-gate=observe").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_off_lets_a_held_machine_go() {
    lets_go("switched-off", "--load-balancer-gate=off").await;
}

/// No manager runs. The command removes the hooks, and Cluster API continues the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_hooks_let_a_held_machine_go() {
    let (rollout, machine) = held("released").await;
    rollout.kill_manager().await;
    let kubeconfig = ManagementCluster::shared()
        .await
        .kubernetes
        .admin_kubeconfig();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capo-rs"));
    command
        .arg("release-hooks")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--namespace={}", rollout.namespace))
        .env_remove("POD_NAMESPACE");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{complaints}");
    let expected = "Machines released: 1, members enabled: 0, failures: 0";
    assert!(said.contains(expected), "{said}{complaints}");
    // KubeadmControlPlane removes its own hook when ours is gone, and Cluster API then deletes the infrastructure. No
    // manager runs that carries this out.
    rollout
        .until_object(
            "Machine",
            &machine,
            "waits for its infrastructure",
            |machine| {
                machine["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|condition| condition["reason"] == "WaitingForInfrastructureDeletion")
            },
        )
        .await;
    rollout.start_manager(&["--load-balancer-gate=off"]).await;
    rollout
        .until_object("Machine", &machine, "is gone", Value::is_null)
        .await;
    rollout.end().await;
}

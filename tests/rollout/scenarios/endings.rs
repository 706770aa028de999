//! Deletions of a whole cluster or control plane wait for nothing, whatever the state of the gate is.

use std::time::Duration;

use serde_json::{Value, json};

use super::complete;
use crate::{
    invariants::Promises,
    rollout::{HOOK, Rollout, RolloutOptions, name_of},
};

fn one(name: &'static str) -> RolloutOptions {
    RolloutOptions {
        name,
        replicas: 1,
        ..RolloutOptions::default()
    }
}

/// The only machine's deletion is held; the Cluster's deletion lets it go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_while_a_deletion_is_held() {
    let (rollout, proof) = complete(one("gone-held")).await;
    let machine = rollout.machines().await.remove(0);
    rollout.delete("Machine", &machine).await;
    rollout
        .stays_held(&machine, "NoOtherMemberServing", Duration::from_secs(5))
        .await;
    proof.end(rollout, &Promises::default()).await;
}

/// A new machine is held because of its member; its control plane's deletion lets go of it and of all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_goes_while_an_admission_is_held() {
    let rollout = Rollout::start(one("gone-plane")).await;
    rollout.until_complete().await;
    let known = rollout.machines().await;
    rollout.roll().await;
    let new = rollout.machine_after(&known).await;
    rollout.breaks(json!({"hold": {"member": new, "status": "PENDING_CREATE"}}));
    rollout.until_held(&new, "MemberPending").await;
    rollout
        .delete("KubeadmControlPlane", &rollout.cluster)
        .await;
    for machine in [&known[0], &new] {
        rollout
            .until_object("Machine", machine, "is gone", Value::is_null)
            .await;
    }
    rollout.end().await;
}

/// The Cluster is deleted after its load balancer was deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_without_its_load_balancer() {
    let rollout = Rollout::start(one("gone-balancer")).await;
    rollout.until_complete().await;
    let machine = rollout.machines().await.remove(0);
    rollout.delete("Machine", &machine).await;
    rollout.until_held(&machine, "NoOtherMemberServing").await;
    rollout.kill_manager().await;
    rollout.foreign_client().await.delete_load_balancer().await;
    rollout.delete("Cluster", &rollout.cluster).await;
    rollout.start_manager(&[]).await;
    rollout.end().await;
}

/// A user has removed the finalizers of the Cluster. Cluster API does nothing more for it, and still no hook of ours
/// stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cluster_no_hook_stays() {
    let rollout = Rollout::start(one("gone-cluster")).await;
    rollout.until_complete().await;
    let machine = rollout.machines().await.remove(0);
    rollout.delete("Machine", &machine).await;
    rollout.until_held(&machine, "NoOtherMemberServing").await;
    rollout.delete("Cluster", &rollout.cluster).await;
    rollout
        .patch(
            "Cluster",
            &rollout.cluster,
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    rollout
        .until_object("Machine", &machine, "is without our hook", |machine| {
            machine["metadata"]["annotations"][HOOK].is_null()
        })
        .await;
    rollout.write_result();
}

/// The first machine never comes up. It is replaced although no other machine serves, because no machine has served
/// before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_machine_that_never_comes_up_is_replaced() {
    let rollout = Rollout::start(one("never-up")).await;
    rollout.machines.set_boot(Duration::from_hours(1));
    rollout.health_check(60).await;
    let first = rollout.machine_after(&[]).await;
    rollout
        .until_object("Machine", &first, "is provisioned", |machine| {
            machine["spec"]["providerID"].is_string()
        })
        .await;
    rollout.machines.set_boot(Duration::from_secs(5));
    let second = rollout.machine_after(std::slice::from_ref(&first)).await;
    // Without the health check, the second machine is not replaced however long it takes.
    rollout.delete("MachineHealthCheck", &rollout.cluster).await;
    rollout.until_complete().await;
    assert_eq!(
        rollout
            .list("Machine")
            .await
            .iter()
            .map(name_of)
            .collect::<Vec<_>>(),
        [second]
    );
    rollout.end().await;
}

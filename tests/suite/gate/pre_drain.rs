//! Kubernetes before 1.31: KubeadmControlPlane does not wait for our pre-terminate hook there, so a pre-drain hook
//! holds the Machine for the same decision.

use super::control_plane::{
    CONTROL_PLANE_HOOK, PRE_DRAIN, PRE_TERMINATE, cluster, has, has_joined, member, operating,
    until_enabled, until_held, until_seen,
};
use crate::{env::Environment, env::cluster_api::condition, machine::machine_spec};

async fn join_old(environment: &Environment, names: &[&str]) {
    for name in names {
        environment
            .cluster_api
            .create_machine_of("c1", name, true, machine_spec(), "v1.30.9")
            .await;
        has_joined(environment, name).await;
        until_enabled(environment, name).await;
        assert!(
            has(&environment.get("Machine", name).await, PRE_DRAIN),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_machine_is_held_before_its_node_is_drained() {
    let environment = Environment::in_namespace("pre-drain").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join_old(&environment, &["m0", "m1"]).await;
    operating(&environment, "m1", "ERROR").await;
    until_seen(&environment, "m1", "ERROR").await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(
        &environment,
        "m0",
        "NoOtherMemberServing",
        &["m1: its member is not ONLINE"],
    )
    .await;
    let held = environment.get("Machine", "m0").await;
    let (_, reason, _) = condition(&held, "Deleting").unwrap();
    assert_eq!(reason, "WaitingForPreDrainHook");
    assert!(
        has(&held, CONTROL_PLANE_HOOK),
        "etcd member and API server live"
    );
    assert!(member(&environment, "m0").await.is_some());
    // When the other machine serves again, both hooks are removed, and the member is removed before the API server
    // dies.
    operating(&environment, "m1", "ONLINE").await;
    environment.until_gone("Machine", "m0").await;
    assert_eq!(environment.leftovers("m0"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_cluster_api_passes_over_it_the_other_hook_still_holds_server_and_member() {
    let environment = Environment::in_namespace("pre-drain-passed").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join_old(&environment, &["m0"]).await;
    // If no other control-plane machine stays, KubeadmControlPlane does not wait for pre-drain hooks.
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(
        &environment,
        "m0",
        "NoOtherMemberServing",
        &["It is the only member"],
    )
    .await;
    let held = environment
        .until_object("Machine", "m0", |machine| !has(machine, CONTROL_PLANE_HOOK))
        .await;
    assert!(has(&held, PRE_TERMINATE) && has(&held, PRE_DRAIN));
    assert!(member(&environment, "m0").await.is_some());
    assert_eq!(environment.calls("server_delete"), 0);
    // A user removes both hooks. The machine is deleted, and the hooks are not set again.
    let off = serde_json::json!({PRE_TERMINATE: null, PRE_DRAIN: null});
    super::control_plane::annotate(&environment, "Machine", "m0", off).await;
    environment.until_gone("Machine", "m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_updated_in_place_carries_what_its_version_needs() {
    let environment = Environment::in_namespace("pre-drain-version").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join_old(&environment, &["m0"]).await;
    let version = |version: &str| serde_json::json!({"spec": {"version": version}});
    environment.patch("Machine", "m0", version("v1.31.0")).await;
    environment
        .until_object("Machine", "m0", |machine| {
            has(machine, PRE_TERMINATE) && !has(machine, PRE_DRAIN)
        })
        .await;
}

//! A change to `--load-balancer-gate=observe` or `off` while a Machine is being deleted and held, and a member still
//! waits for its API server.

use capo_core::GateMode;

use super::{
    api_server::ApiServer,
    control_plane::{
        PRE_TERMINATE, cluster, create, first_up, gate, has, is_provisioned, join_unhealthy,
        member, operating, until_enabled, until_held, until_seen,
    },
};
use test_support::env::Environment;

/// m0 is held by our hook, because m1 joins with a disabled member. Then the manager stops.
async fn held_and_joining(namespace: &str, range: &str) -> (Environment, ApiServer) {
    let (mut environment, _, server) = first_up(namespace, range).await;
    join_unhealthy(&environment, "m1").await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "NoOtherMemberServing", &["m1: its"]).await;
    environment.stop().await;
    for machine in ["m0", "m1"] {
        assert!(has(
            &environment.get("Machine", machine).await,
            PRE_TERMINATE
        ));
    }
    assert!(!member(&environment, "m1").await.unwrap().admin_state_up);
    (environment, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_removes_every_hook_and_admits_every_machine() {
    let (mut environment, _m0) = held_and_joining("mode-off", "127.93.0.0/24").await;
    environment.settings.mode = GateMode::Off;
    environment.start().await;
    environment.until_gone("Machine", "m0").await;
    until_enabled(&environment, "m1").await;
    environment
        .until_object("Machine", "m1", |machine| !has(machine, PRE_TERMINATE))
        .await;
    // A machine whose member does not come up is admitted, and gets no hook.
    environment.command(serde_json::json!({"hold": {"member": "-m2", "status": "PENDING_CREATE"}}));
    create(&environment, "m2").await;
    environment
        .until_provisioned("OpenStackMachine", "m2")
        .await;
    assert!(!has(&environment.get("Machine", "m2").await, PRE_TERMINATE));
    environment.command(serde_json::json!({"release": ""}));
    environment.cluster_api.delete("Cluster", "c1").await;
    environment.until_gone("Cluster", "c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observing_says_what_it_would_hold_and_holds_nothing() {
    let (mut environment, _m0) = held_and_joining("mode-observe", "127.94.0.0/24").await;
    environment.settings.mode = GateMode::Observe;
    environment.start().await;
    environment.until_gone("Machine", "m0").await;
    until_enabled(&environment, "m1").await;
    // The admission gate only reports: the condition is False, and the machine counts as provisioned.
    environment.command(serde_json::json!({"hold": {"member": "-m2", "status": "PENDING_CREATE"}}));
    create(&environment, "m2").await;
    environment
        .until_object("OpenStackMachine", "m2", |machine| {
            let (status, reason, message) = gate(machine);
            is_provisioned(machine)
                && (status, reason) == ("False", "MemberPending")
                && (message.contains("only observes") || message.contains("PENDING_CREATE"))
        })
        .await;
    environment.command(serde_json::json!({"release": ""}));
    let m2 = environment
        .until_object("Machine", "m2", |machine| {
            machine["status"]["nodeRef"].is_object()
        })
        .await;
    assert!(!has(&m2, PRE_TERMINATE), "no hook is put");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observing_says_that_a_release_would_be_held() {
    let mut environment = Environment::in_namespace("mode-observe-release")
        .start()
        .await;
    environment.settings.mode = GateMode::Observe;
    environment.stop().await;
    environment.start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    for name in ["m0", "m1"] {
        create(&environment, name).await;
        environment
            .until_object("Machine", name, |machine| {
                machine["status"]["nodeRef"].is_object()
            })
            .await;
    }
    operating(&environment, "m1", "ERROR").await;
    until_seen(&environment, "m1", "ERROR").await;
    // Nova refuses the deletion of the server until the test has read the objects.
    let refused = serde_json::json!({"match": {"label": "server_delete"}, "status": 409});
    let refused = environment.command(serde_json::json!({"fault": refused}))["id"].clone();
    environment.cluster_api.delete("Machine", "m0").await;
    let going = environment
        .until_object("OpenStackMachine", "m0", |machine| {
            machine.is_null() || gate(machine).2.contains("release gate only observes")
        })
        .await;
    let (_, _, message) = gate(&going);
    assert!(
        message.contains("No other member is known to serve port 6443"),
        "{message}"
    );
    environment.command(serde_json::json!({"remove_fault": refused}));
    environment.until_gone("Machine", "m0").await;
}

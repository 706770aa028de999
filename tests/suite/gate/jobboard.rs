//! With amphorav2 there may be a jobboard: another worker resumes an operation whose worker has died, while the load
//! balancer is ACTIVE.

use std::time::{Duration, Instant};

use capo_core::ProvisioningStatus;
use capo_gate::Settings;
use fake_cloud::Provisioning;
use serde_json::{Value, json};

use super::control_plane::{
    balancer_name, cluster, create, is_deep, is_provisioned, join, member, member_writes,
    until_enabled, until_held,
};
use test_support::{
    env::{Environment, environment::quick_gate},
    waiting::{PATIENCE, until},
};

/// The age from which on no worker is expected to resume the operation.
const ALERT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphaned_member_is_not_touched_before_the_alert_threshold() {
    let mut settings = quick_gate();
    settings.warn_after = Duration::from_secs(2);
    settings.alert_after = ALERT;
    let environment = Environment::in_namespace("jobboard")
        .gate(settings)
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphorav2").await;
    join(&environment, &["m0"]).await;
    // Another worker resumes the operation in time.
    let before = environment.cloud.control().last_call();
    environment.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    create(&environment, "m1").await;
    let profile = "PENDING_CREATE (provider profile amphorav2)";
    until_held(&environment, "m1", "MemberPending", &[profile]).await;
    // With another provider the operation would count as lost by now.
    let held = environment.cloud.control().last_call();
    until("three more reads", async || {
        let calls = environment.cloud.control().calls_since(held).into_iter();
        let trees = calls.filter(|call| call.label == "loadbalancer_status_tree");
        (trees.count() >= 3).then_some(())
    })
    .await;
    environment.command(json!({"release": "-m1"}));
    environment
        .until_provisioned("OpenStackMachine", "m1")
        .await;
    let methods = |since| -> Vec<String> {
        let writes = member_writes(&environment, since);
        writes.into_iter().map(|call| call.method).collect()
    };
    assert!(!methods(before).contains(&"DELETE".to_owned()));
    let names_the_provider =
        |object: &Value| object.to_string().contains("provider profile amphorav2");
    environment
        .until_object("OpenStackMachine", "m1", names_the_provider)
        .await;

    // No worker resumes it.
    let before = environment.cloud.control().last_call();
    environment.command(json!({"hold": {"member": "-m2", "status": "PENDING_CREATE"}}));
    create(&environment, "m2").await;
    let deleted = until("the orphaned member is deleted", async || {
        let mut writes = member_writes(&environment, before).into_iter();
        writes.find(|call| call.method == "DELETE")
    })
    .await;
    // The write before it may be the one that enables the second member.
    let mut writes = member_writes(&environment, before).into_iter();
    let created = writes.find(|call| call.method == "POST").unwrap();
    assert!(deleted.at - created.at >= ALERT.as_secs_f64());
    environment.command(json!({"release": "-m2"}));
    environment
        .until_provisioned("OpenStackMachine", "m2")
        .await;
    environment.cluster_api.delete("Cluster", "c1").await;
    environment.until_gone("Cluster", "c1").await;
}

/// The settings, and the seconds from the death of the worker until the operation is resumed. `make deep` takes the
/// shipped settings and five minutes.
fn resumed() -> (Settings, u64) {
    if is_deep() {
        return (Settings::default(), 300);
    }
    let settings = Settings {
        warn_after: Duration::from_secs(2),
        alert_after: ALERT,
        ..quick_gate()
    };
    (settings, 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_another_worker_resumes_is_not_repeated() {
    let (settings, after) = resumed();
    let environment = Environment::in_namespace("resumed")
        .gate(settings)
        .shipped_client()
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphorav2").await;
    join(&environment, &["m0"]).await;
    let before = environment.cloud.control().last_call();
    environment.command(json!({"operation": {
        "operation": "member-create", "name": "-m1", "anomaly": "resumed-later", "gap": after, "count": 1,
    }}));
    create(&environment, "m1").await;
    until("only the member is PENDING", async || {
        let found = member(&environment, "m1").await?;
        assert_eq!(found.provisioning_status, ProvisioningStatus::PendingCreate);
        let (_, balancers) = environment
            .cloud
            .control()
            .load_balancers(&balancer_name(&environment));
        let (balancer, _) = balancers.first()?;
        let pools = balancer.pools.iter().map(|pool| &pool.head);
        let mut heads = pools.chain([&balancer.head]);
        let is_active = heads.all(|head| head.provisioning == Provisioning::Active);
        is_active.then_some(())
    })
    .await;
    let begun = Instant::now();
    let patience = Duration::from_secs(after) + PATIENCE;
    let admitted = environment
        .cluster_api
        .wait_for("OpenStackMachine", "m1", patience, is_provisioned)
        .await;
    let took = begun.elapsed();
    assert!(admitted.is_ok(), "{admitted:?}");
    assert!(took.as_secs() + 2 >= after, "was resumed after {took:?}");
    println!("resumed after {after} s, and admitted after {took:.0?}");
    until_enabled(&environment, "m1").await;
    let writes = member_writes(&environment, before).into_iter();
    let writes: Vec<String> = writes.map(|call| call.method).collect();
    // The second write enables the member.
    assert_eq!(writes, ["POST", "PUT"]);
}

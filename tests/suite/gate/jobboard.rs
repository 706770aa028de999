//! amphorav2 may have a jobboard: an operation whose worker died is resumed by another one under an ACTIVE load balancer.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{cluster, create, is_provisioned, join, member_writes, until_held};
use test_support::{
    env::{Environment, environment::quick_gate},
    waiting::until,
};

/// The age from which on no worker is expected to resume the operation.
const ALERT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphaned_member_is_not_touched_before_the_alert_threshold() {
    let mut settings = quick_gate();
    settings.warn_after = Duration::from_secs(2);
    settings.alert_after = ALERT;
    let stage = Environment::in_namespace("jobboard")
        .gate(settings)
        .start()
        .await;
    cluster(&stage, "10.6.0.0/24", "amphorav2").await;
    join(&stage, &["m0"]).await;
    // Another worker resumes the operation in time.
    let before = stage.cloud.control().last_call();
    stage.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    create(&stage, "m1").await;
    let profile = "PENDING_CREATE (provider profile amphorav2)";
    until_held(&stage, "m1", "MemberPending", &[profile]).await;
    // With another provider the operation would count as lost by now.
    let held = stage.cloud.control().last_call();
    until("three more reads", async || {
        let calls = stage.cloud.control().calls_since(held).into_iter();
        let trees = calls.filter(|call| call.label == "loadbalancer_status_tree");
        (trees.count() >= 3).then_some(())
    })
    .await;
    stage.command(json!({"release": "-m1"}));
    stage.until("OpenStackMachine", "m1", is_provisioned).await;
    let methods = |since| -> Vec<String> {
        let writes = member_writes(&stage, since);
        writes.into_iter().map(|call| call.method).collect()
    };
    assert!(!methods(before).contains(&"DELETE".to_owned()));
    let names_the_provider =
        |object: &Value| object.to_string().contains("provider profile amphorav2");
    stage
        .until("OpenStackMachine", "m1", names_the_provider)
        .await;

    // No worker resumes it.
    let before = stage.cloud.control().last_call();
    stage.command(json!({"hold": {"member": "-m2", "status": "PENDING_CREATE"}}));
    create(&stage, "m2").await;
    let deleted = until("the orphaned member is deleted", async || {
        let mut writes = member_writes(&stage, before).into_iter();
        writes.find(|call| call.method == "DELETE")
    })
    .await;
    // The write before it may be the one that enables the second member.
    let mut writes = member_writes(&stage, before).into_iter();
    let created = writes.find(|call| call.method == "POST").unwrap();
    assert!(deleted.at - created.at >= ALERT.as_secs_f64());
    stage.command(json!({"release": "-m2"}));
    stage.until("OpenStackMachine", "m2", is_provisioned).await;
    stage.cluster_api.delete("Cluster", "c1").await.unwrap();
    stage.until("Cluster", "c1", Value::is_null).await;
}

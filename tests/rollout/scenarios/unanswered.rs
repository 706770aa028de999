//! Octavia answers slowly, or not at all.

use std::time::Duration;

use serde_json::{Value, json};

use super::{complete, stays_hooked};
use crate::{invariants::Promises, rollout::RolloutOptions};

/// Every call to Octavia takes 8 s, longer than a read of the load balancer used to count. A release by reading needs
/// several of them, and ends nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_ends_though_every_answer_of_octavia_takes_8_s() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "slow-octavia",
        ..RolloutOptions::default()
    })
    .await;
    let leaving = rollout.machines().await.remove(0);
    rollout.breaks(json!({"fault": {"match": {"service": "load-balancer"}, "delay": 8}}));
    rollout.delete("Machine", &leaving).await;
    rollout
        .until_object("Machine", &leaving, "is gone", Value::is_null)
        .await;
    rollout.mends(json!({"clear": "faults"}));
    rollout.until_complete().await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!(figures.failed, 0);
}

/// The manager does not know whether there is a load balancer, because Octavia has not answered this process yet. This
/// differs from having no load balancer, so the Machine is held until Octavia answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_that_was_not_looked_up_yet_is_not_absent() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "unknown",
        ..RolloutOptions::default()
    })
    .await;
    let leaving = rollout.machines().await.remove(0);
    rollout.breaks(json!({"fault": {"match": {"service": "load-balancer"}, "status": 503}}));
    rollout.start_manager(&[]).await;
    rollout.delete("Machine", &leaving).await;
    rollout.until_deleting(&leaving).await;
    stays_hooked(&rollout, &leaving, Duration::from_secs(15)).await;
    rollout.mends(json!({"clear": "faults"}));
    rollout
        .until_object("Machine", &leaving, "is gone", Value::is_null)
        .await;
    rollout.until_complete().await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!(figures.failed, 0);
}

//! New members that Octavia does not provision, under a load balancer that it calls ACTIVE.

use std::time::Duration;

use serde_json::json;

use super::{THRESHOLDS, assert_calls, complete, standing, until_stuck};
use crate::{invariants::Promises, rollout::RolloutOptions};

/// The reported failure: the second new member stays PENDING_CREATE. The rollout stands still until it is ACTIVE.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_member_holds_the_rollout() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "held-pending",
        arguments: THRESHOLDS.to_vec(),
        ..RolloutOptions::default()
    })
    .await;
    let mut known = rollout.machines().await;
    rollout.roll().await;
    let first = rollout.machine_after(&known).await;
    known.push(first.clone());
    rollout.until_admitted(&first).await;
    let second = rollout.machine_after(&known).await;
    rollout.breaks(json!({"hold": {"member": second, "status": "PENDING_CREATE"}}));
    // The infrastructure of the cluster stays ready although a member is not, because otherwise Cluster API would call
    // the Cluster unavailable.
    let before = standing(&rollout).await;
    rollout
        .stays_held(&second, "MemberPending", Duration::from_secs(30))
        .await;
    until_stuck(&rollout).await;
    assert_eq!(standing(&rollout).await, before);
    rollout.mends(json!({"release": ""}));
    rollout.until_complete().await;
    assert_calls(&proof.end(rollout, &Promises::default()).await, 1);
}

/// Every new member's creation fails once, and is repaired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_in_error_are_repaired_one_after_the_other() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "held-error",
        ..RolloutOptions::default()
    })
    .await;
    let mut known = rollout.machines().await;
    let old = known.len();
    rollout.roll().await;
    while known.len() < 2 * old {
        rollout
            .breaks(json!({"operation": {"operation": "member-create", "fail": true, "count": 1}}));
        let new = rollout.machine_after(&known).await;
        rollout.until_failed(&new).await;
        rollout.mends(json!({"clear": "operations"}));
        rollout.until_admitted(&new).await;
        known.push(new);
    }
    rollout.until_complete().await;
    proof.end(rollout, &Promises::default()).await;
}

/// If there are several API ports, a pending member of any port holds the rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_member_of_another_port_holds_the_rollout() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "held-port",
        more_ports: vec![8132, 8133],
        ..RolloutOptions::default()
    })
    .await;
    let known = rollout.machines().await;
    rollout.roll().await;
    let new = rollout.machine_after(&known).await;
    let member = format!("kubeapi-8133-{new}");
    rollout.breaks(json!({"hold": {"member": member, "status": "PENDING_CREATE"}}));
    rollout
        .stays_held(&new, "MemberPending", Duration::from_secs(15))
        .await;
    rollout.mends(json!({"release": ""}));
    rollout.until_complete().await;
    assert_calls(&proof.end(rollout, &Promises::of_ports(3)).await, 3);
}

/// The new member is ACTIVE when its machine is admitted, and in ERROR when the old machine is to be deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_fails_later_holds_the_old_machine() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "held-later",
        replicas: 1,
        arguments: THRESHOLDS.to_vec(),
        ..RolloutOptions::default()
    })
    .await;
    let known = rollout.machines().await;
    let old = known.first().unwrap().clone();
    let before = standing(&rollout).await;
    rollout.roll().await;
    let new = rollout.machine_after(&known).await;
    rollout.until_admitted(&new).await;
    rollout.breaks(json!({"hold": {"member": new, "status": "ERROR", "now": true}}));
    rollout.until_deleting(&old).await;
    rollout
        .stays_held(&old, "NoOtherMemberServing", Duration::from_secs(20))
        .await;
    assert!(rollout.machines.alive().contains_key(&old), "{old} is dead");
    // The Cluster also stays available while a release is held.
    assert_eq!(standing(&rollout).await, before);
    rollout.mends(json!({"release": ""}));
    rollout.until_complete().await;
    assert_eq!(rollout.machines().await, [new]);
    proof.end(rollout, &Promises::default()).await;
}

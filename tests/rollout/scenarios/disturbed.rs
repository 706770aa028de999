//! Other clients change the load balancer and the objects of capo-rs during a rollout.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{complete, stays_hooked};
use crate::{
    env::cluster_api::{condition, is_provisioned},
    invariants::Promises,
    rollout::proof::Proof,
    rollout::{HOOK, Rollout, RolloutOptions},
};

/// Another program deletes the load balancer. It is created again at the same address with every member. In the
/// meantime no machine is let go, not even one that is deleted by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_load_balancer_is_created_again() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "balancer-lost",
        ..RolloutOptions::default()
    })
    .await;
    let endpoint = rollout.endpoint().await;
    let machines = rollout.machines().await;
    // Requests fail for a while, because another program has deleted the load balancer.
    rollout.breaks(json!({"operation": {"operation": "load-balancer-create", "duration": 15}}));
    rollout.foreign_client().await.delete_load_balancer().await;
    let victim = machines.first().unwrap();
    rollout.delete("Machine", victim).await;
    rollout
        .until_object(
            "OpenStackCluster",
            &rollout.cluster,
            "is not ready",
            |cluster| condition(cluster, "Ready").is_some_and(|(is, ..)| is == "False"),
        )
        .await;
    stays_hooked(&rollout, victim, Duration::from_secs(10)).await;
    rollout.mends(json!({"clear": "operations"}));
    rollout
        .until_object("Machine", victim, "is gone", Value::is_null)
        .await;
    rollout.until_complete().await;
    assert_eq!(rollout.endpoint().await, endpoint);
    let promises = Promises {
        served: false,
        ..Promises::default()
    };
    proof.end(rollout, &promises).await;
}

/// Another program changes the load balancer all the time, so that it is PENDING_UPDATE more often than not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_that_others_keep_busy() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "busy",
        ..RolloutOptions::default()
    })
    .await;
    let storm = rollout
        .foreign_client()
        .await
        .keep_busy(Duration::from_millis(1500));
    rollout.roll().await;
    rollout.until_complete().await;
    drop(storm);
    proof.end(rollout, &Promises::default()).await;
}

/// Machines that were created while the gate was off get hooks when it is switched on. A machine that is being deleted
/// at that time gets none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_from_before_the_gate_get_hooks() {
    let rollout = Rollout::start(RolloutOptions {
        name: "upgrade",
        arguments: vec!["--load-balancer-gate=off"],
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    let machines = rollout.machines().await;
    let leaving = machines.first().unwrap();
    for machine in rollout.list("Machine").await {
        assert!(machine["metadata"]["annotations"][HOOK].is_null());
    }
    rollout.kill_manager().await;
    rollout.delete("Machine", leaving).await;
    rollout
        .start_manager(&["--load-balancer-gate=enforce"])
        .await;
    for machine in machines.iter().skip(1) {
        rollout
            .until_object("Machine", machine, "has our hook", |machine| {
                machine["metadata"]["annotations"][HOOK].is_string()
            })
            .await;
    }
    rollout
        .until_object("Machine", leaving, "is gone", |machine| {
            assert!(
                machine["metadata"]["annotations"][HOOK].is_null(),
                "hooked while it is deleted: {machine:#}"
            );
            machine.is_null()
        })
        .await;
    rollout.until_complete().await;
    // The proof begins only here, because requests may fail when a machine without a hook goes.
    let proof = Proof::begin(&rollout).await;
    rollout.roll().await;
    rollout.until_complete().await;
    // The first machines were let in without the gate.
    let promises = Promises {
        gate: false,
        ..Promises::default()
    };
    proof.end(rollout, &promises).await;
}

/// The status of a machine is wiped while one member is in ERROR. A machine that Cluster API has admitted is
/// provisioned again at once, and nothing changes in the cloud.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_status_comes_back_at_once() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "wiped",
        ..RolloutOptions::default()
    })
    .await;
    let machines = rollout.machines().await;
    let victim = machines.first().unwrap();
    rollout.breaks(json!({"hold": {"member": victim, "status": "ERROR", "now": true}}));
    // A settled load balancer is read every 5 min, and a manager reads it at its start.
    rollout.start_manager(&[]).await;
    rollout.until_seen(victim, "MemberError").await;
    for machine in &machines {
        rollout.wipe_status("OpenStackMachine", machine).await;
    }
    let begun = Instant::now();
    for machine in &machines {
        rollout
            .until_object(
                "OpenStackMachine",
                machine,
                "is provisioned",
                is_provisioned,
            )
            .await;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "it took {:?}",
        begun.elapsed()
    );
    rollout.mends(json!({"release": ""}));
    rollout.roll().await;
    rollout.until_complete().await;
    proof.end(rollout, &Promises::default()).await;
}

//! Deletions by hand, which only the gate checks, and their effect on the other machines.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::complete;
use crate::{
    env::cluster_api::condition,
    invariants::Promises,
    rollout::proof::Proof,
    rollout::{HOOK, Rollout, RolloutOptions, name_of},
};

const GATE: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate";

/// All three Machines are deleted at once. Two are let go one after the other. The third is held and serves until the
/// deletion of the whole Cluster lets it go. KubeadmControlPlane keeps its own hook on all three, because no machine is
/// left that it calls healthy, so no API server dies before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_machines_deleted_at_once_the_last_stays() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "all-deleted",
        ..RolloutOptions::default()
    })
    .await;
    for machine in rollout.machines().await {
        rollout.delete("Machine", &machine).await;
    }
    let last = rollout
        .until_some("one Machine is not let go", async || {
            let machines = rollout.list("Machine").await;
            let mut kept = machines
                .iter()
                .filter(|machine| machine["metadata"]["annotations"][HOOK].is_string());
            let last = kept.next()?;
            kept.next().is_none().then(|| name_of(last).to_owned())
        })
        .await;
    rollout
        .stays_held(&last, "NoOtherMemberServing", Duration::from_secs(20))
        .await;
    assert_eq!(rollout.machines.alive().len(), 3, "an API server died");
    let held = rollout.get("OpenStackMachine", &last).await.unwrap();
    let (_, _, message) = condition(&held, "APIServerLoadBalancerReady").unwrap();
    assert!(message.contains("bypass"), "no way out is named: {message}");
    proof.end(rollout, &Promises::default()).await;
}

/// While one deletion is held, KubeadmControlPlane looks at no other machine, until an operator ends the hold. With
/// external etcd KubeadmControlPlane then defers the remediation of the other machine for good, so the test ends there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_deletion_freezes_the_remediation_of_others() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "frozen",
        ..RolloutOptions::default()
    })
    .await;
    rollout.health_check(600).await;
    let machines = rollout.machines().await;
    let [held, sick, _] = machines.as_slice() else {
        panic!("{machines:?}")
    };
    rollout
        .patch(
            "OpenStackMachine",
            held,
            json!({"metadata": {"annotations": {GATE: "hold reason=change freeze"}}}),
        )
        .await;
    rollout.delete("Machine", held).await;
    rollout.until_held(held, "OperatorHold").await;
    rollout
        .patch(
            "Machine",
            sick,
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}}),
        )
        .await;
    let remediated = |machine: &Value| {
        condition(machine, "OwnerRemediated").map(|(_, reason, _)| reason.to_owned())
    };
    let asked = rollout
        .until_object("Machine", sick, "is to be remediated", |machine| {
            remediated(machine).is_some()
        })
        .await;
    let frozen = remediated(&asked);
    rollout
        .stays_held(held, "OperatorHold", Duration::from_secs(30))
        .await;
    let still = rollout.get("Machine", sick).await.unwrap();
    assert_eq!(
        remediated(&still),
        frozen,
        "KubeadmControlPlane looked at it"
    );
    let message = rollout.get("OpenStackMachine", held).await.unwrap();
    let (_, _, message) = condition(&message, "APIServerLoadBalancerReady").unwrap();
    assert!(
        message.contains("KubeadmControlPlane") || message.contains("control plane"),
        "who waits is not named: {message}"
    );
    rollout
        .patch(
            "OpenStackMachine",
            held,
            json!({"metadata": {"annotations": {GATE: null}}}),
        )
        .await;
    rollout
        .until_object("Machine", held, "is gone", Value::is_null)
        .await;
    rollout
        .until_object("Machine", sick, "is looked at", |machine| {
            remediated(machine) != frozen
        })
        .await;
    proof.end(rollout, &Promises::default()).await;
}

/// A machine whose API server has died is deleted by hand, which is what a remediation does: the other machines serve,
/// so it is let go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_machine_is_let_go_and_replaced() {
    let rollout = Rollout::start(RolloutOptions {
        name: "dead",
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    let machines = rollout.machines().await;
    let dead = machines.first().unwrap();
    // The requests that the API server was answering fail with it, so the client starts only after that.
    rollout.machines.crash(dead);
    let proof = Proof::begin(&rollout).await;
    rollout.delete("Machine", dead).await;
    rollout
        .until_object("Machine", dead, "is gone", Value::is_null)
        .await;
    rollout.until_complete().await;
    assert!(!rollout.machines().await.contains(dead));
    // Its member takes connections until the health monitor has noticed the crash.
    let promises = Promises {
        prompt: false,
        ..Promises::default()
    };
    proof.end(rollout, &promises).await;
}

/// The same while the members of the others are in ERROR, so that the gate can't tell whether any of them serves. The
/// deletion of the dead machine makes nothing worse, so KubeadmControlPlane replaces it, and no operator has to bypass
/// the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_machine_is_let_go_though_the_members_of_the_others_are_in_error() {
    let rollout = Rollout::start(RolloutOptions {
        name: "dead-error",
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    let machines = rollout.machines().await;
    let (dead, others) = machines.split_first().unwrap();
    rollout.machines.crash(dead);
    let crashed = Instant::now();
    rollout
        .until_some("the dead API server is unhealthy", async || {
            let machine = rollout.get("Machine", dead).await?;
            if condition(&machine, "APIServerPodHealthy").is_some_and(|(is, ..)| is == "False") {
                return Some(());
            }
            // KubeadmControlPlane watches no Pods, so without this change it would look at them only after ten minutes.
            let waited = crashed.elapsed().as_millis().to_string();
            let touched = json!({"metadata": {"annotations": {"waited": waited}}});
            rollout
                .patch("KubeadmControlPlane", &rollout.cluster, touched)
                .await;
            None
        })
        .await;
    for other in others {
        rollout.breaks(json!({"hold": {"member": other, "status": "ERROR", "now": true}}));
    }
    // A settled load balancer is read every 5 min, and a manager reads it at its start.
    rollout.start_manager(&[]).await;
    for other in others {
        rollout.until_seen(other, "MemberError").await;
    }
    let proof = Proof::begin(&rollout).await;
    rollout.delete("Machine", dead).await;
    rollout
        .until_object("Machine", dead, "is gone", Value::is_null)
        .await;
    let new = rollout.machine_after(&machines).await;
    rollout.until_admitted(&new).await;
    rollout.mends(json!({"release": ""}));
    rollout.until_complete().await;
    // The rule of release requires another machine that serves, and here none can be proved to serve.
    let promises = Promises {
        excused: vec![dead.clone()],
        ..Promises::default()
    };
    let figures = proof.end(rollout, &promises).await;
    assert_eq!(figures.failed, 0);
}

/// A control plane is scaled from three machines to one. The machines are deleted one after the other, and the member
/// of the last one is never changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_become_one() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "scale-down",
        ..RolloutOptions::default()
    })
    .await;
    let before = rollout.machines().await;
    rollout
        .patch(
            "KubeadmControlPlane",
            &rollout.cluster,
            json!({"spec": {"replicas": 1}}),
        )
        .await;
    rollout.until_complete().await;
    let after = rollout.machines().await;
    assert_eq!(after.len(), 1);
    let survivor = after.first().unwrap();
    assert!(before.contains(survivor));
    assert_eq!(
        rollout.machines.alive().into_keys().collect::<Vec<_>>(),
        after
    );
    proof.end(rollout, &Promises::default()).await;
}

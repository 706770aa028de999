//! API servers that live longer than their Machines are held.

use serde_json::{Value, json};

use super::complete;
use crate::{
    invariants::Promises,
    rollout::{HOOK, Rollout, RolloutOptions},
};

/// The hook of another program. It keeps a machine that nothing else holds any more.
const ANOTHER_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup";

/// Our hook is removed and the old API server lives on, because the hook of another program holds its Machine. Then the
/// new member fails. The old member is created again, and is removed when the new one serves again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_created_again_after_the_hook_while_no_other_one_serves() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "after-hook",
        replicas: 1,
        ..RolloutOptions::default()
    })
    .await;
    let old = rollout.machines().await.remove(0);
    annotate(&rollout, &old, json!("backup")).await;
    rollout.roll().await;
    let new = rollout.machine_after(std::slice::from_ref(&old)).await;
    rollout.until_admitted(&new).await;
    rollout
        .until_object("Machine", &old, "is without our hook", |machine| {
            machine["metadata"]["annotations"][HOOK].is_null()
        })
        .await;
    assert!(!has_member(&rollout, &old));
    // The member still works, but its status does not show that.
    rollout.breaks(json!({"hold": {"member": new, "status": "ERROR", "now": true}}));
    rollout
        .until_some("the member is created again", async || {
            has_member(&rollout, &old).then_some(())
        })
        .await;
    assert!(rollout.machines.alive().contains_key(&old));
    rollout.mends(json!({"release": ""}));
    rollout
        .until_some("the member is removed again", async || {
            (!has_member(&rollout, &old)).then_some(())
        })
        .await;
    annotate(&rollout, &old, Value::Null).await;
    rollout
        .until_object("Machine", &old, "is gone", Value::is_null)
        .await;
    rollout.until_complete().await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!(figures.failed, 0);
}

async fn annotate(rollout: &Rollout, machine: &str, value: Value) {
    let patch = json!({"metadata": {"annotations": {ANOTHER_HOOK: value}}});
    rollout.patch("Machine", machine, patch).await;
}

fn has_member(rollout: &Rollout, machine: &str) -> bool {
    let name = format!(
        "k8s-clusterapi-cluster-{}-{}-kubeapi",
        rollout.namespace, rollout.cluster
    );
    let (_, balancers) = rollout.cloud.control().load_balancers(&name);
    let pools = balancers.iter().flat_map(|(balancer, _)| &balancer.pools);
    pools
        .flat_map(|pool| &pool.members)
        .any(|member| member.head.name.ends_with(&format!("-{machine}")))
}

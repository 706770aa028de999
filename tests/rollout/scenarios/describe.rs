//! `clusterctl describe` while a rollout is held: its output shows the reason.

use std::process::Command;

use serde_json::json;

use crate::{
    env::programs,
    rollout::management_cluster::ManagementCluster,
    rollout::{Rollout, RolloutOptions},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_of_a_hold_is_on_the_screen() {
    let rollout = Rollout::start(RolloutOptions {
        name: "describe",
        replicas: 1,
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    let known = rollout.machines().await;
    rollout.roll().await;
    let new = rollout.machine_after(&known).await;
    rollout.breaks(json!({"hold": {"member": new, "status": "PENDING_CREATE"}}));
    rollout.until_held(&new, "MemberPending").await;
    let kubeconfig = ManagementCluster::shared()
        .await
        .kubernetes
        .admin_kubeconfig();
    let describe = |more: &[&str]| {
        let output = Command::new(programs::clusterctl().unwrap())
            .args([
                "describe",
                "cluster",
                &rollout.cluster,
                "-n",
                &rollout.namespace,
            ])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(more)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).unwrap()
    };
    // Without options, the machine's line shows what the machine waits for.
    let plain = rollout
        .until_some("clusterctl describe shows the hold", async || {
            let text = describe(&[]);
            text.contains("PENDING_CREATE").then_some(text)
        })
        .await;
    println!("{plain}");
    assert!(plain.contains("APIServerLoadBalancerReady"), "{plain}");
    // With the conditions, the line also shows the reason.
    let whole = describe(&["--show-conditions=all", "--echo"]);
    println!("{whole}");
    let mut lines = whole.lines();
    let is_shown = lines
        .any(|line| line.contains("APIServerLoadBalancerReady") && line.contains("MemberPending"));
    assert!(is_shown, "{whole}");
    rollout.mends(json!({"release": ""}));
    rollout.until_complete().await;
    rollout.end().await;
}

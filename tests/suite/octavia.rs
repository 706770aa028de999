//! What Octavia may do wrong: one scenario of each kind, and none that waits for a minute. `tests/rollout` runs all of
//! them.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn untrue_statuses_are_noticed_held_and_repaired() {
    crate::anomalies::play(&[
        "failed-create",
        "lost-create",
        "database-outage",
        "failed-additive-batch",
        "push-swallowed",
        "early-active",
        "certificate-error",
        "stale-reads",
        "ovn-early",
        "health-check",
        "hold-bypass",
        "stuck-create",
    ])
    .await;
}

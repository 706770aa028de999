//! What Octavia may do wrong: one scenario of each kind, and none that waits for a minute. `tests/rollout` runs all of them.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn untrue_statuses_are_noticed_held_and_repaired() {
    crate::anomalies::play(&[
        "a-create",
        "c-create",
        "d-outage",
        "f-additive",
        "g-swallowed",
        "k-early",
        "m-certificate",
        "n-stale",
        "ovn-early",
        "health-check",
        "hold-bypass",
        "stuck-create",
    ])
    .await;
}

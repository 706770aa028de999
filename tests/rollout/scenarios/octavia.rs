//! Everything that Octavia may do wrong, with a scripted Cluster API.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_untrue_statuses_are_noticed_held_and_repaired() {
    crate::anomalies::play(&[]).await;
}

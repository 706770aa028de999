//! Everything that Octavia does wrong, with a scripted Cluster API.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_its_lies_are_seen_held_and_repaired() {
    crate::anomalies::play(&[]).await;
}

//! What operators see: the command line, events, kube-state-metrics, Argo CD, the ClusterOperator, and no secrets.

mod argo;
mod cli;
mod cluster_operator;
mod log;
mod manifests;
mod release;
mod secrets;
mod state_metrics;
mod templates;

use std::time::{Duration, Instant};

use crate::whole::stage::PATIENCE;

/// What `look` finds, as soon as it finds something.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not seen: {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

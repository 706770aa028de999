//! What a cluster costs: calls are counted, Octavia's polled operations included.

use fake_cloud::{Durations, Options};
use serde_json::json;
use test_support::env::Environment;

/// The most calls that make a cluster Ready.
const MOST_CALLS: usize = 30;
/// The most of them that change something.
const MOST_WRITES: usize = 14;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creating_a_cluster_takes_few_calls() {
    let options = Options {
        durations: Durations {
            load_balancer_create: 4.0,
            operation: 0.5,
            ..Durations::instant()
        },
        data_path: false,
        ..Options::default()
    };
    let stage = Environment::in_namespace("cluster-calls")
        .cloud(options)
        .gate(capo_gate::Settings::default())
        .start()
        .await;
    let infrastructure = stage.cluster("c1", json!({"tags": null}));
    stage
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await
        .unwrap();
    stage.until_ready("c1").await;
    let calls = stage.cloud.control().calls_since(0);
    let counted: Vec<String> = calls
        .into_iter()
        .filter(|call| call.label != "token_create" && call.label != "version")
        .map(|call| format!("{} {}", call.method, call.label))
        .collect();
    let writes = counted
        .iter()
        .filter(|call| !call.starts_with("GET "))
        .count();
    assert!(
        counted.len() <= MOST_CALLS && writes <= MOST_WRITES,
        "{} calls, {writes} writes: {counted:#?}",
        counted.len()
    );
    stage.delete("c1").await;
}

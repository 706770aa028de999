//! The manager's process is stopped while the API server waits for the answer to a review.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use test_support::waiting::{PATIENCE, until_true};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::listener::{connect_to, conversion};
use crate::env::{Installation, Kubernetes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_manager_answers_the_review_that_it_has_begun() {
    // The test needs an API server of its own, because the name of the Lease is fixed.
    let (kubernetes, installation) = Installation::in_new_cluster().await.unwrap();
    stopped_in_the_middle_of_a_review(&kubernetes, &installation, "Leading").await;

    // The leader has released its lease, and another holder keeps the next manager waiting.
    let leases: Api<Lease> = Api::namespaced(kubernetes.admin().await.unwrap(), "capo-system");
    let held = json!({"spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}});
    let name = "controller-leader-election-capo";
    leases
        .patch(name, &PatchParams::default(), &Patch::Merge(held))
        .await
        .unwrap();
    stopped_in_the_middle_of_a_review(&kubernetes, &installation, "Waiting for the leader lease")
        .await;
}

/// Starts a manager, waits until it has logged `state`, and stops it when it has half of a review.
async fn stopped_in_the_middle_of_a_review(
    kubernetes: &Kubernetes,
    installation: &Installation,
    state: &str,
) {
    let folder = kubernetes.folder().join(state);
    std::fs::create_dir_all(&folder).unwrap();
    let mut manager = installation
        .ready_manager(&folder, &["--leader-elect"])
        .await
        .unwrap();
    manager.until_logged(state).await.unwrap();

    let address = format!("127.0.0.1:{}", installation.webhook_port);
    let body = conversion(&json!([])).to_string();
    let (first, rest) = body.split_at(1);
    let mut open = connect_to(&address, kubernetes.authority()).await.unwrap();
    let begin = format!(
        "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{first}",
        body.len()
    );
    open.write_all(begin.as_bytes()).await.unwrap();
    open.flush().await.unwrap();
    until_true("the review has begun", async || {
        let in_flight = "controller_runtime_webhook_requests_in_flight{webhook=\"/convert\"} 1";
        manager.metrics().await.contains(in_flight)
    })
    .await;

    manager.process.signal("TERM").unwrap();
    until_true("no connection is accepted any more", async || {
        TcpStream::connect(&address).await.is_err()
    })
    .await;
    let sent = open.write_all(rest.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = open.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 200 "),
        "{state}: {sent:?} {answer:?}"
    );
    assert!(manager.process.wait(PATIENCE).unwrap().success(), "{state}");
}

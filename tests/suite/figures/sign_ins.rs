//! The number of sign-ins with one credential.

use fake_cloud::{Durations, FakeCloud, Options};
use test_support::waiting::until_true;

use super::measured_environment::{MeasuredEnvironment, Plan};

const CLUSTERS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_clusters_sign_in_once_at_a_cold_start() {
    let cloud = FakeCloud::start(Options {
        durations: Durations::instant(),
        data_path: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let control = cloud.control();
    let count = |label: &str| {
        let calls = control.calls_since(0);
        calls.iter().filter(|call| call.label == label).count()
    };
    let mut environment = MeasuredEnvironment::without_manager().await;
    // The manager's webhooks are needed to create the objects. Without credentials it does nothing else.
    environment.start(&[]).await;
    for index in 0..CLUSTERS {
        environment
            .cluster(Plan {
                name: &format!("cold-{index}"),
                credentials: "shared",
                provider: "amphora",
                additional_ports: &[],
            })
            .await;
    }
    environment.stop().await;
    assert_eq!(control.calls_since(0).len(), 0);
    environment
        .credentials("shared", &cloud.clouds_yaml())
        .await;

    let quick = ["--openstack-qps=1000", "--openstack-burst=1000"];
    environment.start(&quick).await;
    until_true("every cluster asked for its load balancer", async || {
        count("loadbalancer_create") == CLUSTERS
    })
    .await;
    assert_eq!(count("token_create"), 1);
    environment.stop().await;
}

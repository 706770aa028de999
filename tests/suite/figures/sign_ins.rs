//! The number of sign-ins with one credential.

use fake_cloud::{Durations, FakeCloud, Options};
use test_support::waiting::until_true;

use super::scene::{Plan, Scene};

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
    let mut scene = Scene::set().await;
    // The manager's webhooks are needed to create the objects. Without credentials it does nothing else.
    scene.start(&[]).await;
    for index in 0..CLUSTERS {
        scene
            .cluster(Plan {
                name: &format!("cold-{index}"),
                credentials: "shared",
                provider: "amphora",
                additional_ports: &[],
            })
            .await;
    }
    scene.stop().await;
    assert_eq!(control.calls_since(0).len(), 0);
    scene.credentials("shared", &cloud).await;

    let quick = ["--openstack-qps=1000", "--openstack-burst=1000"];
    scene.start(&quick).await;
    until_true("every cluster asked for its load balancer", async || {
        count("loadbalancer_create") == CLUSTERS
    })
    .await;
    assert_eq!(count("token_create"), 1);
    scene.stop().await;
}

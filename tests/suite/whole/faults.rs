//! The manager while OpenStack does not answer, and while it can't be reached.

use std::time::Duration;

use fake_cloud::{CallMatch, Command, Fault, Service};
use test_support::waiting::until;

use super::isolated::{IsolatedEnvironment, SHORT_LEASE};
use crate::env::{
    apply::{apply, credentials},
    cluster_api::condition,
};

/// Shorter than the 30 s of a hanging call, so that a manager that waits for it fails. The promise is 3 s (`make
/// deep`).
const STOP: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stops_at_once_while_octavia_never_answers() {
    let environment = IsolatedEnvironment::start().await;
    let mut manager = environment.ready_manager("manager", &SHORT_LEASE).await;
    manager.until_logged("Leading").await.unwrap();
    let control = environment.cloud.control();
    control
        .command(Command::Fault(Box::new(Fault {
            matching: CallMatch {
                service: Some(Service::LoadBalancer),
                ..CallMatch::default()
            },
            hang: true,
            ..Fault::default()
        })))
        .unwrap();
    environment.create_cluster("hangs", "127.81.0.0/24").await;
    let hangs = || {
        control
            .calls_since(0)
            .iter()
            .any(|call| call.service == Service::LoadBalancer && call.status.is_none())
    };
    until("a call to Octavia hangs", async || hangs().then_some(())).await;
    manager.process.signal("TERM").unwrap();
    assert!(manager.process.wait(STOP).unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_without_openstack_and_says_so_on_the_cluster() {
    let environment = IsolatedEnvironment::start().await;
    let nowhere = environment
        .cloud
        .clouds_yaml()
        .replace(environment.cloud.base(), "http://127.0.0.1:1");
    let secret = credentials("default", "cloud-config", &nowhere);
    let admin = environment.kubernetes.admin().await.unwrap();
    apply(&admin, &[secret]).await.unwrap();
    let _manager = environment.ready_manager("manager", &[]).await;
    environment.create_cluster("alone", "127.82.0.0/24").await;
    let cluster = environment
        .cluster_api
        .until_object("OpenStackCluster", "alone", |cluster| {
            // A service that can't be reached shows nothing about the credentials, so Ready is Unknown.
            condition(cluster, "Ready").is_some_and(|(status, _, message)| {
                status == "Unknown" && message.contains("signing in")
            })
        })
        .await;
    let (_, _, message) = condition(&cluster, "Ready").unwrap();
    assert!(
        message.contains("OpenStackAuthenticationSucceeded"),
        "{message}"
    );
    // The cluster becomes ready without help.
    let mended = credentials("default", "cloud-config", &environment.cloud.clouds_yaml());
    apply(&admin, &[mended]).await.unwrap();
    environment
        .until_provisioned("OpenStackCluster", "alone")
        .await;
}

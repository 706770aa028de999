//! Members that join where no health monitor keeps clients away from an API server that is not up yet.

use std::time::Duration;

use capo_openstack::load_balancer::MemberUpdate;

use super::control_plane::{
    JOINING, cluster, first_up, join, member, member_writes, until_held, update,
};
use test_support::env::Environment;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_serving_ones_gets_traffic_when_its_api_server_is_up() {
    let (environment, _authority, _m0) = first_up("joining", "127.92.0.0/24").await;
    let created = |since: u64| -> Vec<fake_cloud::Call> {
        let writes = member_writes(&environment, since);
        writes
            .into_iter()
            .filter(|call| call.method == "POST")
            .collect()
    };
    // The first member is created enabled, because kubeadm reaches its own API server through the endpoint.
    let writes = created(0);
    assert_eq!(writes.len(), 1, "{writes:#?}");
    let body = writes[0].body.as_ref().unwrap();
    assert_ne!(body["member"]["admin_state_up"], false);
    // The next member is created disabled, and is enabled when KubeadmControlPlane finds its API server healthy. `join`
    // returns only then.
    let before = environment.cloud.control().last_call();
    join(&environment, &["m1"]).await;
    let writes = created(before);
    assert_eq!(writes.len(), 1, "{writes:#?}");
    let body = writes[0].body.as_ref().unwrap();
    assert_eq!(body["member"]["admin_state_up"], false);
    assert!(
        body["member"]["tags"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tag| tag == JOINING)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_an_operator_took_down_stays_down_and_does_not_count() {
    let environment = Environment::in_namespace("admin-down").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    let down = MemberUpdate {
        admin_state_up: Some(false),
        ..MemberUpdate::default()
    };
    update(&environment, "m1", down).await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(
        &environment,
        "m0",
        "NoOtherMemberServing",
        &["m1: its member is"],
    )
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!member(&environment, "m1").await.unwrap().admin_state_up);
    assert!(!environment.get("Machine", "m0").await["metadata"].is_null());
}

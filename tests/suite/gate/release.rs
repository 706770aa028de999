//! Releases: a member is drained, removed and confirmed absent before its API server dies, and only one machine is
//! released at a time.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::control_plane::{
    CONTROL_PLANE_HOOK, OVERRIDE, annotate, cluster, has, is_hooked, join, member, member_writes,
    operating, until_held,
};
use test_support::{
    env::{Environment, environment::quick_gate},
    waiting::{until, until_ok},
};

const GRACE: Duration = Duration::from_secs(3);

async fn with_grace(namespace: &str, grace: Duration) -> Environment {
    let mut settings = quick_gate();
    settings.drain_grace = grace;
    Environment::in_namespace(namespace)
        .gate(settings)
        .start()
        .await
}

/// The id of a machine's member.
async fn id_of(environment: &Environment, machine: &str) -> String {
    member(environment, machine).await.unwrap().id.into()
}

fn is_drain(call: &fake_cloud::Call) -> bool {
    call.body
        .as_ref()
        .is_some_and(|body| body["member"]["weight"] == 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_drained_for_its_grace_time_and_gone_before_etcd_and_api_server_die() {
    let environment = with_grace("release-order", GRACE).await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    let leaving = id_of(&environment, "m0").await;
    let before = environment.cloud.control().last_call();
    environment.cluster_api.delete("Machine", "m0").await;
    // The API server ends when KubeadmControlPlane removes its own hook.
    until_ok("m0 is released", async || {
        let machine = environment.get("Machine", "m0").await;
        if has(&machine, CONTROL_PLANE_HOOK) {
            Err(machine)
        } else {
            Ok(())
        }
    })
    .await;
    assert!(
        member(&environment, "m0").await.is_none(),
        "still in the pool"
    );
    let writes = member_writes(&environment, before);
    let of_m0: Vec<_> = writes
        .iter()
        .filter(|call| call.path.contains(&leaving))
        .collect();
    let methods: Vec<&str> = of_m0.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, ["PUT", "DELETE"], "{writes:#?}");
    assert!(is_drain(of_m0[0]));
    assert!(of_m0[1].at - of_m0[0].at >= GRACE.as_secs_f64());
    environment.until_gone("Machine", "m0").await;
    assert_eq!(environment.leftovers("m0"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_weights_are_ignored_a_member_is_disabled_before_it_goes() {
    let environment = Environment::in_namespace("release-ovn").start().await;
    cluster(&environment, "10.6.0.0/24", "ovn").await;
    join(&environment, &["m0", "m1"]).await;
    let before = environment.cloud.control().last_call();
    environment.cluster_api.delete("Machine", "m0").await;
    environment.until_gone("Machine", "m0").await;
    let writes = member_writes(&environment, before);
    let methods: Vec<&str> = writes.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, ["PUT", "DELETE"], "{writes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_member_is_restored_when_the_last_other_one_fails_meanwhile() {
    let environment = with_grace("release-restore", Duration::from_mins(10)).await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(
        &environment,
        "m0",
        "MemberDraining",
        &["being drained", "bypass until="],
    )
    .await;
    let weighs =
        async |weight| (member(&environment, "m0").await.unwrap().weight == weight).then_some(());
    until("m0 is drained", async || weighs(0).await).await;
    operating(&environment, "m1", "ERROR").await;
    let held = until_held(
        &environment,
        "m0",
        "NoOtherMemberServing",
        &[
            "m1: its member is not ONLINE",
            "KubeadmControlPlane changes nothing else",
        ],
    )
    .await;
    assert!(held["metadata"]["deletionTimestamp"].is_null());
    until("m0 is restored", async || weighs(1).await).await;
    let machine = environment.get("Machine", "m0").await;
    assert!(is_hooked(&machine) && has(&machine, CONTROL_PLANE_HOOK));
    // The hold begins again, and the bypass that its message names ends it.
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let bypass = format!("bypass until={end} reason=known");
    annotate(
        &environment,
        "OpenStackMachine",
        "m0",
        json!({OVERRIDE: bypass}),
    )
    .await;
    environment.until_gone("Machine", "m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_deleted_at_once_two_go_one_by_one_and_the_last_is_held() {
    let environment = Environment::in_namespace("release-three").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1", "m2"]).await;
    let mut ids = Vec::new();
    for name in ["m0", "m1", "m2"] {
        ids.push(id_of(&environment, name).await);
    }
    let before = environment.cloud.control().last_call();
    for name in ["m0", "m1", "m2"] {
        environment.cluster_api.delete("Machine", name).await;
    }
    let mut left = BTreeSet::from(["m0", "m1", "m2"]);
    until_ok("two are gone", async || {
        for name in left.clone() {
            if environment.get("Machine", name).await.is_null() {
                left.remove(name);
            }
        }
        if left.len() > 1 {
            Err(format!("{left:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    let last = left.into_iter().next().unwrap();
    until_held(
        &environment,
        last,
        "NoOtherMemberServing",
        &["It is the only member"],
    )
    .await;
    assert!(member(&environment, last).await.is_some());
    // All writes for one machine come before the first write for the next machine.
    let writes = member_writes(&environment, before);
    let mut order: Vec<usize> = writes
        .iter()
        .filter_map(|call| ids.iter().position(|id| call.path.contains(id.as_str())))
        .collect();
    let all = order.clone();
    order.dedup();
    assert_eq!(order.len(), 2, "two at a time: {all:?} {writes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_that_was_deleted_holds_its_machines_no_longer() {
    let environment = Environment::in_namespace("no-control-plane").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "NoOtherMemberServing", &[]).await;
    let kind = "KubeadmControlPlane";
    environment.cluster_api.delete(kind, "c1").await;
    environment.until_gone(kind, "c1").await;
    // The next pass over the cluster reads the load balancer again. Without this change it would be due only in
    // minutes.
    annotate(
        &environment,
        "OpenStackCluster",
        "c1",
        json!({"example.com/touched": "now"}),
    )
    .await;
    environment.until_gone("Machine", "m0").await;
}

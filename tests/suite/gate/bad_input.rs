//! Bad input around the gate: messages name it, capo-rs removes only its own objects, and every hold is reported.

use serde_json::{Value, json};

use super::control_plane::{
    PRE_TERMINATE, address, annotate, balancer_name, cluster, create, has_joined, is_hooked, join,
    member, stranger, until_held, until_warned,
};
use test_support::env::{Environment, environment::is};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_is_ours_by_its_key_and_put_back_while_nothing_is_deleted() {
    let environment = Environment::in_namespace("hook-edited").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    annotate(&environment, "Machine", "m0", json!({PRE_TERMINATE: null})).await;
    environment.until_object("Machine", "m0", is_hooked).await;
    // A user edits the value of the hook. The hook still holds the Machine, and is removed when the gate opens.
    annotate(
        &environment,
        "Machine",
        "m0",
        json!({PRE_TERMINATE: "\u{1f3a3} {not ours}"}),
    )
    .await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "NoOtherMemberServing", &[]).await;
    create(&environment, "m1").await;
    has_joined(&environment, "m1").await;
    environment.until_gone("Machine", "m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_machine_without_its_label_is_known_by_its_owner() {
    let environment = Environment::in_namespace("no-label").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let control_plane = environment.get("KubeadmControlPlane", "c1").await;
    let owner = json!([{
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "c1",
        "uid": control_plane["metadata"]["uid"], "controller": true,
    }]);
    environment
        .patch(
            "Machine",
            "m0",
            json!({"metadata": {"ownerReferences": owner}}),
        )
        .await;
    let bare = json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane": null}}});
    environment.patch("Machine", "m0", bare.clone()).await;
    environment.patch("OpenStackMachine", "m0", bare).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(is_hooked(&environment.get("Machine", "m0").await));
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "NoOtherMemberServing", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_an_owner_says_whom_it_waits_for() {
    let environment = Environment::in_namespace("no-owner").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    let object = |name: &str, owners: Value| {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "metadata": {"name": name, "namespace": environment.namespace, "ownerReferences": owners,
                "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": crate::machine::machine_spec(),
        })
    };
    let gone = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "was-here",
        "uid": "11111111-2222-3333-4444-555555555555"}]);
    let objects = [object("alone", json!([])), object("orphan", gone)];
    crate::env::apply::apply(&environment.admin, &objects)
        .await
        .unwrap();
    for (name, words) in [
        (
            "alone",
            "Waiting for Cluster API to set the owner reference",
        ),
        (
            "orphan",
            "Machine was-here with UID 11111111-2222-3333-4444-555555555555, the owner in metadata.ownerReferences, does not exist",
        ),
    ] {
        environment
            .until_object("OpenStackMachine", name, |machine| {
                crate::env::cluster_api::condition(machine, "InstanceReady").is_some_and(
                    |(_, reason, message)| reason == "WaitingForOwner" && message.contains(words),
                )
            })
            .await;
    }
    assert_eq!(environment.calls("server_create"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_left_at_an_old_address_is_replaced_and_a_foreign_one_is_left_alone() {
    let environment = Environment::in_namespace("foreign").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;

    // A member with our name has another address. The machine with this name exists, so its own member is created
    // before the foreign one is removed.
    let ours = format!("{}-6443-m1", balancer_name(&environment));
    let far = stranger(&environment, &ours, "10.6.0.250".parse().unwrap()).await;
    create(&environment, "m1").await;
    has_joined(&environment, "m1").await;
    let pool = super::control_plane::pool(&environment).await;
    let gate = capo_core::Priority::Gate;
    test_support::waiting::until("the member at the old address is gone", async || {
        let members = environment
            .openstack()
            .members(&pool.id, gate)
            .await
            .unwrap();
        let gone = members.iter().all(|member| member.id != far.id);
        gone.then_some(())
    })
    .await;
    assert!(member(&environment, "m1").await.is_some());

    // Members with other names have the addresses that the cloud gives next, so one of them has the address of m2.
    let last = address(&environment, "m1").await;
    let std::net::IpAddr::V4(last) = last else {
        panic!("{last}")
    };
    let mut strangers = Vec::new();
    for step in 1..=3 {
        let next = std::net::Ipv4Addr::from(u32::from(last) + step);
        strangers.push(stranger(&environment, &format!("monitoring-{step}"), next.into()).await);
    }
    create(&environment, "m2").await;
    let held = until_held(
        &environment,
        "m2",
        "MemberUnknown",
        &["\"monitoring-", "has its address"],
    )
    .await;
    let in_the_way = strangers
        .iter()
        .find(|stranger| {
            super::control_plane::gate(&held)
                .2
                .contains(stranger.id.as_str())
        })
        .unwrap();
    assert!(member(&environment, "m2").await.is_none());
    environment
        .openstack()
        .delete_member(&pool.id, &in_the_way.id, gate)
        .await
        .unwrap();
    has_joined(&environment, "m2").await;
    // Members that belong to no machine of the cluster are left alone.
    let left = environment
        .openstack()
        .members(&pool.id, gate)
        .await
        .unwrap();
    let left: Vec<&str> = left.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(
        left.iter()
            .filter(|name| name.starts_with("monitoring-"))
            .count(),
        2,
        "{left:?}"
    );
    environment
        .until_object("OpenStackMachine", "m2", |machine| {
            is(machine, "Ready", "True")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_whose_machine_is_gone_is_taken_off_when_its_member_is() {
    let environment = Environment::in_namespace("hook-orphan").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    // A user removes the finalizer. The last member that serves and the hook stay, and an event reports this.
    strip(&environment, "m0").await;
    environment.cluster_api.delete("Machine", "m0").await;
    // The garbage collector deletes the server's object with its owner. The server runs the last API server, so it
    // stays.
    environment
        .cluster_api
        .delete("OpenStackServer", "m0")
        .await;
    until_warned(
        &environment,
        "Machine",
        "m0",
        &[
            "OpenStackMachine m0 does not exist any more",
            "capo-load-balancer-member",
        ],
    )
    .await;
    assert!(member(&environment, "m0").await.is_some());
    assert!(is_hooked(&environment.get("Machine", "m0").await));
    environment
        .until_object("OpenStackServer", "m0", |server| {
            server.to_string().contains(
                "the deletion hooks on Machine m0 still protect its load balancer members",
            )
        })
        .await;
    // As soon as another machine serves, the member, the hook and the server are removed.
    create(&environment, "m1").await;
    has_joined(&environment, "m1").await;
    environment.until_gone("Machine", "m0").await;
    assert!(member(&environment, "m0").await.is_none());
    environment.until_gone("OpenStackServer", "m0").await;
}

async fn strip(environment: &Environment, name: &str) {
    environment
        .cluster_api
        .delete("OpenStackMachine", name)
        .await;
    let bare = json!({"metadata": {"finalizers": null}});
    environment.patch("OpenStackMachine", name, bare).await;
    environment.until_gone("OpenStackMachine", name).await;
}

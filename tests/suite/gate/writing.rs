//! The evidence for an open gate has to hold at the moment at which the gate's decision is written to Kubernetes. That
//! moment may come late.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::control_plane::{
    PRE_TERMINATE, cluster, create, has_joined, is_hooked, is_provisioned, join, operating,
    until_held,
};
use test_support::{
    env::{
        Environment,
        environment::{HeldWrite, Write, is, quick_gate},
    },
    waiting::until,
};

/// The status of an OpenStackMachine that counts as provisioned.
fn admits(machine: &'static str) -> impl Fn(&str, &Value) -> bool + Copy + Send + 'static {
    move |path, body| is_status_of(machine, path) && is_provisioned(body)
}

fn is_status_of(machine: &str, path: &str) -> bool {
    path.ends_with(&format!("/openstackmachines/{machine}/status"))
}

/// The removal of our hook from a Machine.
pub(crate) fn releases(
    machine: &'static str,
) -> impl Fn(&str, &Value) -> bool + Copy + Send + 'static {
    move |path, body| {
        let annotations = body["metadata"]["annotations"].as_object();
        path.ends_with(&format!("/machines/{machine}"))
            && annotations.is_some_and(|annotations| {
                annotations.get(PRE_TERMINATE).is_some_and(Value::is_null)
            })
    }
}

/// The writes of this kind that reached the API server.
pub(crate) fn sent(environment: &Environment, wanted: impl Fn(&str, &Value) -> bool) -> Vec<Write> {
    let mut sent = environment.writes.sent();
    sent.retain(|write| wanted(&write.path, &write.body));
    sent
}

/// Octavia shows a member in this status from now on.
fn provisioning(environment: &Environment, id: &str, status: &str) {
    environment
        .command(json!({"set_status": {"object": id, "kind": "member", "provisioning": status}}));
}

/// A machine `m1` joins `m0`; the write that would admit it is under way.
async fn about_to_admit(environment: &Environment, name: &'static str) -> HeldWrite {
    let mut held = environment.writes.hold(admits(name));
    create(environment, name).await;
    held.arrived().await;
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_whose_member_failed_while_kubernetes_took_no_write_is_not_admitted_on_an_old_read()
 {
    let mut settings = quick_gate();
    // Nothing makes the tracker read again by itself, so that the gate stays open.
    settings.schedule.steady = Duration::from_mins(10);
    let environment = Environment::in_namespace("late-admission")
        .gate(settings)
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let held = about_to_admit(&environment, "m1").await;

    // The repairs of the member fail too, so that it stays in this status.
    environment
        .command(json!({"operation": {"operation": "member-*", "name": "-m1", "fail": true}}));
    let member = super::control_plane::member(&environment, "m1")
        .await
        .unwrap();
    provisioning(&environment, member.id.as_str(), "ERROR");
    until("the read is old", async || {
        (!environment.is_read_fresh("c1", "m1")).then_some(())
    })
    .await;
    assert!(environment.is_admission_open("c1", "m1"));
    held.refuse_as_conflict();
    let machine = until_held(&environment, "m1", "MemberError", &[]).await;
    assert!(!is_provisioned(&machine));
    assert_eq!(sent(&environment, admits("m1")).len(), 0);

    // Octavia's operator frees it.
    environment.command(json!({"clear": "operations"}));
    has_joined(&environment, "m1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_not_released_when_the_other_one_failed_while_kubernetes_took_no_write() {
    let environment = Environment::in_namespace("late-release").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    let mut held = environment.writes.hold(releases("m0"));
    environment.cluster_api.delete("Machine", "m0").await;
    held.arrived().await;
    assert!(environment.is_release_open("c1", "m0"));

    operating(&environment, "m1", "ERROR").await;
    until("the gate is not open any more", async || {
        (!environment.is_release_open("c1", "m0")).then_some(())
    })
    .await;
    held.refuse_as_conflict();
    until_held(&environment, "m0", "NoOtherMemberServing", &[]).await;
    assert_eq!(sent(&environment, releases("m0")).len(), 0);
    assert!(is_hooked(&environment.get("Machine", "m0").await));

    operating(&environment, "m1", "ONLINE").await;
    environment.until_gone("Machine", "m0").await;
}

/// Octavia answers no call any more while the write to Kubernetes is held: the gate stays open, and its evidence grows
/// old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_not_released_on_an_old_read_though_its_gate_is_open() {
    let mut settings = quick_gate();
    // The gate counts a read for three such intervals, which is twice as long as a controller may act on it.
    settings.schedule.health = Duration::from_secs(10);
    settings.schedule.health_at_most = Duration::from_secs(10);
    // With the shipped time-out, the hanging calls do not fail before that.
    let environment = Environment::in_namespace("stale-release")
        .gate(settings)
        .shipped_client()
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    let mut held = environment.writes.hold(releases("m0"));
    environment.cluster_api.delete("Machine", "m0").await;
    held.arrived().await;
    let hangs = json!({"match": {"service": "load-balancer"}, "hang": true});
    let hangs = environment.command(json!({"fault": hangs}))["id"].clone();
    until("the reads are old", async || {
        (!environment.is_read_fresh("c1", "m0")).then_some(())
    })
    .await;
    assert!(environment.is_release_open("c1", "m0"));

    held.refuse_as_conflict();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(sent(&environment, releases("m0")).len(), 0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(is_hooked(&environment.get("Machine", "m0").await));
    // Only the age of the reads has kept the hook.
    assert!(environment.is_release_open("c1", "m0"));
    assert!(!environment.is_read_fresh("c1", "m0"));

    environment.command(json!({"remove_fault": hangs}));
    environment.until_gone("Machine", "m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_paused_or_deleted_meanwhile_is_not_admitted_after_a_conflict() {
    let environment = Environment::in_namespace("conflict-changed").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;

    let pause =
        |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    let held = about_to_admit(&environment, "m1").await;
    environment
        .patch("OpenStackMachine", "m1", pause(json!("")))
        .await;
    held.send();
    let is_paused = |machine: &Value| is(machine, "Paused", "True");
    let paused = environment
        .until_object("OpenStackMachine", "m1", is_paused)
        .await;
    assert!(!is_provisioned(&paused));
    let refused: Vec<u16> = statuses(&sent(&environment, admits("m1")));
    assert_eq!(refused, [409]);
    environment
        .patch("OpenStackMachine", "m1", pause(Value::Null))
        .await;
    has_joined(&environment, "m1").await;

    let held = about_to_admit(&environment, "m2").await;
    environment
        .cluster_api
        .delete("OpenStackMachine", "m2")
        .await;
    held.send();
    environment.until_gone("OpenStackMachine", "m2").await;
    assert_eq!(statuses(&sent(&environment, admits("m2"))), [409]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_only_got_a_label_meanwhile_is_admitted_right_after_the_conflict() {
    let environment = Environment::in_namespace("conflict-label").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    let held = about_to_admit(&environment, "m1").await;
    let label = json!({"metadata": {"labels": {"example.com/touched": "yes"}}});
    environment.patch("OpenStackMachine", "m1", label).await;
    held.send();
    environment
        .until_provisioned("OpenStackMachine", "m1")
        .await;
    // The next write has the same content: it is not split into one write without it and a later one with it.
    let mut writes = sent(&environment, |path, _| is_status_of("m1", path));
    let refused = |write: &Write| write.status == 409 && is_provisioned(&write.body);
    let refused = writes.iter().position(refused);
    let writes = writes.split_off(refused.unwrap());
    assert_eq!(statuses(&writes[..2]), [409, 200], "{writes:#?}");
    for write in &writes[..2] {
        assert!(is_provisioned(&write.body), "{write:#?}");
    }
}

fn statuses(writes: &[Write]) -> Vec<u16> {
    writes.iter().map(|write| write.status).collect()
}

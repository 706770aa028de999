//! The override annotation: hold, bypass, and how an invalid value is refused.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::control_plane::{
    OVERRIDE, annotate, cluster, create, gate, is_hooked, is_provisioned, join, until_held,
    until_warned,
};
use test_support::env::{Environment, cluster_api::condition};

fn bypass(left: SignedDuration) -> Value {
    json!({OVERRIDE: format!("bypass until={} reason=ticket 12", Timestamp::now() + left)})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_holds_what_would_go_and_ends_when_it_is_taken_away() {
    let environment = Environment::in_namespace("override-hold").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    let hold = json!({OVERRIDE: "hold reason=change freeze"});
    annotate(&environment, "OpenStackCluster", "c1", hold).await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            condition(cluster, "APIServerLoadBalancerReady").is_some_and(|(_, _, message)| {
                message.contains("held by the operator: change freeze")
            })
        })
        .await;
    // During the hold, no machine is admitted and none is released.
    create(&environment, "m2").await;
    until_held(&environment, "m2", "OperatorHold", &["change freeze"]).await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "OperatorHold", &["change freeze"]).await;
    assert!(!is_provisioned(
        &environment.get("OpenStackMachine", "m2").await
    ));
    // A bypass of one machine has precedence over a hold of the whole cluster.
    annotate(
        &environment,
        "OpenStackMachine",
        "m2",
        bypass(SignedDuration::from_hours(1)),
    )
    .await;
    environment
        .until_provisioned("OpenStackMachine", "m2")
        .await;
    annotate(
        &environment,
        "OpenStackCluster",
        "c1",
        json!({OVERRIDE: null}),
    )
    .await;
    environment.until_gone("Machine", "m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bypass_lets_in_shows_everywhere_and_runs_out() {
    let environment = Environment::in_namespace("override-bypass").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    environment.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    create(&environment, "m1").await;
    until_held(&environment, "m1", "MemberPending", &[]).await;
    annotate(
        &environment,
        "OpenStackMachine",
        "m1",
        bypass(SignedDuration::from_hours(1)),
    )
    .await;
    environment
        .until_provisioned("OpenStackMachine", "m1")
        .await;
    environment.command(json!({"release": ""}));
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            let (status, reason, message) = gate(machine);
            (status, reason) == ("True", "OperatorBypass") && message.contains("ticket 12")
        })
        .await;
    // A bypass that has ended opens no gate, and the condition says so.
    annotate(
        &environment,
        "OpenStackMachine",
        "m1",
        bypass(SignedDuration::from_secs(5)),
    )
    .await;
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            gate(machine).1 == "MembersActive"
        })
        .await;
    environment.cluster_api.delete("Machine", "m0").await;
    environment.until_gone("Machine", "m0").await;
    environment.cluster_api.delete("Machine", "m1").await;
    until_held(
        &environment,
        "m1",
        "NoOtherMemberServing",
        &["It is the only member"],
    )
    .await;
    annotate(
        &environment,
        "OpenStackMachine",
        "m1",
        json!({"test/pass": "1"}),
    )
    .await;
    until_held(
        &environment,
        "m1",
        "NoOtherMemberServing",
        &["annotation is refused", "in the past"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_override_opens_nothing_and_a_condition_and_an_event_report_it() {
    let environment = Environment::in_namespace("override-refused")
        .without_admission()
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "NoOtherMemberServing", &[]).await;
    for (text, found) in [
        (
            "bypass until=tomorrow reason=x",
            "until=tomorrow is not a date",
        ),
        (
            "bypass until=2001-01-01T00:00:00Z reason=x",
            "is in the past",
        ),
        ("bypass until=2999-01-01T00:00:00Z", "bypass needs a reason"),
        ("open sesame", "\"open\" is not known"),
    ] {
        for (kind, name) in [("OpenStackMachine", "m0"), ("OpenStackCluster", "c1")] {
            annotate(&environment, kind, name, json!({OVERRIDE: text})).await;
            until_held(
                &environment,
                "m0",
                "NoOtherMemberServing",
                &["annotation is refused", found],
            )
            .await;
            until_warned(&environment, kind, name, &["InvalidSpec", OVERRIDE, found]).await;
            annotate(&environment, kind, name, json!({OVERRIDE: null})).await;
        }
    }
    assert!(
        environment.get("OpenStackMachine", "m0").await["metadata"]["deletionTimestamp"].is_null()
    );
}

/// A process that has just started knows nothing of the load balancer, and can't look it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bypass_of_one_machine_works_while_the_load_balancer_can_not_be_looked_up() {
    let mut environment = Environment::in_namespace("override-outage").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    environment.stop().await;
    environment.command(json!({"fault": {"match": {"service": "load-balancer"}, "status": 503}}));
    environment.start().await;
    environment.cluster_api.delete("Machine", "m0").await;
    environment.one_more_pass("c1").await;
    let held = environment.get("Machine", "m0").await;
    assert!(is_hooked(&held), "{held:#}");
    annotate(
        &environment,
        "OpenStackMachine",
        "m0",
        bypass(SignedDuration::from_hours(1)),
    )
    .await;
    environment.until_gone("Machine", "m0").await;
}

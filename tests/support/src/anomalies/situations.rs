//! Situations around the gates for which a script of Cluster API is enough: remediation, a control plane that a hold
//! blocks, the time-out of a health check, no monitor, another kind of control plane. `tests/rollout/README.md` lists
//! them.

use std::sync::atomic::Ordering;

use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::{
    Scenario,
    cluster_under_test::{
        ClusterUnderTest, Shape, condition_text, is_provisioned, shows_condition,
    },
    scenarios,
    watch::HOOK,
};
use crate::env::cluster_api::condition;

const GATE: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "remediation": a_broken_machine_is_remediated,
        "hold-heals": the_other_member_heals,
        "hold-bypass": the_operator_lets_it_go,
        "health-check": a_health_check_gives_the_new_machine_up,
        "no-monitor": there_is_no_monitor,
        "other-control-plane": the_control_plane_is_not_kubeadms,
    ]
}

/// A machine whose server is down is remediated after the control plane was initialised, while others serve.
async fn a_broken_machine_is_remediated(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 3).await;
    // A machine whose server is down loses its hook before its members are removed.
    scenario.watch.excused.store(true, Ordering::SeqCst);
    scenario.command(json!({"set_server": {"server": "cp-1", "status": "SHUTOFF"}}));
    scenario.command(json!({"set_status": {"object": scenario.member(1), "operating": "ERROR"}}));
    scenario.leave(1).await;
    scenario.until_gone(1).await;
    scenario.watch.excused.store(false, Ordering::SeqCst);
    scenario.until_well().await;
    let left = scenario.truth();
    assert_eq!(
        (
            left.of_machine("cp-0").count(),
            left.of_machine("cp-2").count()
        ),
        (1, 1)
    );
    scenario.end().await;
}

/// The last machine that serves is deleted. The message of its hold names what it blocks and the ways to end it.
async fn hold_the_last_one(name: &'static str) -> ClusterUnderTest {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    scenario.command(json!({"set_status": {"object": scenario.member(1), "operating": "ERROR"}}));
    scenario.hold_the_first().await;
    scenario
}

/// The hold ends as soon as the other machine serves again.
async fn the_other_member_heals(name: &'static str) {
    let scenario = hold_the_last_one(name).await;
    scenario.command(json!({"set_status": {"object": scenario.member(1), "free": true}}));
    scenario.until_gone(0).await;
    scenario.until_well().await;
    scenario.end().await;
}

/// The hold ends by the operator's override, which has a reason and an end.
async fn the_operator_lets_it_go(name: &'static str) {
    let scenario = hold_the_last_one(name).await;
    let machine = scenario
        .until_machine(0, "held", |machine| {
            shows_condition(machine, "False", "NoOtherMemberServing", "")
        })
        .await;
    assert!(
        condition_text(&machine).contains("KubeadmControlPlane changes nothing else"),
        "{}",
        condition_text(&machine)
    );
    assert!(
        condition_text(&machine).contains("bypass until="),
        "{}",
        condition_text(&machine)
    );
    // With the override the operator accepts that no machine serves for a while.
    scenario.watch.excused.store(true, Ordering::SeqCst);
    let until = Timestamp::now().checked_add(10.minutes()).unwrap();
    let annotations = json!({GATE: format!("bypass until={until} reason=both are broken")});
    scenario
        .patch(
            "OpenStackMachine",
            "cp-0",
            json!({"metadata": {"annotations": annotations}}),
        )
        .await;
    scenario.until_gone(0).await;
    scenario.end().await;
}

/// The new machine is held for longer than its health check waits, and is deleted. It was never admitted, so it is
/// deleted at once, and the old machine stays.
async fn a_health_check_gives_the_new_machine_up(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(json!({"hold": {"member": "-cp-1", "status": "PENDING_CREATE"}}));
    scenario.join(1).await;
    scenario.until_held(1, "MemberPending", "").await;
    // The machine is deleted while its member still exists, without a wait.
    scenario.watch.excused.store(true, Ordering::SeqCst);
    scenario.leave(1).await;
    scenario.until_gone(1).await;
    scenario
        .until_truth("its member is gone", |truth| {
            truth.of_machine("cp-1").count() == 0
        })
        .await;
    scenario.watch.excused.store(false, Ordering::SeqCst);
    scenario.join(2).await;
    scenario.until_admitted(2).await;
    scenario.until_well().await;
    assert!(scenario.truth().all("cp-0", 1, "ACTIVE"));
    scenario.end().await;
}

/// If Octavia supports no monitor, Cluster API's own conditions are the evidence after they have held for 90 s.
async fn there_is_no_monitor(name: &'static str) {
    let scenario = ClusterUnderTest::empty(name, Shape::default()).await;
    scenario.command(json!({"fault": {"match": {"label": "loadbalancer_healthmonitor_create"}, "status": 501,
        "body": r#"{"faultcode": "Server", "faultstring": "Provider does not support a requested option", "debuginfo": null}"#}}));
    scenario.cluster(Shape::default(), json!({})).await;
    scenario.until_cluster(is_provisioned).await;
    for index in 0..2 {
        scenario.join(index).await;
        scenario.until_admitted(index).await;
    }
    scenario
        .until_truth("it is enabled", |truth| {
            let mut members = truth.members.iter();
            members.all(|member| member.up && member.operating == "NO_MONITOR")
        })
        .await;
    scenario.leave(0).await;
    scenario
        .until_reported(
            "cp-0",
            "HealthUnavailable",
            "The other machines must serve, and nothing must answer at the endpoint, for 90 s without interruption",
        )
        .await;
    scenario.until_gone(0).await;
    scenario.until_well().await;
    scenario.end().await;
}

/// Another control plane than KubeadmControlPlane has no hook of its own, so the hook of capo-rs is the only one. The
/// rules are the same.
async fn the_control_plane_is_not_kubeadms(name: &'static str) {
    let scenario = ClusterUnderTest::empty(name, Shape::default()).await;
    scenario.cluster(Shape::default(), json!({})).await;
    scenario
        .patch(
            "Cluster",
            "c",
            json!({"spec": {"controlPlaneRef": {"kind": "RKE2ControlPlane"}}}),
        )
        .await;
    scenario.until_cluster(is_provisioned).await;
    for index in 0..2 {
        scenario.join(index).await;
        let cleanup = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
        scenario
            .patch(
                "Machine",
                &format!("cp-{index}"),
                json!({"metadata": {"annotations": {cleanup: null}}}),
            )
            .await;
        scenario.until_admitted(index).await;
    }
    scenario
        .until_object("Machine", "cp-0", "hooked", |machine| {
            machine["metadata"]["annotations"][HOOK] == "capo-rs"
        })
        .await;
    scenario.leave(0).await;
    scenario
        .until_object("Machine", "cp-0", "it waits for us", |machine| {
            machine.is_null()
                || condition(machine, "Deleting")
                    .is_some_and(|(_, reason, _)| reason == "WaitingForPreTerminateHook")
        })
        .await;
    scenario.until_gone(0).await;
    scenario.until_well().await;
    let last: Value = scenario
        .until_machine(1, "the last one", |machine| {
            shows_condition(machine, "True", "MembersActive", "")
        })
        .await;
    assert!(is_provisioned(&last));
    scenario.end().await;
}

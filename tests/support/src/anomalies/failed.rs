//! Octavia's ordinary failures: ERROR under an ACTIVE load balancer (`failed` and `split-revert`
//! of the table in `tests/fake_cloud/README.md`).

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    Scenario,
    cluster_under_test::{ClusterUnderTest, Shape, is_provisioned, shows_condition},
    scenarios,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "failed-create": a_creation_fails,
        "failed-first-create": the_first_creation_fails,
        "failed-drain": a_drain_fails,
        "failed-delete": a_deletion_fails,
        "settled-error": a_settled_member_turns_error,
        "split-revert": a_batch_fails_group_by_group,
        "failed-additive-batch": a_failed_additive_batch_removes_no_member,
        "failed-load-balancer": the_load_balancer_fails,
    ]
}

/// `failed`: the member is deleted and created again, because an update would not plug it.
async fn a_creation_fails(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(
        json!({"operation": {"operation": "member-create", "name": "-cp-1", "fail": true,
        "stage": "network", "count": 1}}),
    );
    scenario.slow("loadbalancer_member_delete");
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario
        .until_reported("cp-1", "MemberError", "is in ERROR; capo-rs repairs it")
        .await;
    // The repair may end before the gauge of this cluster is read.
    scenario
        .until_metric(
            r#"capo_gate_decisions_total{decision="Held",gate="admission",reason="MemberError"}"#,
        )
        .await;
    scenario.until_admitted(1).await;
    scenario
        .end_with(mark, &["POST member", "DELETE member", "POST member"])
        .await;
}

/// `failed`: no other machine may serve, so the member is updated rather than deleted.
async fn the_first_creation_fails(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 0).await;
    scenario.command(json!({"operation": {"operation": "member-create", "name": "-cp-0", "fail": true, "count": 1}}));
    scenario.slow("loadbalancer_member_update");
    let mark = scenario.mark();
    scenario.join(0).await;
    scenario
        .until_reported("cp-0", "MemberError", "is in ERROR; capo-rs repairs it")
        .await;
    scenario.until_admitted(0).await;
    scenario
        .end_with(mark, &["POST member", "PUT member"])
        .await;
}

/// `failed`: the member may still get connections, and is removed once another machine serves.
async fn a_drain_fails(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    scenario.command(json!({"operation": {"operation": "member-update", "name": "-cp-0", "fail": true, "count": 1}}));
    let mark = scenario.mark();
    scenario.leave(0).await;
    scenario.until_gone(0).await;
    scenario
        .end_with(mark, &["PUT member", "DELETE member"])
        .await;
}

/// `failed`: the answer 204 did not mean that the member was deleted.
async fn a_deletion_fails(name: &'static str) {
    a_deletion_is_requested_again(name, &json!({"fail": true}), "ERROR").await;
}

/// A deletion that fails and leaves the member: it is requested again, and confirmed by absence.
pub(super) async fn a_deletion_is_requested_again(name: &'static str, wrong: &Value, left: &str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    let mut operation = json!({"operation": "member-delete", "name": "-cp-0", "count": 1});
    for (key, value) in wrong.as_object().into_iter().flatten() {
        operation[key] = value.clone();
    }
    scenario.command(json!({"operation": operation}));
    let mark = scenario.mark();
    scenario.leave(0).await;
    scenario
        .until_truth("the deletion goes wrong", |truth| {
            truth.status == "ACTIVE" && truth.all("cp-0", 1, left)
        })
        .await;
    scenario
        .until_metric(&scenario.held("release", "MemberDraining"))
        .await;
    scenario.until_gone(0).await;
    scenario
        .end_with(mark, &["PUT member", "DELETE member", "DELETE member"])
        .await;
}

/// A later ERROR is noticed, reported and repaired by an update. If that fails too, the member is deleted and created
/// again, because another machine serves.
async fn a_settled_member_turns_error(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    let mark = scenario.mark();
    scenario.slow("loadbalancer_member_update");
    scenario
        .command(json!({"set_status": {"object": scenario.member(1), "provisioning": "ERROR"}}));
    scenario
        .until_reported("cp-1", "MemberError", "is in ERROR; capo-rs repairs it")
        .await;
    scenario.until_well().await;
    assert_eq!(scenario.writes(mark), ["PUT member"]);

    scenario.command(json!({"operation": {"operation": "member-update", "name": "-cp-1", "fail": true, "count": 1}}));
    let mark = scenario.mark();
    scenario
        .command(json!({"set_status": {"object": scenario.member(1), "provisioning": "ERROR"}}));
    let held = scenario
        .until_machine(1, "ERROR", |machine| {
            shows_condition(machine, "False", "MemberError", "")
        })
        .await;
    assert!(is_provisioned(&held), "an admitted machine stays so");
    scenario.until_reported("c", "MemberError", "cp-1: ").await;
    scenario
        .until_truth("the member is recreated", |_| {
            scenario.writes(mark).len() == 3
        })
        .await;
    scenario
        .end_with(mark, &["PUT member", "DELETE member", "POST member"])
        .await;
}

/// `split-revert`: the load balancer turns ACTIVE three times, seconds before the last members turn ERROR.
async fn a_batch_fails_group_by_group(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    scenario.command(json!({"hold": {"member": "-cp-2", "status": "PENDING_CREATE", "count": 1}}));
    scenario.join(2).await;
    scenario
        .until_reported("cp-2", "MemberPending", "is PENDING")
        .await;
    scenario.command(
        json!({"operation": {"operation": "member-batch", "anomaly": "split-revert", "gap": 3, "count": 1}}),
    );
    let mut members = scenario.listed();
    members.push(json!({"name": "stranger", "address": "10.6.0.250", "protocol_port": 6443}));
    let path = format!("pools/{}/members", scenario.pool());
    let mark = scenario.mark();
    scenario
        .octavia(
            "demo",
            Method::PUT,
            &path,
            Some(json!({"members": members})),
        )
        .await;
    scenario.leave(0).await;
    scenario
        .until_truth("a group is unlocked before the next one", |truth| {
            truth.status == "ACTIVE" && truth.all("cp-1", 1, "ERROR")
        })
        .await;
    scenario.until_admitted(2).await;
    scenario.until_gone(0).await;
    let truth = scenario.truth();
    assert!(
        truth.members.iter().any(|member| member.name == "stranger"),
        "{truth:?}"
    );
    // Of the members that may serve, only the one of the deleted machine was deleted.
    let writes = scenario.writes(mark);
    let deleted = writes
        .iter()
        .filter(|write| *write == "DELETE member")
        .count();
    assert!(deleted <= 2, "{writes:?}");
    scenario.end().await;
}

/// `failed`: every member is in ERROR while all of them serve. A deletion that is requested in the meantime waits.
async fn a_failed_additive_batch_removes_no_member(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 3).await;
    scenario.command(
        json!({"operation": {"operation": "member-batch", "anomaly": "failed", "count": 1}}),
    );
    // The first repair takes so long that the deletion is requested before any member is ACTIVE again.
    scenario
        .command(json!({"operation": {"operation": "member-update", "duration": 15, "count": 1}}));
    let path = format!("pools/{}/members?additive_only=true", scenario.pool());
    let mark = scenario.mark();
    scenario
        .octavia("demo", Method::PUT, &path, Some(json!({"members": []})))
        .await;
    scenario.leave(0).await;
    // One of them may be under repair already.
    scenario
        .until_truth("all are in ERROR", |truth| {
            let mut left = truth
                .members
                .iter()
                .filter(|member| member.status != "ERROR");
            left.next()
                .is_none_or(|first| first.status == "PENDING_UPDATE")
                && left.next().is_none()
        })
        .await;
    scenario
        .until_reported("cp-0", "NoOtherMemberServing", "its member is not ACTIVE")
        .await;
    scenario.until_reported("c", "MemberError", "").await;
    scenario.until_gone(0).await;
    scenario.until_well().await;
    // The machine may be deleted as soon as one other machine serves again, before the third member is repaired.
    let writes = scenario.writes(mark);
    assert_eq!(writes[..2], ["PUT member", "PUT member"], "{writes:?}");
    let deleted = writes
        .iter()
        .filter(|write| *write == "DELETE member")
        .count();
    assert_eq!(
        deleted, 1,
        "only the member that leaves is deleted: {writes:?}"
    );
    println!("{name}: {writes:?}");
    scenario.end().await;
}

/// `failed`: the member was never applied, so it is deleted and created again.
async fn the_load_balancer_fails(name: &'static str) {
    let scenario = ClusterUnderTest::empty(name, Shape::default()).await;
    scenario.command(
        json!({"operation": {"operation": "load-balancer-create", "anomaly": "failed", "count": 1}}),
    );
    scenario.cluster(Shape::default(), json!({})).await;
    scenario.until_cluster(is_provisioned).await;
    let writes = scenario.writes(0);
    assert_eq!(
        writes[..3],
        [
            "POST loadbalancer",
            "DELETE loadbalancer",
            "POST loadbalancer"
        ],
        "{writes:?}"
    );
    scenario.join(0).await;
    scenario.until_admitted(0).await;
    let _: Value = scenario
        .until_cluster(|cluster| shows_condition(cluster, "True", "MembersActive", ""))
        .await;
    scenario.end().await;
}

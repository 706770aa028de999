//! PENDING statuses under an ACTIVE load balancer that never end, and those that end by themselves, and reads that lag
//! behind. The names of the anomalies are those of the table in `tests/fake_cloud/README.md`.

use serde_json::json;

use super::{
    Scenario,
    cluster_under_test::{ClusterUnderTest, Shape, is_provisioned, shows_condition},
    failed::a_deletion_is_requested_again,
    scenarios,
};

const LOST: &str = "is PENDING though the load balancer is ACTIVE; capo-rs repairs it";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "lost-create": a_creation_is_lost,
        "lost-second-port": a_creation_on_the_second_port_is_lost,
        "settled-pending": a_settled_member_turns_pending,
        "lost-delete": a_deletion_is_lost,
        "database-outage": the_database_is_away,
        "partial-report": a_provider_forgets_the_member,
        "early-active": the_load_balancer_is_active_early,
        "listener-pending": the_worker_dies_before_the_listeners,
        "certificate-error": a_listener_misses_its_certificate,
        "stale-reads": another_node_answers,
    ]
}

/// The creation of a member fails in this way.
fn anomaly(name: &str, member: &str) -> serde_json::Value {
    json!({"operation": {"operation": "member-create", "name": member, "anomaly": name, "count": 1}})
}

/// `lost-error-write`: an anomaly that was observed with amphorav2.
async fn a_creation_is_lost(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(anomaly("lost-error-write", "-cp-1"));
    scenario.slow("loadbalancer_member_delete");
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_held(1, "MemberPending", "").await;
    scenario.until_reported("cp-1", "MemberPending", LOST).await;
    scenario.until_admitted(1).await;
    scenario
        .end_with(mark, &["POST member", "DELETE member", "POST member"])
        .await;
}

/// `lost-error-write` on one of two ports: the machine is not admitted because of the other port.
async fn a_creation_on_the_second_port_is_lost(name: &'static str) {
    let shape = Shape {
        more_ports: &[8443],
        ..Shape::default()
    };
    let scenario = ClusterUnderTest::with(name, shape, 1).await;
    scenario.command(anomaly("lost-error-write", "-8443-cp-1"));
    scenario.join(1).await;
    scenario
        .until_held(1, "MemberPending", "on port 8443")
        .await;
    let truth = scenario.truth();
    let on = |port| truth.of_machine("cp-1").find(|member| member.port == port);
    assert_eq!(
        on(6443).map(|member| member.status.as_str()),
        Some("ACTIVE")
    );
    scenario.until_admitted(1).await;
    scenario.until_well().await;
    assert_eq!(
        scenario.truth().of_machine("cp-1").count(),
        scenario.ports()
    );
    scenario.end().await;
}

/// `lost-error-write`: an admitted machine's member is not deleted because of it.
async fn a_settled_member_turns_pending(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    scenario.slow("loadbalancer_member_update");
    let mark = scenario.mark();
    scenario.command(
        json!({"set_status": {"object": scenario.member(1), "provisioning": "PENDING_UPDATE"}}),
    );
    scenario.until_reported("cp-1", "MemberPending", LOST).await;
    scenario.end_with(mark, &["PUT member"]).await;
}

/// `lost-error-write`: no worker will ever end the change.
async fn a_deletion_is_lost(name: &'static str) {
    a_deletion_is_requested_again(
        name,
        &json!({"anomaly": "lost-error-write"}),
        "PENDING_DELETE",
    )
    .await;
}

/// `database-outage`: listener and pool also stay PENDING, so every write of a member is answered with 409. The pool is
/// updated first.
async fn the_database_is_away(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    scenario.command(json!({"operation": {"operation": "member-create", "name": "-cp-2", "anomaly": "database-outage", "gap": 2, "count": 1}}));
    let mark = scenario.mark();
    scenario.join(2).await;
    scenario
        .until_truth("the load balancer alone is ACTIVE", |truth| {
            truth.status == "ACTIVE" && truth.pools[0].1 == "PENDING_UPDATE"
        })
        .await;
    scenario.until_held(2, "MemberPending", "").await;
    scenario.until_admitted(2).await;
    scenario
        .end_with(
            mark,
            &["POST member", "PUT pool", "DELETE member", "POST member"],
        )
        .await;
}

/// `partial-report`: an unknown provider reports the statuses of all objects except the member.
async fn a_provider_forgets_the_member(name: &'static str) {
    let shape = Shape {
        provider: "f5",
        ..Shape::default()
    };
    let scenario = ClusterUnderTest::with(name, shape, 1).await;
    scenario.command(anomaly("partial-report", "-cp-1"));
    scenario.slow("loadbalancer_member_delete");
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_reported("cp-1", "MemberPending", LOST).await;
    scenario.until_admitted(1).await;
    scenario
        .until_machine(1, "the profile", |machine| {
            shows_condition(machine, "True", "MembersActive", "provider profile other")
        })
        .await;
    scenario
        .end_with(mark, &["POST member", "DELETE member", "POST member"])
        .await;
}

/// `early-active`: load balancer, pool and listener are ACTIVE seconds before the member.
async fn the_load_balancer_is_active_early(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    let mark = scenario.mark();
    scenario.join_under_an_early_active().await;
    scenario.until_admitted(1).await;
    scenario.end_with(mark, &["POST member"]).await;
}

/// `listeners-left-pending`: the member is ACTIVE, so that its machine is admitted; the listener is repaired by an
/// update.
async fn the_worker_dies_before_the_listeners(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(anomaly("listeners-left-pending", "-cp-1"));
    scenario.slow("loadbalancer_listener_update");
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_admitted(1).await;
    scenario
        .until_reported("c", "LoadBalancerPending", "")
        .await;
    scenario.until_well().await;
    // If the write that enables the member comes before the repair, it also frees the listener.
    let writes = scenario.writes(mark);
    let is_expected = [
        &["POST member", "PUT member"][..],
        &["POST member", "PUT listener"],
        &["POST member", "PUT listener", "PUT member"],
    ]
    .iter()
    .any(|expected| writes == *expected);
    assert!(is_expected, "{writes:?}");
    scenario.end().await;
}

/// `certificate-error`: the listener is in ERROR. The cluster's condition Ready shows that at once, and the listener is
/// repaired by an update.
async fn a_listener_misses_its_certificate(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(anomaly("certificate-error", "-cp-1"));
    scenario.slow("loadbalancer_listener_update");
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario
        .until_reported(
            "c",
            "LoadBalancerError",
            "The listener of port 6443 is in ERROR",
        )
        .await;
    scenario.until_admitted(1).await;
    scenario
        .end_with(mark, &["POST member", "PUT listener"])
        .await;
}

/// `stale-reads`: reads do not return a new object for a while. It is not created twice.
async fn another_node_answers(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(json!({"operation": {"operation": "member-create", "name": "-cp-1", "anomaly": "stale-reads", "gap": 4, "count": 1}}));
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_admitted(1).await;
    let made = scenario.writes(mark);
    assert_eq!(
        made.iter().filter(|write| *write == "POST member").count(),
        1,
        "{made:?}"
    );
    assert!(is_provisioned(
        &scenario.until_cluster(|cluster| !cluster.is_null()).await
    ));
    scenario.end().await;
}

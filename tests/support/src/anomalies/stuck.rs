//! Members and load balancer stay PENDING: the manager can only hold, report it with growing severity, and continue
//! after the operator has freed the load balancer.

use reqwest::Method;
use serde_json::json;

use super::{
    Scenario,
    cluster_under_test::{ClusterUnderTest, Shape, is_provisioned, shows_condition},
    scenarios,
};
use crate::env::cluster_api::condition;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "stuck-create": a_worker_dies_for_good,
        "stuck-jobboard": another_worker_takes_over,
        "stuck-drain": a_worker_dies_in_a_drain,
        "stuck-failover": the_operator_frees_it_by_a_failover,
    ]
}

fn killed(operation: &str, member: &str, gap: f64) -> serde_json::Value {
    json!({"operation": {"operation": operation, "name": member, "anomaly": "worker-killed", "gap": gap, "count": 1}})
}

async fn a_worker_dies_for_good(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(killed("member-create", "-cp-1", 0.0));
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_held(1, "MemberPending", "").await;
    // After the first threshold the cluster's Ready reports it, after the second the metric, and after the last it
    // counts as stuck.
    scenario
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "False")
        })
        .await;
    scenario
        .until_metric(&format!(
            r#"capo_lb_members_stuck{{cluster_name="c",cluster_namespace="{name}",port="6443"}}"#
        ))
        .await;
    scenario
        .until_reported(
            "c",
            "MemberPending",
            "; members have been PENDING for far longer than Octavia usually takes",
        )
        .await;
    scenario
        .until_reported(
            "c",
            "MemberPending",
            "; members are stuck in a PENDING status",
        )
        .await;
    assert_eq!(
        scenario.writes(mark),
        ["POST member"],
        "nothing can be done"
    );
    scenario.command(json!({"resume": ""}));
    scenario.until_admitted(1).await;
    scenario.until_well().await;
    scenario
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "True")
        })
        .await;
    scenario.assert_writes(mark, &["POST member"]);
    scenario.end().await;
}

async fn another_worker_takes_over(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(killed("member-create", "-cp-1", 12.0));
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_held(1, "MemberPending", "").await;
    scenario.until_admitted(1).await;
    scenario.end_with(mark, &["POST member"]).await;
}

async fn a_worker_dies_in_a_drain(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    scenario.command(killed("member-update", "-cp-0", 0.0));
    let mark = scenario.mark();
    scenario.leave(0).await;
    scenario
        .until_truth("the drain hangs", |truth| {
            truth.status == "PENDING_UPDATE" && truth.all("cp-0", 1, "PENDING_UPDATE")
        })
        .await;
    scenario
        .until_metric(&scenario.held("release", "MemberDraining"))
        .await;
    scenario
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "False")
        })
        .await;
    assert_eq!(scenario.writes(mark), ["PUT member"]);
    scenario.command(json!({"resume": ""}));
    scenario.until_gone(0).await;
    scenario
        .end_with(mark, &["PUT member", "DELETE member"])
        .await;
}

/// The steps of an operator without a jobboard: the load balancer is set to ERROR by SQL, then a failover. The manager
/// does not create the load balancer again in the meantime, because machines depend on it.
async fn the_operator_frees_it_by_a_failover(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(killed("member-create", "-cp-1", 0.0));
    let mark = scenario.mark();
    scenario.join(1).await;
    scenario.until_held(1, "MemberPending", "").await;
    let id = scenario.truth().id;
    scenario.command(json!({"set_status": {"object": id, "provisioning": "ERROR"}}));
    scenario
        .until_cluster(|cluster| {
            shows_condition(
                cluster,
                "False",
                "LoadBalancerError",
                "openstack loadbalancer failover",
            )
        })
        .await;
    let held = scenario
        .until_machine(1, "held", |machine| {
            shows_condition(machine, "False", "LoadBalancerError", "")
        })
        .await;
    assert!(!is_provisioned(&held));
    scenario
        .octavia(
            "admin",
            Method::PUT,
            &format!("loadbalancers/{id}/failover"),
            None,
        )
        .await;
    scenario.until_admitted(1).await;
    scenario.end_with(mark, &["POST member"]).await;
}

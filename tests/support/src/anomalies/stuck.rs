//! Members and load balancer stay PENDING: the manager can only hold, report it with growing severity, and continue
//! after the operator has freed the load balancer.

use reqwest::Method;
use serde_json::json;

use super::{
    Scenario, scenarios,
    scene::{Scene, Shape, is_provisioned, tells},
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
    let scene = Scene::with(name, Shape::default(), 1).await;
    scene.strike(killed("member-create", "-cp-1", 0.0));
    let mark = scene.mark();
    scene.join(1).await;
    scene.until_held(1, "MemberPending", "").await;
    // After the first threshold the cluster's Ready reports it, after the second the metric, and after the last it
    // counts as stuck.
    scene
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "False")
        })
        .await;
    scene
        .until_metric(&format!(
            r#"capo_lb_members_stuck{{cluster_name="c",cluster_namespace="{name}",port="6443"}}"#
        ))
        .await;
    scene
        .until_told("c", "MemberPending", "; for far longer than")
        .await;
    scene.until_told("c", "MemberPending", "; stuck").await;
    assert_eq!(scene.writes(mark), ["POST member"], "nothing can be done");
    scene.strike(json!({"resume": ""}));
    scene.until_admitted(1).await;
    scene.until_well().await;
    scene
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "True")
        })
        .await;
    scene.assert_writes(mark, &["POST member"]);
    scene.end().await;
}

async fn another_worker_takes_over(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 1).await;
    scene.strike(killed("member-create", "-cp-1", 12.0));
    let mark = scene.mark();
    scene.join(1).await;
    scene.until_held(1, "MemberPending", "").await;
    scene.until_admitted(1).await;
    scene.end_with(mark, &["POST member"]).await;
}

async fn a_worker_dies_in_a_drain(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 2).await;
    scene.strike(killed("member-update", "-cp-0", 0.0));
    let mark = scene.mark();
    scene.leave(0).await;
    scene
        .until_true("the drain hangs", |truth| {
            truth.status == "PENDING_UPDATE" && truth.all("cp-0", 1, "PENDING_UPDATE")
        })
        .await;
    scene
        .until_metric(&scene.held("release", "MemberDraining"))
        .await;
    scene
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "False")
        })
        .await;
    assert_eq!(scene.writes(mark), ["PUT member"]);
    scene.strike(json!({"resume": ""}));
    scene.until_gone(0).await;
    scene.end_with(mark, &["PUT member", "DELETE member"]).await;
}

/// The steps of an operator without a jobboard: the load balancer is set to ERROR by SQL, then a failover. The manager
/// does not create the load balancer again in the meantime, because machines depend on it.
async fn the_operator_frees_it_by_a_failover(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 1).await;
    scene.strike(killed("member-create", "-cp-1", 0.0));
    let mark = scene.mark();
    scene.join(1).await;
    scene.until_held(1, "MemberPending", "").await;
    let id = scene.truth().id;
    scene.strike(json!({"set_status": {"object": id, "provisioning": "ERROR"}}));
    scene
        .until_cluster(|cluster| {
            tells(
                cluster,
                "False",
                "LoadBalancerError",
                "openstack loadbalancer failover",
            )
        })
        .await;
    let held = scene
        .until_machine(1, "held", |machine| {
            tells(machine, "False", "LoadBalancerError", "")
        })
        .await;
    assert!(!is_provisioned(&held));
    scene
        .octavia(
            "admin",
            Method::PUT,
            &format!("loadbalancers/{id}/failover"),
            None,
        )
        .await;
    scene.until_admitted(1).await;
    scene.end_with(mark, &["POST member"]).await;
}

//! Members that read ACTIVE but do not serve, and objects that turn ACTIVE without the manager. The names of the
//! anomalies are those of the table in `tests/fake_cloud/README.md`.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    Scenario,
    cluster_under_test::{
        ClusterUnderTest, Shape, condition_text, is_provisioned, shows_condition,
    },
    scenarios,
    truth::Truth,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "whitewash": an_additive_batch_whitewashes,
        "failover": a_failover_makes_all_active,
        "push-swallowed": a_push_is_swallowed,
        "unattached-pool": an_unattached_pool_stays_pending,
        "no-listener": the_listener_is_deleted_by_hand,
        "batch-not-applied": a_batch_is_not_applied,
    ]
}

/// `whitewash`: another client's batch turns a member ACTIVE whose creation was lost. A member that Octavia reports
/// ACTIVE is admitted.
async fn an_additive_batch_whitewashes(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    let mark = scenario.mark();
    lose_the_second_creation(&scenario).await;
    let path = format!("pools/{}/members?additive_only=true", scenario.pool());
    scenario
        .octavia("demo", Method::PUT, &path, Some(json!({"members": []})))
        .await;
    scenario.until_admitted(1).await;
    scenario.end_with(mark, &["POST member"]).await;
}

/// The second creation is lost, and the manager has not noticed it yet.
async fn lose_the_second_creation(scenario: &ClusterUnderTest) {
    scenario.command(json!({"operation": {"operation": "member-create", "name": "-cp-1", "anomaly": "lost-error-write", "count": 1}}));
    scenario.join(1).await;
    scenario
        .until_truth("the creation is lost", |truth| {
            truth.status == "ACTIVE" && truth.all("cp-1", 1, "PENDING_CREATE")
        })
        .await;
}

/// The operator's failover ends the changes that hung. No gate opens before the failover has ended.
async fn a_failover_makes_all_active(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    let mark = scenario.mark();
    lose_the_second_creation(&scenario).await;
    let path = format!("loadbalancers/{}/failover", scenario.truth().id);
    scenario.octavia("admin", Method::PUT, &path, None).await;
    scenario.until_admitted(1).await;
    scenario.end_with(mark, &["POST member"]).await;
}

/// `push-swallowed`: ACTIVE opens the admission, because no other evidence exists before the API server listens. The
/// old member is kept until the new one is seen ONLINE. The push that is lost is the one that enables the new member,
/// because a later push would apply what an earlier one had lost.
async fn a_push_is_swallowed(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 1).await;
    scenario.command(json!({"operation": {"operation": "member-update", "name": "-cp-1", "anomaly": "push-swallowed", "count": 1}}));
    scenario.join(1).await;
    scenario.until_admitted(1).await;
    the_first_is_held_until_a_failover(scenario).await;
}

/// A new member gets no connections although all statuses are ACTIVE. The old machine stays until a failover has
/// applied the new member.
async fn the_first_is_held_until_a_failover(scenario: ClusterUnderTest) {
    scenario.hold_the_first().await;
    let path = format!("loadbalancers/{}/failover", scenario.truth().id);
    scenario.octavia("admin", Method::PUT, &path, None).await;
    scenario.until_gone(0).await;
    scenario.until_well().await;
    scenario.end().await;
}

/// `unattached-pools-pending`: a load balancer that was created in one request, with its listeners and pools, is taken
/// over by its name. A pool without a listener that stays PENDING in it does not belong to capo-rs and holds no gate.
async fn an_unattached_pool_stays_pending(name: &'static str) {
    let scenario = ClusterUnderTest::empty(name, Shape::default()).await;
    let raw = scenario.user("demo").await;
    let network = |path: &str| raw.address("network", path);
    let (_, made) = raw
        .send(
            Method::POST,
            &network("networks"),
            Some(json!({"network": {"name": name}})),
        )
        .await;
    let network_id = made["network"]["id"].clone();
    let subnet = json!({"subnet": {"name": name, "network_id": network_id, "cidr": "10.6.0.0/24", "ip_version": 4}});
    let (_, made) = raw
        .send(Method::POST, &network("subnets"), Some(subnet))
        .await;
    let subnet = made["subnet"]["id"].clone();
    scenario.command(
        json!({"operation": {"operation": "load-balancer-create", "anomaly": "unattached-pools-pending", "count": 1}}),
    );
    let balancer = format!("k8s-clusterapi-cluster-{name}-c-kubeapi");
    let port = format!("{balancer}-6443");
    let graph = json!({"loadbalancer": {
        "name": balancer, "vip_subnet_id": subnet, "provider": "amphorav2",
        "listeners": [{"name": port, "protocol": "TCP", "protocol_port": 6443, "default_pool":
            {"name": port, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}}],
        "pools": [{"name": "unattached", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}]}});
    scenario
        .octavia("demo", Method::POST, "loadbalancers", Some(graph))
        .await;
    scenario
        .until_truth("the pool stays PENDING", |truth| {
            truth.status == "ACTIVE"
                && truth
                    .pools
                    .iter()
                    .any(|(_, status)| status == "PENDING_CREATE")
        })
        .await;
    scenario
        .cluster(
            Shape::default(),
            // The address is not routed, which is the operator's task and not part of this test.
            json!({"managedSubnets": Value::Null, "network": {"id": network_id}, "subnets": [{"id": subnet}],
                "enableExternalNetwork": false, "apiServer": {"enableFloatingIP": false,
                    "managedLoadBalancer": {"provider": "amphorav2"}}}),
        )
        .await;
    scenario.until_cluster(is_provisioned).await;
    scenario.join(0).await;
    scenario.until_admitted(0).await;
    scenario
        .until_cluster(|cluster| shows_condition(cluster, "True", "MembersActive", ""))
        .await;
    let writes = scenario.writes(0);
    assert!(
        !writes.iter().any(|write| write.ends_with("loadbalancer")),
        "{writes:?}"
    );
    assert!(
        scenario
            .truth()
            .pools
            .iter()
            .any(|(_, status)| status == "PENDING_CREATE"),
        "left alone"
    );
    scenario.end().await;
}

/// A pool without a listener is never pushed, although its members still read ACTIVE. The listener is created again,
/// and no gate opens before that.
async fn the_listener_is_deleted_by_hand(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    let listeners = scenario
        .octavia("demo", Method::GET, "listeners", None)
        .await;
    let path = format!(
        "listeners/{}",
        listeners["listeners"][0]["id"].as_str().unwrap()
    );
    let mark = scenario.mark();
    scenario.watch.excused.store(true, Ordering::SeqCst);
    scenario.octavia("demo", Method::DELETE, &path, None).await;
    scenario.leave(0).await;
    scenario
        .until_truth("the member is recreated", |truth| {
            truth.is_well() && truth.in_data_path.len() == 2 && !truth.listeners.is_empty()
        })
        .await;
    scenario.watch.excused.store(false, Ordering::SeqCst);
    let machine = scenario
        .until_machine(0, "still there", |machine| !machine.is_null())
        .await;
    assert!(
        machine["metadata"]["deletionTimestamp"].is_null(),
        "{}",
        condition_text(&machine)
    );
    assert_eq!(scenario.writes(mark), ["POST listener", "PUT listener"]);
    scenario.until_gone(0).await;
    scenario.until_well().await;
    scenario.end().await;
}

/// Another client's batch sets the weight of a drained member again, but the change does not reach the amphora. The
/// member reads ACTIVE with that weight, and counts for no other machine's release until it is ONLINE.
async fn a_batch_is_not_applied(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, Shape::default(), 2).await;
    let path = format!("pools/{}/members", scenario.pool());
    let own = scenario.member(1);
    let mut members = scenario.listed();
    let mut weigh = |weight: u64| {
        for member in members.iter_mut().filter(|member| member["name"] == own) {
            member["weight"] = json!(weight);
        }
        Some(json!({"members": members}))
    };
    let (none, full) = (weigh(0), weigh(1));
    scenario.octavia("demo", Method::PUT, &path, none).await;
    let has = |truth: &Truth, weight: u64, operating: &str| {
        let mut members = truth.of_machine("cp-1");
        members.all(|member| member.weight == weight && member.operating == operating)
    };
    scenario
        .until_truth("it is drained", |truth| has(truth, 0, "DRAINING"))
        .await;
    scenario.command(
        json!({"operation": {"operation": "member-batch", "anomaly": "not-applied", "count": 1}}),
    );
    scenario.octavia("demo", Method::PUT, &path, full).await;
    scenario
        .until_truth("it reads as if it got connections", |truth| {
            truth.is_well() && has(truth, 1, "DRAINING")
        })
        .await;
    the_first_is_held_until_a_failover(scenario).await;
}

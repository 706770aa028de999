//! ACTIVE that is not the truth, and what turns ACTIVE without us (E, G, I and "ACTIVE but not applied").

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    Scenario, scenarios,
    scene::{Scene, Shape, is_provisioned, tells, told},
    truth::Truth,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "e-whitewash": an_additive_batch_whitewashes,
        "g-failover": a_failover_makes_all_active,
        "g-swallowed": a_push_is_swallowed,
        "i-unattached": an_unattached_pool_stays_pending,
        "no-listener": the_listener_is_deleted_by_hand,
        "batch-not-applied": a_batch_is_not_applied,
    ]
}

/// E: another client's batch turns a member ACTIVE whose creation was lost; what Octavia calls ACTIVE is admitted.
async fn an_additive_batch_whitewashes(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 1).await;
    let mark = scene.mark();
    lose_the_second_creation(&scene).await;
    let path = format!("pools/{}/members?additive_only=true", scene.pool());
    scene
        .octavia("demo", Method::PUT, &path, Some(json!({"members": []})))
        .await;
    scene.until_admitted(1).await;
    scene.end_with(mark, &["POST member"]).await;
}

/// C, and nobody has noticed yet.
async fn lose_the_second_creation(scene: &Scene) {
    scene.strike(json!({"operation": {"operation": "member-create", "name": "-cp-1", "anomaly": "C", "count": 1}}));
    scene.join(1).await;
    scene
        .until_true("the creation is lost", |truth| {
            truth.status == "ACTIVE" && truth.all("cp-1", 1, "PENDING_CREATE")
        })
        .await;
}

/// G: the operator's failover ends what hung; nothing opens before it has ended.
async fn a_failover_makes_all_active(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 1).await;
    let mark = scene.mark();
    lose_the_second_creation(&scene).await;
    let path = format!("loadbalancers/{}/failover", scene.truth().id);
    scene.octavia("admin", Method::PUT, &path, None).await;
    scene.until_admitted(1).await;
    scene.end_with(mark, &["POST member"]).await;
}

/// G: ACTIVE opens the admission, which is all that can be asked before anything listens; the old member is kept
/// all the same, until the new one is seen ONLINE.
async fn a_push_is_swallowed(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 1).await;
    scene.strike(json!({"operation": {"operation": "member-create", "name": "-cp-1", "anomaly": "G", "count": 1}}));
    scene.join(1).await;
    scene.until_admitted(1).await;
    the_first_is_held_until_a_failover(scene).await;
}

/// A new member gets no connections although all reads ACTIVE: the old one stays until a failover has applied it.
async fn the_first_is_held_until_a_failover(scene: Scene) {
    scene.hold_the_first().await;
    let path = format!("loadbalancers/{}/failover", scene.truth().id);
    scene.octavia("admin", Method::PUT, &path, None).await;
    scene.until_gone(0).await;
    scene.until_well().await;
    scene.end().await;
}

/// I: a load balancer that somebody made in one go is taken over by its name; a pool without a listener that is
/// PENDING for ever in it is none of ours and holds nothing.
async fn an_unattached_pool_stays_pending(name: &'static str) {
    let scene = Scene::empty(name, Shape::default()).await;
    let raw = scene.user("demo").await;
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
    scene.strike(
        json!({"operation": {"operation": "load-balancer-create", "anomaly": "I", "count": 1}}),
    );
    let balancer = format!("k8s-clusterapi-cluster-{name}-c-kubeapi");
    let port = format!("{balancer}-6443");
    let graph = json!({"loadbalancer": {
        "name": balancer, "vip_subnet_id": subnet, "provider": "amphorav2",
        "listeners": [{"name": port, "protocol": "TCP", "protocol_port": 6443, "default_pool":
            {"name": port, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}}],
        "pools": [{"name": "unattached", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}]}});
    scene
        .octavia("demo", Method::POST, "loadbalancers", Some(graph))
        .await;
    scene
        .until_true("the pool stays PENDING", |truth| {
            truth.status == "ACTIVE"
                && truth
                    .pools
                    .iter()
                    .any(|(_, status)| status == "PENDING_CREATE")
        })
        .await;
    scene
        .cluster(
            Shape::default(),
            // Not routed: that is the operator's business, and not what this is about.
            json!({"managedSubnets": Value::Null, "network": {"id": network_id}, "subnets": [{"id": subnet}],
                "enableExternalNetwork": false, "apiServer": {"enableFloatingIP": false,
                    "managedLoadBalancer": {"provider": "amphorav2"}}}),
        )
        .await;
    scene.until_cluster(is_provisioned).await;
    scene.join(0).await;
    scene.until_admitted(0).await;
    scene
        .until_cluster(|cluster| tells(cluster, "True", "MembersActive", ""))
        .await;
    let writes = scene.writes(0);
    assert!(
        !writes.iter().any(|write| write.ends_with("loadbalancer")),
        "{writes:?}"
    );
    assert!(
        scene
            .truth()
            .pools
            .iter()
            .any(|(_, status)| status == "PENDING_CREATE"),
        "left alone"
    );
    scene.end().await;
}

/// A pool without a listener is pushed to nobody, while its members go on reading ACTIVE: the listener is made
/// anew and nothing is let go before.
async fn the_listener_is_deleted_by_hand(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 2).await;
    let listeners = scene.octavia("demo", Method::GET, "listeners", None).await;
    let path = format!(
        "listeners/{}",
        listeners["listeners"][0]["id"].as_str().unwrap()
    );
    let mark = scene.mark();
    scene.watch.excused.store(true, Ordering::SeqCst);
    scene.octavia("demo", Method::DELETE, &path, None).await;
    scene.leave(0).await;
    scene
        .until_true("it is made anew", |truth| {
            truth.is_well() && truth.in_data_path.len() == 2 && !truth.listeners.is_empty()
        })
        .await;
    scene.watch.excused.store(false, Ordering::SeqCst);
    let machine = scene
        .until_machine(0, "still there", |machine| !machine.is_null())
        .await;
    assert!(
        machine["metadata"]["deletionTimestamp"].is_null(),
        "{}",
        told(&machine)
    );
    assert_eq!(scene.writes(mark), ["POST listener", "PUT listener"]);
    scene.until_gone(0).await;
    scene.until_well().await;
    scene.end().await;
}

/// Another client's batch gives a drained member its weight back, and the amphora never hears of it. The member reads
/// ACTIVE with that weight, and counts for nobody's release until it is ONLINE.
async fn a_batch_is_not_applied(name: &'static str) {
    let scene = Scene::with(name, Shape::default(), 2).await;
    let path = format!("pools/{}/members", scene.pool());
    let own = scene.member(1);
    let mut members = scene.listed();
    let mut weigh = |weight: u64| {
        for member in members.iter_mut().filter(|member| member["name"] == own) {
            member["weight"] = json!(weight);
        }
        Some(json!({"members": members}))
    };
    let (none, full) = (weigh(0), weigh(1));
    scene.octavia("demo", Method::PUT, &path, none).await;
    let has = |truth: &Truth, weight: u64, operating: &str| {
        let mut members = truth.of_machine("cp-1");
        members.all(|member| member.weight == weight && member.operating == operating)
    };
    scene
        .until_true("it is drained", |truth| has(truth, 0, "DRAINING"))
        .await;
    scene.strike(
        json!({"operation": {"operation": "member-batch", "anomaly": "not-applied", "count": 1}}),
    );
    scene.octavia("demo", Method::PUT, &path, full).await;
    scene
        .until_true("it reads as if it got connections", |truth| {
            truth.is_well() && has(truth, 1, "DRAINING")
        })
        .await;
    the_first_is_held_until_a_failover(scene).await;
}

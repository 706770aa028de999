//! Behaviour of real clouds that the API documentation does not describe.

use serde_json::{Value, json};

use super::{Balancer, Pure};

fn with(operation: &str, anomaly: &str, gap: f64) -> (Pure, Balancer) {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.settled(&at, "m1", "10.6.0.10");
    cloud.command(json!({ "operation": { "operation": operation, "anomaly": anomaly, "gap": gap, "count": 1 } }));
    (cloud, at)
}

/// The enabled members in the data path, with their weights.
fn running(cloud: &Pure, at: &Balancer) -> Vec<(String, u64)> {
    let applied = cloud.world.octavia.applied.get(&at.lb).unwrap();
    applied[0]
        .pool
        .iter()
        .flat_map(|pool| &pool.members)
        .filter(|member| member.enabled)
        .map(|member| (member.id.clone(), member.weight))
        .collect()
}

#[test]
fn a_failing_batch_unlocks_group_by_group() {
    let (mut cloud, at) = with("member-batch", "split-revert", 0.9);
    let members = json!({ "members": [
        { "name": "m1", "address": "10.6.0.10", "protocol_port": 6443 },
        { "name": "m2", "address": "10.6.0.11", "protocol_port": 6443 },
    ] });
    cloud.lb("PUT", &format!("pools/{}/members", at.pool), members);
    let history = cloud.status_history(&at, 5.0);
    assert!(
        history.contains(&"A A A m1:E m2:PC".to_owned()),
        "{history:?}"
    );
    assert_eq!(history.last().map(String::as_str), Some("A A A m1:E m2:E"));
}

#[test]
fn the_write_of_error_is_lost() {
    let (mut cloud, at) = with("member-create", "lost-error-write", 0.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(600.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:PC", "for ever");
}

#[test]
fn the_database_is_away_during_the_revert() {
    let (mut cloud, at) = with("member-create", "database-outage", 2.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(600.0);
    assert_eq!(cloud.statuses(&at), "A PU PU m1:A m2:PC");
    let (status, _) = cloud.lb(
        "DELETE",
        &format!("loadbalancers/{}?cascade=true", at.lb),
        Value::Null,
    );
    assert_eq!(status, 204, "the load balancer itself is free");
}

#[test]
fn a_failover_makes_everything_active() {
    let (mut cloud, at) = with("member-create", "lost-error-write", 0.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(5.0);
    let (status, _) = cloud.lb(
        "PUT",
        &format!("loadbalancers/{}/failover", at.lb),
        Value::Null,
    );
    assert_eq!(status, 403, "not for members of a project");
    cloud.admin();
    let (status, _) = cloud.lb(
        "PUT",
        &format!("loadbalancers/{}/failover", at.lb),
        Value::Null,
    );
    assert_eq!(status, 202);
    assert_eq!(
        cloud.statuses(&at),
        "PU A A m1:A m2:PC",
        "children are not touched before the end"
    );
    cloud.pass(5.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A");
}

#[test]
fn parents_are_active_early() {
    let (mut cloud, at) = with("member-create", "early-active", 0.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(0.8);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:PC");
    cloud.pass(1.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A");
}

#[test]
fn listeners_stay_pending() {
    let (mut cloud, at) = with("member-create", "listeners-left-pending", 0.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(60.0);
    assert_eq!(cloud.statuses(&at), "A PU A m1:A m2:A");
}

#[test]
fn a_listener_without_its_certificate_is_in_error() {
    let (mut cloud, at) = with("member-create", "certificate-error", 0.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(60.0);
    assert_eq!(cloud.statuses(&at), "A E A m1:A m2:A");
}

#[test]
fn the_provider_forgets_the_member() {
    let (mut cloud, at) = with("member-create", "partial-report", 0.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(60.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:PC");
}

#[test]
fn reads_lag_behind() {
    let (mut cloud, at) = with("member-create", "stale-reads", 0.5);
    let member = cloud.member(&at, "m2", "10.6.0.11");
    assert_eq!(cloud.statuses(&at), "A A A m1:A", "the state before");
    let (status, _) = cloud.lb(
        "GET",
        &format!("pools/{}/members/{member}", at.pool),
        Value::Null,
    );
    assert_eq!(status, 404);
    cloud.pass(0.6);
    assert_eq!(cloud.statuses(&at), "PU PU PU m1:A m2:PC");
}

#[test]
fn pools_without_a_listener_stay_pending() {
    let mut cloud = Pure::new();
    let (_, subnet) = cloud.network("10.6.0.0/24");
    cloud.command(json!({ "operation": { "operation": "load-balancer-create", "anomaly": "unattached-pools-pending" } }));
    let body = json!({ "loadbalancer": { "name": "lb", "vip_subnet_id": subnet,
        "pools": [{ "name": "po", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN" }] } });
    let (_, made) = cloud.lb("POST", "loadbalancers", body);
    let lb = super::id(&made, "loadbalancer");
    cloud.pass(20.0);
    let pools = cloud.get(&format!(
        "/load-balancer/v2/lbaas/pools?loadbalancer_id={lb}"
    ));
    assert_eq!(pools["pools"][0]["provisioning_status"], "PENDING_CREATE");
    let shown = cloud.get(&format!("/load-balancer/v2/lbaas/loadbalancers/{lb}"));
    assert_eq!(shown["loadbalancer"]["provisioning_status"], "ACTIVE");
}

#[test]
fn a_killed_worker_leaves_everything_pending_until_it_is_resumed() {
    let (mut cloud, at) = with("member-create", "worker-killed", 0.0);
    let member = cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(3600.0);
    assert_eq!(cloud.statuses(&at), "PU PU PU m1:A m2:PC");
    let (status, _) = cloud.lb(
        "DELETE",
        &format!("pools/{}/members/{member}", at.pool),
        Value::Null,
    );
    assert_eq!(status, 409);
    assert_eq!(
        cloud.command(json!({ "resume": "lb" })),
        json!({ "resumed": 1 })
    );
    cloud.pass(2.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A");
}

#[test]
fn with_a_jobboard_another_worker_continues_by_itself() {
    let (mut cloud, at) = with("member-create", "worker-killed", 30.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(29.0);
    assert_eq!(cloud.statuses(&at), "PU PU PU m1:A m2:PC");
    cloud.pass(3.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A");
}

#[test]
fn a_change_is_resumed_minutes_after_its_load_balancer_turned_active() {
    let (mut cloud, at) = with("member-create", "resumed-later", 300.0);
    cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(2.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:PC");
    cloud.pass(290.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:PC");
    assert_eq!(
        running(&cloud, &at).len(),
        1,
        "nothing was pushed to the amphora yet"
    );
    cloud.pass(20.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A");
    assert_eq!(running(&cloud, &at).len(), 2);
}

#[test]
fn a_resumed_change_releases_the_lock_of_whatever_runs_then() {
    let (mut cloud, at) = with("member-create", "resumed-later", 10.0);
    let member = cloud.member(&at, "m2", "10.6.0.11");
    cloud.pass(5.0);
    cloud.command(
        json!({ "operation": { "operation": "member-delete", "duration": 20.0, "count": 1 } }),
    );
    let path = format!("pools/{}/members/{member}", at.pool);
    assert_eq!(cloud.lb("DELETE", &path, Value::Null).0, 204);
    cloud.pass(4.0);
    assert_eq!(cloud.statuses(&at), "PU PU PU m1:A m2:PD");
    cloud.pass(5.0);
    assert_eq!(
        cloud.statuses(&at),
        "A A A m1:A m2:A",
        "two flows on one member: why a resumable one must be left alone"
    );
}

#[test]
fn a_member_ends_in_error_however_often_it_is_created() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.command(
        json!({ "operation": { "operation": "member-create", "name": "m1", "fail": true } }),
    );
    for _ in 0..3 {
        let member = cloud.settled(&at, "m1", "10.6.0.10");
        assert_eq!(cloud.statuses(&at), "A A A m1:E");
        let path = format!("pools/{}/members/{member}", at.pool);
        cloud.lb("DELETE", &path, Value::Null);
        cloud.pass(2.0);
        assert_eq!(cloud.statuses(&at), "A A A");
    }
}

#[test]
fn a_weight_and_an_admin_state_are_shown_and_never_reach_the_data_path() {
    for provider in ["amphora", "ovn"] {
        let mut cloud = Pure::new();
        let at = cloud.balancer(provider);
        let member = cloud.settled(&at, "m1", "10.6.0.10");
        cloud.command(
            json!({ "operation": { "operation": "member-update", "anomaly": "not-applied" } }),
        );
        let path = format!("pools/{}/members/{member}", at.pool);
        for change in [json!({ "weight": 0 }), json!({ "admin_state_up": false })] {
            cloud.lb("PUT", &path, json!({ "member": change }));
            cloud.pass(2.0);
        }
        let (_, shown) = cloud.lb("GET", &path, Value::Null);
        let shown = &shown["member"];
        assert_eq!(
            (&shown["weight"], &shown["admin_state_up"]),
            (&json!(0), &json!(false)),
            "{provider}"
        );
        assert_eq!(cloud.statuses(&at), "A A A m1:A", "{provider}");
        assert_eq!(running(&cloud, &at), [(member, 1)], "{provider}");
    }
}

#[test]
fn a_held_member_stays_as_held_below_active_until_released() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.command(
        json!({ "hold": { "member": "m2", "status": "PENDING_CREATE", "release_after": 20 } }),
    );
    cloud.command(json!({ "hold": { "member": "m3", "status": "ERROR" } }));
    for (name, address) in [
        ("m1", "10.6.0.10"),
        ("m2", "10.6.0.11"),
        ("m3", "10.6.0.12"),
    ] {
        cloud.settled(&at, name, address);
    }
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:PC m3:E");
    cloud.pass(20.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A m3:E");
    cloud.command(json!({ "release": "m3" }));
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:A m3:A");
    cloud.command(json!({ "hold": { "member": "m1", "status": "PENDING_UPDATE", "now": true } }));
    assert_eq!(cloud.statuses(&at), "A A A m1:PU m2:A m3:A");
}

#[test]
fn rules_skip_and_count() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.command(
        json!({ "operation": { "operation": "member-*", "fail": true, "skip": 1, "count": 1 } }),
    );
    for (name, address) in [
        ("m1", "10.6.0.10"),
        ("m2", "10.6.0.11"),
        ("m3", "10.6.0.12"),
    ] {
        cloud.settled(&at, name, address);
    }
    assert_eq!(cloud.statuses(&at), "A A A m1:A m2:E m3:A");
}

#[test]
fn the_data_path_keeps_the_old_configuration_when_a_push_fails() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    let first = cloud.settled(&at, "m1", "10.6.0.10");
    let path = format!("pools/{}/members/{first}", at.pool);
    cloud.command(
        json!({ "operation": { "operation": "member-update", "fail": true, "count": 1 } }),
    );
    cloud.lb("PUT", &path, json!({ "member": { "weight": 0 } }));
    cloud.pass(2.0);
    assert_eq!(
        running(&cloud, &at),
        [(first.clone(), 1)],
        "shown with weight 0, running with 1"
    );
    cloud.command(
        json!({ "operation": { "operation": "member-delete", "fail": true, "count": 1 } }),
    );
    cloud.lb("DELETE", &path, Value::Null);
    cloud.pass(2.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:E");
    let second = cloud.settled(&at, "m2", "10.6.0.11");
    assert_eq!(
        running(&cloud, &at),
        [(first, 0), (second.clone(), 1)],
        "a failed deletion is in the next push again"
    );
    cloud.command(json!({ "operation": { "operation": "member-create", "anomaly": "not-applied", "count": 1 } }));
    cloud.settled(&at, "m3", "10.6.0.12");
    assert_eq!(cloud.statuses(&at), "A A A m1:E m2:A m3:A");
    assert_eq!(running(&cloud, &at).len(), 2, "ACTIVE, not applied");
    cloud.command(json!({ "operation": { "operation": "member-batch", "anomaly": "old-values-pushed", "count": 1 } }));
    let drained =
        json!({ "members": [{ "address": "10.6.0.11", "protocol_port": 6443, "weight": 0 }] });
    cloud.lb(
        "PUT",
        &format!("pools/{}/members?additive_only=true", at.pool),
        drained,
    );
    cloud.pass(2.0);
    let second = running(&cloud, &at)
        .into_iter()
        .find(|(id, _)| *id == second)
        .unwrap();
    assert_eq!(second.1, 1, "the batch pushed the weight from before");
}

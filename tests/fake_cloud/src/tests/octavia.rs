//! Octavia's locks, orders, texts and lists.

use serde_json::{Value, json};

use super::{Pure, id};

#[test]
fn a_member_turns_active_before_pool_load_balancer_and_listeners() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    let member = cloud.member(&at, "m1", "10.6.0.10");
    assert_eq!(
        cloud.status_history(&at, 2.0),
        [
            "PU PU PU m1:PC",
            "PU PU PU m1:A",
            "PU PU A m1:A",
            "A PU A m1:A",
            "A A A m1:A"
        ]
    );
    let (status, _) = cloud.lb(
        "DELETE",
        &format!("pools/{}/members/{member}", at.pool),
        Value::Null,
    );
    assert_eq!(status, 204);
    assert_eq!(
        cloud.status_history(&at, 2.0),
        ["PU PU PU m1:PD", "PU PU PU", "PU PU A", "A PU A", "A A A"]
    );
}

#[test]
fn a_failing_member_ends_in_error_below_an_active_load_balancer() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.command(json!({ "operation": { "operation": "member-create", "name": "m1", "fail": true, "count": 1 } }));
    cloud.member(&at, "m1", "10.6.0.10");
    assert_eq!(
        cloud.status_history(&at, 2.0),
        [
            "PU PU PU m1:PC",
            "PU E PU m1:PC",
            "PU E PU m1:E",
            "PU A PU m1:E",
            "PU A A m1:E",
            "A A A m1:E"
        ],
        "listener in error for a moment, then member, listeners, pool, load balancer"
    );
    // A member in ERROR locks no other object.
    cloud.settled(&at, "m2", "10.6.0.11");
    assert_eq!(cloud.statuses(&at), "A A A m1:E m2:A");
}

#[test]
fn a_batch_removes_first_and_whitewashes_when_additive() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.command(json!({ "operation": { "operation": "member-create", "name": "m1", "fail": true, "count": 1 } }));
    cloud.settled(&at, "m1", "10.6.0.10");
    cloud.settled(&at, "m2", "10.6.0.11");
    let members =
        json!({ "members": [{ "name": "m3", "address": "10.6.0.12", "protocol_port": 6443 }] });
    let path = format!("pools/{}/members", at.pool);
    let (status, body) = cloud.lb(
        "PUT",
        &format!("{path}?additive_only=true"),
        members.clone(),
    );
    assert_eq!((status, body), (202, Value::Null));
    assert_eq!(
        cloud.statuses(&at),
        "PU PU PU m1:E m2:A m3:PC",
        "untouched rows stay as they are"
    );
    cloud.pass(2.0);
    assert_eq!(
        cloud.statuses(&at),
        "A A A m1:A m2:A m3:A",
        "and are ACTIVE afterwards, whatever they were"
    );
    cloud
        .command(json!({ "operation": { "operation": "member-batch", "fail": true, "count": 1 } }));
    cloud.lb(
        "PUT",
        &format!("{path}?additive_only=true"),
        members.clone(),
    );
    cloud.pass(2.0);
    assert_eq!(
        cloud.statuses(&at),
        "A A A m1:E m2:E m3:E",
        "a failed additive batch puts every member in ERROR"
    );
    cloud.lb("PUT", &path, members);
    assert_eq!(cloud.statuses(&at), "PU PU PU m1:PD m2:PD m3:PU");
    cloud.pass(0.5);
    assert_eq!(
        cloud.statuses(&at),
        "PU PU PU m3:PU",
        "removed rows go first"
    );
    cloud.pass(1.5);
    assert_eq!(cloud.statuses(&at), "A A A m3:A");
    let (status, _) = cloud.lb("PUT", &path, json!({ "members": [] }));
    assert_eq!(status, 202);
    cloud.pass(2.0);
    assert_eq!(cloud.statuses(&at), "A A A", "an empty list deletes all");
    cloud.lb("PUT", &path, json!({ "members": [] }));
    assert_eq!(cloud.statuses(&at), "A A A", "nothing to do locks nothing");
}

#[test]
fn what_is_locked_answers_conflict_by_name() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    let member = cloud.member(&at, "m1", "10.6.0.10");
    let text = |(status, body): (u16, Value)| {
        (
            status,
            body["faultstring"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let pool = format!("Pool {} is immutable and cannot be updated.", at.pool);
    let whole = format!(
        "Load Balancer {} is immutable and cannot be updated.",
        at.lb
    );
    let state = format!(
        "Invalid state PENDING_UPDATE of loadbalancer resource {}",
        at.lb
    );
    let members = format!("pools/{}/members", at.pool);
    let new = json!({ "member": { "address": "10.6.0.11", "protocol_port": 1 } });
    assert_eq!(text(cloud.lb("POST", &members, new)), (409, pool.clone()));
    assert_eq!(
        text(cloud.lb("DELETE", &format!("{members}/{member}"), Value::Null)),
        (409, pool)
    );
    assert_eq!(
        text(cloud.lb("PUT", &format!("pools/{}", at.pool), json!({ "pool": {} }))),
        (409, whole.clone())
    );
    assert_eq!(
        text(cloud.lb(
            "PUT",
            &format!("listeners/{}", at.listener),
            json!({ "listener": {} })
        )),
        (409, whole)
    );
    assert_eq!(
        text(cloud.lb(
            "DELETE",
            &format!("loadbalancers/{}?cascade=true", at.lb),
            Value::Null
        )),
        (409, state)
    );
    cloud.pass(2.0);
    let twin = json!({ "member": { "address": "10.6.0.10", "protocol_port": 6443 } });
    assert_eq!(
        text(cloud.lb("POST", &members, twin)),
        (
            409,
            "Another member on this pool is already using ip 10.6.0.10 on protocol_port 6443"
                .into()
        )
    );
    let (status, body) = cloud.lb(
        "GET",
        "pools/11111111-1111-1111-1111-111111111111/members",
        Value::Null,
    );
    assert_eq!(
        (status, body["description"].as_str()),
        (
            404,
            Some("Pool 11111111-1111-1111-1111-111111111111 not found.")
        )
    );
    let (status, body) = cloud.lb("DELETE", &format!("loadbalancers/{}", at.lb), Value::Null);
    assert_eq!(status, 400, "{body}");
}

#[test]
fn a_pool_that_is_stuck_is_repaired_by_its_own_put() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.settled(&at, "m1", "10.6.0.10");
    cloud.command(json!({ "set_status": { "object": at.pool, "provisioning": "PENDING_UPDATE" } }));
    let (status, _) = cloud.lb(
        "POST",
        &format!("pools/{}/members", at.pool),
        json!({ "member": { "address": "10.6.0.11", "protocol_port": 1 } }),
    );
    assert_eq!(status, 409);
    let (status, _) = cloud.lb("PUT", &format!("pools/{}", at.pool), json!({ "pool": {} }));
    assert_eq!(status, 200);
    cloud.pass(2.0);
    assert_eq!(cloud.statuses(&at), "A A A m1:A");
}

#[test]
fn a_graph_is_made_whole_or_left_behind() {
    let mut cloud = Pure::new();
    let (_, subnet) = cloud.network("10.6.0.0/24");
    let graph = |name: &str| {
        json!({ "loadbalancer": { "name": name, "vip_subnet_id": subnet, "listeners": [{
            "name": "li", "protocol": "TCP", "protocol_port": 6443, "default_pool": { "name": "po", "protocol": "TCP",
            "lb_algorithm": "ROUND_ROBIN", "healthmonitor": { "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 3 },
            "members": [{ "name": "m1", "address": "10.6.0.9", "protocol_port": 6443 }] } }] } })
    };
    let (status, made) = cloud.lb("POST", "loadbalancers", graph("good"));
    assert_eq!(status, 201, "{made}");
    let member = &made["loadbalancer"]["pools"][0]["members"][0];
    assert_eq!(
        (
            member["operating_status"].as_str(),
            member["updated_at"].as_str()
        ),
        (Some("NO_MONITOR"), None)
    );
    let good = super::Balancer {
        lb: id(&made, "loadbalancer"),
        listener: String::new(),
        pool: String::new(),
    };
    assert_eq!(cloud.statuses(&good), "PC PC PC m1:PC");
    cloud.pass(9.0);
    assert_eq!(cloud.statuses(&good), "A A A m1:A");
    cloud.command(json!({ "operation": { "operation": "load-balancer-create", "fail": true } }));
    let (_, made) = cloud.lb("POST", "loadbalancers", graph("bad"));
    let bad = super::Balancer {
        lb: id(&made, "loadbalancer"),
        listener: String::new(),
        pool: String::new(),
    };
    cloud.pass(9.0);
    assert_eq!(cloud.statuses(&bad), "E E PC m1:PC");
    let (status, _) = cloud.lb(
        "DELETE",
        &format!("loadbalancers/{}?cascade=true", bad.lb),
        Value::Null,
    );
    assert_eq!(status, 204);
    cloud.pass(2.0);
    let (status, _) = cloud.lb("GET", &format!("loadbalancers/{}", bad.lb), Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn lists_filter_strictly_page_and_forget_filters_in_links() {
    let mut cloud = Pure::new();
    let (_, subnet) = cloud.network("10.6.0.0/24");
    for name in ["a", "b", "c"] {
        let body = json!({ "loadbalancer": { "name": name, "vip_subnet_id": subnet, "tags": ["all", name] } });
        cloud.lb("POST", "loadbalancers", body);
        cloud.pass(1.0);
    }
    let names = |body: &Value| -> Vec<String> {
        let list = body["loadbalancers"].as_array().unwrap();
        list.iter()
            .map(|lb| lb["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let base = "/load-balancer/v2/lbaas/loadbalancers";
    assert_eq!(
        names(&cloud.get(base)),
        ["a", "b", "c"],
        "in order of creation"
    );
    assert_eq!(names(&cloud.get(&format!("{base}?name=b"))), ["b"]);
    assert_eq!(names(&cloud.get(&format!("{base}?tags=all,c"))), ["c"]);
    assert_eq!(
        names(&cloud.get(&format!("{base}?not-tags-any=a,b"))),
        ["c"]
    );
    assert_eq!(
        names(&cloud.get(&format!("{base}?sort=name:desc&limit=1"))),
        ["c"]
    );
    assert_eq!(
        names(&cloud.get(&format!("{base}?provisioning_status=PENDING_CREATE"))),
        ["a", "b", "c"]
    );
    let page = cloud.get(&format!("{base}?tags=all&limit=2&fields=name"));
    assert_eq!(
        page["loadbalancers"],
        json!([{ "name": "a" }, { "name": "b" }])
    );
    let link = page["loadbalancers_links"][0]["href"].as_str().unwrap();
    assert!(
        link.contains("?limit=2&marker=") && !link.contains("tags") && !link.contains("fields"),
        "{link}"
    );
    let (status, body) = cloud.call("GET", &format!("{base}?bogus=1"), Value::Null);
    assert_eq!((status, body["faultcode"].as_str()), (400, Some("Client")));
    let (status, body) = cloud.call("GET", &format!("{base}?limit=bad"), Value::Null);
    assert_eq!((status, body["title"].as_str()), (400, Some("Bad Request")));
    let (status, _) = cloud.call("GET", &format!("{base}?id=1&id=2"), Value::Null);
    assert_eq!(status, 500);
    let times = cloud.get(base);
    assert_eq!(
        times["loadbalancers"][0]["created_at"], "2026-03-01T12:00:00",
        "whole seconds, no zone"
    );
}

#[test]
fn quotas_are_forbidden_with_their_own_text() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    cloud.settled(&at, "m1", "10.6.0.10");
    cloud.command(
        json!({ "quota": { "service": "load-balancer", "resource": "member", "limit": 1 } }),
    );
    let body = json!({ "member": { "address": "10.6.0.11", "protocol_port": 6443 } });
    let (status, body) = cloud.lb("POST", &format!("pools/{}/members", at.pool), body);
    assert_eq!(
        (status, body["faultstring"].as_str()),
        (403, Some("Quota has been met for resources: Member"))
    );
    cloud.caller.project = "another-project".into();
    let (status, body) = cloud.lb("GET", &format!("loadbalancers/{}", at.lb), Value::Null);
    assert_eq!(
        (status, body["faultstring"].as_str()),
        (
            403,
            Some("Policy does not allow this request to be performed.")
        )
    );
}

#[test]
fn ovn_unlocks_in_the_middle_of_a_batch_and_refuses_what_it_lacks() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("ovn");
    cloud.settled(&at, "m1", "10.6.0.10");
    cloud.settled(&at, "m2", "10.6.0.11");
    let members = json!({ "members": [
        { "name": "m1", "address": "10.6.0.10", "protocol_port": 6443 },
        { "name": "m3", "address": "10.6.0.12", "protocol_port": 6443 },
    ] });
    cloud.lb("PUT", &format!("pools/{}/members", at.pool), members);
    let history = cloud.status_history(&at, 2.0);
    assert!(
        history.contains(&"A A A m1:A m2:A m3:A".to_owned()),
        "ACTIVE though the removal is still to come: {history:?}"
    );
    assert_eq!(history.last().map(String::as_str), Some("A A A m1:A m3:A"));
    let monitor = json!({ "healthmonitor": { "pool_id": at.pool, "type": "HTTPS", "delay": 5, "timeout": 3, "max_retries": 3 } });
    let (status, body) = cloud.lb("POST", "healthmonitors", monitor);
    assert_eq!(status, 501, "{body}");
    let (status, _) = cloud.lb(
        "PUT",
        &format!("listeners/{}", at.listener),
        json!({ "listener": { "allowed_cidrs": ["10.0.0.0/8"] } }),
    );
    assert_eq!(status, 501);
    cloud.command(json!({ "operation": { "operation": "member-create", "fail": true } }));
    cloud.settled(&at, "m4", "10.6.0.13");
    assert_eq!(
        cloud.statuses(&at),
        "A A A m1:A m3:A m4:A",
        "a failed creation reads ACTIVE"
    );
}

#[test]
fn a_member_has_its_operating_status_from_heartbeats_once_a_monitor_exists() {
    let mut cloud = Pure::new();
    let at = cloud.balancer("amphora");
    let path = format!("/load-balancer/v2/lbaas/pools/{}/members", at.pool);
    let first = |cloud: &mut Pure| {
        cloud.get(&path)["members"][0]["operating_status"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    cloud.member(&at, "m1", "10.6.0.10");
    assert_eq!(first(&mut cloud), "NO_MONITOR");
    cloud.pass(2.0);
    let monitor = json!({ "healthmonitor": { "pool_id": at.pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 3 } });
    let (status, body) = cloud.lb("POST", "healthmonitors", monitor);
    assert_eq!(status, 201, "{body}");
    cloud.pass(3.0);
    assert_eq!(first(&mut cloud), "ONLINE");
    let member = cloud.get(&path)["members"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    cloud.command(json!({ "set_status": { "object": member, "operating": "ERROR" } }));
    cloud.pass(30.0);
    assert_eq!(first(&mut cloud), "ERROR", "a forced status stays");
    cloud.command(json!({ "set_status": { "object": member, "free": true } }));
    cloud.lb(
        "PUT",
        &format!("pools/{}/members/{member}", at.pool),
        json!({ "member": { "weight": 0 } }),
    );
    cloud.pass(3.0);
    assert_eq!(first(&mut cloud), "DRAINING");
}

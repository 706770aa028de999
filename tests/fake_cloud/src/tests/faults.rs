//! Faults of single calls, rate limits, scripts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Client, cloud};
use crate::{Options, faults::glob, script};

const NETWORKS: &str = "/network/v2.0/networks";

#[test]
fn patterns_match_the_whole_text() {
    for (pattern, text, fits) in [
        ("*", "", true),
        ("/a/*/c", "/a/b/c", true),
        ("/a/*/c", "/a/b/c/d", false),
        ("*_delete", "port_delete", true),
        ("port_*", "server_list", false),
        ("a*b*c", "a1b2c", true),
        ("abc", "abc", true),
        ("abc", "abcd", false),
        ("ab*ba", "aba", false),
    ] {
        assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
    }
}

#[test]
fn scripts_are_json_or_yaml_by_line_or_whole() {
    let lines = "# first\n{\"clear\": \"faults\"}\n\nclear: holds\n{token_life: 5.0}\n";
    assert_eq!(script::parse(lines).unwrap().len(), 3);
    let document = "- clear: faults\n- operation:\n    operation: member-create\n    fail: true\n";
    assert_eq!(script::parse(document).unwrap().len(), 2);
    assert_eq!(script::parse("[{\"clear\": \"faults\"}]").unwrap().len(), 1);
    let error =
        script::parse("{\"clear\": \"faults\"}\n{\"operation\": {\"fial\": true}}").unwrap_err();
    assert!(error.to_string().contains("fial"), "{error}");
}

#[tokio::test]
async fn a_call_gets_a_status_headers_and_a_body_for_as_often_as_configured() {
    let (cloud, client) = cloud(Options::default()).await;
    let fault = json!({ "fault": { "match": { "service": "network", "method": "GET", "label": "network_list" }, "skip": 1, "count": 1,
        "status": 503, "headers": { "Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT" }, "body": "<html>busy</html>" } });
    cloud.control().run(fault).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let reply = client.send("GET", NETWORKS, Value::Null).await.unwrap();
        let wait = reply
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().unwrap().to_owned());
        seen.push((
            reply.status().as_u16(),
            wait,
            reply.text().await.unwrap().starts_with("<html>"),
        ));
    }
    assert_eq!(
        seen,
        [
            (200, None, false),
            (503, Some("Fri, 31 Dec 1999 23:59:59 GMT".into()), true),
            (200, None, false)
        ]
    );
}

#[tokio::test]
async fn a_reply_is_lost_though_the_work_was_done() {
    let (cloud, client) = cloud(Options::default()).await;
    let fault = json!({ "fault": { "match": { "label": "network_create" }, "reset": true, "apply": true, "count": 1 } });
    cloud.control().run(fault).unwrap();
    let refused = client
        .send("POST", NETWORKS, json!({ "network": { "name": "n" } }))
        .await;
    assert!(refused.is_err());
    let (_, list) = client
        .call("GET", "/network/v2.0/networks?name=n", Value::Null)
        .await;
    assert_eq!(list["networks"].as_array().unwrap().len(), 1);
    let fault =
        json!({ "fault": { "match": { "label": "network_create" }, "reset": true, "count": 1 } });
    cloud.control().run(fault).unwrap();
    assert!(
        client
            .send("POST", NETWORKS, json!({ "network": { "name": "m" } }))
            .await
            .is_err()
    );
    let (_, list) = client
        .call("GET", "/network/v2.0/networks?name=m", Value::Null)
        .await;
    assert!(
        list["networks"].as_array().unwrap().is_empty(),
        "without apply nothing was done"
    );
}

#[tokio::test]
async fn bodies_break_off_drip_or_never_come() {
    let (cloud, client) = cloud(Options::default()).await;
    let control = cloud.control();
    let label = json!({ "label": "network_list" });
    control
        .run(json!({ "fault": { "match": label, "truncate": true, "count": 1 } }))
        .unwrap();
    let reply = client.send("GET", NETWORKS, Value::Null).await.unwrap();
    assert_eq!(reply.status().as_u16(), 200);
    assert!(reply.text().await.is_err(), "half a body");
    control
        .run(json!({ "fault": { "match": label, "trickle": 0.001, "count": 1 } }))
        .unwrap();
    let (status, body) = client.call("GET", NETWORKS, Value::Null).await;
    assert!(status == 200 && body["networks"].is_array());
    control
        .run(json!({ "fault": { "match": label, "delay": 0.2, "count": 1 } }))
        .unwrap();
    let before = Instant::now();
    client.call("GET", NETWORKS, Value::Null).await;
    assert!(before.elapsed() >= Duration::from_millis(200));
    control
        .run(json!({ "fault": { "match": label, "hang": true, "count": 1 } }))
        .unwrap();
    let hung = tokio::time::timeout(
        Duration::from_millis(200),
        client.send("GET", NETWORKS, Value::Null),
    )
    .await;
    assert!(hung.is_err());
    let last = control.calls_since(0).pop().unwrap();
    assert_eq!(
        (last.label.as_str(), last.status),
        ("network_list", None),
        "recorded at arrival"
    );
}

#[tokio::test]
async fn rates_are_limited_by_service() {
    let (cloud, client) = cloud(Options::default()).await;
    let limit = json!({ "rate_limit": { "service": "network", "per_second": 0.001, "burst": 3, "retry_after": "7" } });
    cloud.control().run(limit).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(
            client
                .send("GET", NETWORKS, Value::Null)
                .await
                .unwrap()
                .status()
                .as_u16(),
        );
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let (status, _) = client
        .call("GET", "/compute/v2.1/servers", Value::Null)
        .await;
    assert_eq!(status, 200, "another service");
    cloud.control().run(json!({ "clear": "rates" })).unwrap();
    let (status, _) = client.call("GET", NETWORKS, Value::Null).await;
    assert_eq!(status, 200);
}

/// The status tree of a load balancer may be missing, because a policy denies it or the API is too old to have it.
#[tokio::test]
async fn the_status_tree_is_denied_or_absent_and_other_calls_are_unchanged() {
    let (cloud, client) = cloud(Options::default()).await;
    for status in [403, 404] {
        cloud.control().run(json!({ "clear": "faults" })).unwrap();
        let fault = json!({ "match": { "label": "loadbalancer_status_tree" }, "status": status });
        cloud.control().run(json!({ "fault": fault })).unwrap();
        for (path, expected) in [
            ("loadbalancers/x/status", status),
            ("loadbalancers/x/statuses", status),
            ("loadbalancers", 200),
            ("pools", 200),
        ] {
            let path = format!("/load-balancer/v2/lbaas/{path}");
            let (answered, _) = client.call("GET", &path, Value::Null).await;
            assert_eq!(answered, expected, "{path}");
        }
    }
}

/// `delay` answers late with the state at the end, `delay_after` answers late with the state at which the call arrived.
#[tokio::test]
async fn one_service_is_slow_and_its_answers_are_as_old_as_configured() {
    let (cloud, client) = cloud(Options::default()).await;
    for (field, sees_it) in [("delay", true), ("delay_after", false)] {
        cloud.control().run(json!({ "clear": "faults" })).unwrap();
        let fault = json!({ "match": { "service": "network", "method": "GET" }, field: 0.4 });
        cloud.control().run(json!({ "fault": fault })).unwrap();
        let before = Instant::now();
        let path = format!("{NETWORKS}?name={field}");
        let created = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let body = json!({ "network": { "name": field } });
            client.call("POST", NETWORKS, body).await
        };
        let (listed, (status, _)) = tokio::join!(client.call("GET", &path, Value::Null), created);
        assert_eq!(status, 201, "writes are not slow");
        assert!(before.elapsed() >= Duration::from_millis(400));
        let seen = listed.1["networks"].as_array().unwrap().len() == 1;
        assert_eq!(seen, sees_it, "{field}");
        let before = Instant::now();
        client
            .call("GET", "/compute/v2.1/servers", Value::Null)
            .await;
        assert!(
            before.elapsed() < Duration::from_millis(400),
            "another service"
        );
    }
}

/// The Secret now leads to another project. The manager is the same, but sees none of its objects.
#[tokio::test]
async fn another_project_sees_nothing_of_the_first_and_may_have_the_same_again() {
    let (cloud, demo) = cloud(Options::default()).await;
    let control = cloud.control();
    for command in [
        json!({ "project": { "id": "0123456789abcdef0123456789abcdef", "name": "other" } }),
        json!({ "user": { "name": "other", "password": "secret", "project": "other", "roles": ["member"] } }),
    ] {
        control.run(command).unwrap();
    }
    let other = Client::sign_in(&cloud, "other", "secret").await.unwrap();
    let network = json!({ "network": { "name": "mine" } });
    let (_, made) = demo.call("POST", NETWORKS, network.clone()).await;
    let id = made["network"]["id"].as_str().unwrap();
    let balancers = "/load-balancer/v2/lbaas/loadbalancers";
    let subnet = json!({ "subnet": { "network_id": id, "cidr": "10.6.0.0/24", "ip_version": 4 } });
    let (_, subnet) = demo.call("POST", "/network/v2.0/subnets", subnet).await;
    let body =
        json!({ "loadbalancer": { "name": "mine", "vip_subnet_id": subnet["subnet"]["id"] } });
    let (status, balancer) = demo.call("POST", balancers, body).await;
    assert_eq!(status, 201, "{balancer}");
    let balancer = balancer["loadbalancer"]["id"].as_str().unwrap();

    for (path, status) in [
        (format!("{NETWORKS}/{id}"), 404),
        (format!("{balancers}/{balancer}"), 403),
        (format!("{balancers}/{balancer}/status"), 403),
    ] {
        let (answered, _) = other.call("GET", &path, Value::Null).await;
        assert_eq!(answered, status, "{path}");
    }
    for (path, kind) in [
        (format!("{NETWORKS}?name=mine"), "networks"),
        (format!("{balancers}?name=mine"), "loadbalancers"),
    ] {
        let (_, list) = other.call("GET", &path, Value::Null).await;
        assert_eq!(list[kind], json!([]));
    }
    let (status, _) = other.call("POST", NETWORKS, network).await;
    assert_eq!(status, 201);
}

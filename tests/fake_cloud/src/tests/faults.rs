//! Faults of single calls, rate limits, scripts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::cloud;
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
    assert!(error.contains("fial"), "{error}");
}

#[tokio::test]
async fn a_call_gets_a_status_headers_and_a_body_for_as_often_as_asked() {
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

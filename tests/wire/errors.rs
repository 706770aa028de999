//! The meaning of error answers.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use capo_core::{FailureClass, Priority};
use capo_openstack::{
    CallOutcome, Error, Service, load_balancer::NewMember, network::NetworkFilter,
};
use serde_json::json;
use wiremock::{
    Mock, ResponseTemplate,
    matchers::{method, path},
};

use super::{TestCloud, answer, cloud, octavia_error, ok};

pub(crate) const GATE: Priority = Priority::Gate;
pub(crate) const MEMBERS: &str = "/lb/v2/lbaas/pools/p1/members";
pub(crate) const LB: &str = "/lb/v2/lbaas/loadbalancers/lb1";

pub(crate) async fn create(test: &TestCloud) -> Result<(), Error> {
    let new = NewMember {
        name: "m".into(),
        address: [10, 0, 0, 1].into(),
        protocol_port: 6443,
        subnet_id: None,
        weight: None,
        admin_state_up: true,
        tags: vec![],
    };
    test.cloud
        .create_member(&"p1".into(), &new, GATE)
        .await
        .map(drop)
}

#[tokio::test]
async fn every_refusal_has_its_class_and_a_stable_text() {
    use FailureClass as C;
    let neutron = |kind: &str, text: &str| json!({"NeutronError": {"type": kind, "message": text, "detail": ""}});
    let table = [
        (
            octavia_error(403, "Quota has been met for resources: Member"),
            C::Quota,
            "Quota has been met for resources: Member",
        ),
        (
            octavia_error(403, "Policy does not allow this request to be performed."),
            C::Denied,
            "Policy does not allow this request to be performed.",
        ),
        (
            octavia_error(409, "Load Balancer 11 is immutable and cannot be updated."),
            C::Locked,
            "Load Balancer 11 is immutable and cannot be updated.",
        ),
        (
            octavia_error(409, "Another member on this pool is already using ip 10.0.0.1 on protocol_port 6443"),
            C::Duplicate,
            "Another member on this pool is already using ip 10.0.0.1 on protocol_port 6443",
        ),
        (
            ResponseTemplate::new(404)
                .set_body_json(json!({"code": 404, "title": "Not Found", "description": "Pool p1 not found."})),
            C::NotFound,
            "Pool p1 not found.",
        ),
        (
            ResponseTemplate::new(409).set_body_json(neutron("OverQuota", "Quota exceeded for resources: ['port'].")),
            C::Quota,
            "Quota exceeded for resources: ['port'].",
        ),
        (
            ResponseTemplate::new(413).insert_header("Retry-After", "0").set_body_json(
                json!({"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.", "retryAfter": "0"}}),
            ),
            C::Quota,
            "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.",
        ),
        (
            ResponseTemplate::new(501).set_body_string("<html><title>501 Not Implemented</title></html>"),
            C::NotImplemented,
            "501 Not Implemented",
        ),
        (ResponseTemplate::new(418), C::Invalid, ""),
    ];
    for (response, class, text) in table {
        let test = cloud().await;
        answer(&test, "POST", MEMBERS, response).await;
        let error = create(&test).await.unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        let status = error.status().unwrap();
        let colon = if text.is_empty() { "" } else { ": " };
        assert_eq!(
            error.to_string(),
            format!("loadbalancer_member_create: load-balancer answers HTTP {status}{colon}{text}")
        );
        assert!(!error.maybe_done(), "a refusal is a clear answer");
        // None of these answers shows that the service has a problem.
        for _ in 0..5 {
            assert_eq!(create(&test).await.unwrap_err().status(), Some(status));
        }
    }
}

#[tokio::test]
async fn retry_after_in_every_shape_pauses_this_service_alone() {
    let date = |seconds: i64| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    };
    let table: [(u16, Option<String>, std::ops::RangeInclusive<u64>); 9] = [
        (429, Some("30".into()), 30..=30),
        (429, Some(date(31)), 25..=31),
        (429, None, 60..=75),
        (429, Some("86400".into()), 900..=900),
        (429, Some("-5".into()), 60..=75),
        (429, Some("soon".into()), 60..=75),
        (429, Some("0".into()), 1..=1),
        (503, Some("20".into()), 20..=20),
        (413, Some("20".into()), 20..=20),
    ];
    for (status, header, expected) in table {
        let test = cloud().await;
        let mut response = ResponseTemplate::new(status).set_body_string("Rate limited");
        if let Some(header) = &header {
            response = response.insert_header("Retry-After", header.as_str());
        }
        answer(&test, "GET", LB, response).await;
        answer(
            &test,
            "GET",
            "/network/v2.0/networks",
            ok(json!({"networks": []})),
        )
        .await;
        let start = Instant::now();
        for attempt in 0..20 {
            let error = test
                .cloud
                .load_balancer(&"lb1".into(), GATE)
                .await
                .unwrap_err();
            assert_eq!(error.class(), FailureClass::Throttled);
            assert_eq!(
                error.to_string(),
                format!("loadbalancer_get: load-balancer is throttling requests (HTTP {status})")
            );
            let after = error.retry_after().unwrap();
            let most = Duration::from_secs(*expected.end());
            assert!(
                after <= most && (attempt > 0 || after.as_secs() >= *expected.start()),
                "{header:?}: {after:?}"
            );
        }
        let error = create(&test).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "loadbalancer_member_create: load-balancer is throttling requests (HTTP {status})"
            ),
            "other calls to the service are held back with the same words"
        );
        // A caller that retries after the pause is correct, and on a busy machine a pause of one second may end during
        // the test.
        let most = 1 + start.elapsed().as_secs() / *expected.start();
        let asked = test.requests("GET", LB).await.len();
        assert!((1..=most).contains(&(asked as u64)), "asked {asked} times");
        test.cloud
            .networks(&NetworkFilter::default(), GATE)
            .await
            .unwrap();
        let pauses = test.events.pauses.lock();
        assert_eq!(pauses.len(), asked);
        assert_eq!(pauses[0].0, Service::LoadBalancer);
    }
}

#[tokio::test]
async fn a_pause_ends() {
    let test = cloud().await;
    Mock::given(method("GET"))
        .and(path(LB))
        .respond_with(ResponseTemplate::new(429).insert_header("Retry-After", "1"))
        .up_to_n_times(1)
        .mount(&test.server)
        .await;
    let lb = json!({"loadbalancer": {"id": "lb1", "provisioning_status": "ACTIVE"}});
    answer(&test, "GET", LB, ok(lb)).await;
    let error = test
        .cloud
        .load_balancer(&"lb1".into(), GATE)
        .await
        .unwrap_err();
    tokio::time::sleep(error.retry_after().unwrap()).await;
    test.cloud.load_balancer(&"lb1".into(), GATE).await.unwrap();
    test.cloud.load_balancer(&"lb1".into(), GATE).await.unwrap();
}

#[tokio::test]
async fn a_service_in_trouble_is_left_alone_and_reads_the_same() {
    let html = "<html><head><title>503 Service Unavailable</title></head><body>req-0b8c7bf5-2b1a-4b56-9e0c-0d5b5d3a1f00</body></html>";
    let table = [
        (
            500,
            octavia_error(
                500,
                "Internal at 2026-11-21T12:00:00 req-0b8c7bf5-2b1a-4b56-9e0c-0d5b5d3a1f00",
            ),
            "Internal at",
        ),
        (
            502,
            ResponseTemplate::new(502).set_body_string("Bad Gateway"),
            "Bad Gateway",
        ),
        (
            503,
            ResponseTemplate::new(503).set_body_string(html),
            "503 Service Unavailable",
        ),
        (504, ResponseTemplate::new(504), ""),
    ];
    for (status, response, text) in table {
        let test = cloud().await;
        answer(&test, "GET", LB, response).await;
        let mut texts = BTreeSet::new();
        for _ in 0..100 {
            let error = test
                .cloud
                .load_balancer(&"lb1".into(), GATE)
                .await
                .unwrap_err();
            assert_eq!(error.class(), FailureClass::Transient);
            texts.insert(error.to_string());
        }
        let colon = if text.is_empty() { "" } else { ": " };
        assert_eq!(
            texts.into_iter().collect::<Vec<_>>(),
            [format!(
                "loadbalancer_get: load-balancer answers HTTP {status}{colon}{text}"
            )]
        );
        assert_eq!(
            test.requests("GET", LB).await.len(),
            3,
            "then it is left alone"
        );
        assert_eq!(test.events.refused.lock().len(), 97);
    }
}

#[tokio::test]
async fn odd_answers_are_errors_and_not_accidents() {
    let deep = format!(
        r#"{{"loadbalancer": {}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let table = [
        r#"{"loadbalancer": {"id": "lb1", "provisioning_sta"#.to_owned(),
        r#"{"loadbalancer": {"id": "a", "id": "b", "provisioning_status": "ACTIVE"}}"#.to_owned(),
        r#"{"loadbalancer": {"id": 7, "provisioning_status": "ACTIVE"}}"#.to_owned(),
        r#"{"loadbalancer": []}"#.to_owned(),
        r#"{"loadbalancers": []}"#.to_owned(),
        r#"{"loadbalancer": {"provisioning_status": "ACTIVE"}}"#.to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        String::new(),
        "<html>Welcome</html>".to_owned(),
        deep,
    ];
    for body in table {
        let test = cloud().await;
        let response = ResponseTemplate::new(200)
            .insert_header("x-openstack-request-id", "req-1")
            .set_body_string(body.clone());
        answer(&test, "GET", LB, response).await;
        let error = test
            .cloud
            .load_balancer(&"lb1".into(), GATE)
            .await
            .unwrap_err();
        assert_eq!(error.class(), FailureClass::Transient);
        assert_eq!(
            error.to_string(),
            "loadbalancer_get: the answer of load-balancer can't be read"
        );
        assert_eq!(error.request_id(), Some("req-1"));
        let calls = test.events.calls.lock();
        assert_eq!(calls.last().unwrap().2, CallOutcome::Unreadable);
    }
}

#[tokio::test]
async fn unknown_values_and_nulls_are_read() {
    let test = cloud().await;
    let lb = json!({"loadbalancer": {"id": "lb1", "name": null, "provisioning_status": "EXPLODING",
        "operating_status": null, "vip_address": "not an address", "tags": null, "listeners": null}});
    answer(&test, "GET", LB, ok(lb)).await;
    answer(&test, "GET", MEMBERS, ok(json!({"members": null}))).await;
    let lb = test.cloud.load_balancer(&"lb1".into(), GATE).await.unwrap();
    assert_eq!(lb.provisioning_status.as_str(), "EXPLODING");
    assert_eq!(lb.vip_address, None);
    assert!(
        test.cloud
            .members(&"p1".into(), GATE)
            .await
            .unwrap()
            .is_empty()
    );
}

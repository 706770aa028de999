//! The OpenStack client against canned answers: the requests and answers of every service, and every kind of failure.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod changes;
mod compute;
mod errors;
mod faults;
mod load_balancer;
mod network;
mod paging;
mod ports;
mod raw;
mod shared_reads;
mod sign_in;
mod storage;
mod tls;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capo_openstack::{
    CallObserver, CallOutcome, CallRecord, ClientSettings, Cloud, CloudProfile, Clouds, LeaseToken,
    Service, SignInOutcome,
};
use k8s_openapi::ByteString;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wiremock::{
    Mock, MockServer, Request, ResponseTemplate,
    matchers::{method, path},
};

const TOKEN: &str = "gAAAA-token";
const PASSWORD: &str = "s3cret-canary";
const PROJECT: &str = "0123456789abcdef0123456789abcdef";

/// A client, the mock server of the cloud, and the events that the client reported to its observer.
struct TestCloud {
    server: MockServer,
    clouds: Clouds,
    cloud: Cloud,
    events: Arc<RecordedEvents>,
}

#[derive(Default)]
struct RecordedEvents {
    calls: Mutex<Vec<(Service, &'static str, CallOutcome)>>,
    refused: Mutex<Vec<&'static str>>,
    pauses: Mutex<Vec<(Service, Duration, Option<Duration>)>>,
    sign_ins: Mutex<Vec<SignInOutcome>>,
}

impl CallObserver for RecordedEvents {
    fn call(&self, record: &CallRecord<'_>) {
        let call = (record.service, record.request, record.outcome);
        self.calls.lock().push(call);
    }

    fn refused(&self, _cloud: &str, _service: Service, request: &'static str) {
        self.refused.lock().push(request);
    }

    fn throttled(&self, _: &str, service: Service, pause: Duration, header: Option<Duration>) {
        self.pauses.lock().push((service, pause, header));
    }

    fn signed_in(&self, _cloud: &str, outcome: SignInOutcome, _life: Option<Duration>) {
        self.sign_ins.lock().push(outcome);
    }
}

/// Installs the crypto provider that reqwest's client requires.
fn install_crypto() {
    // Another test was first: fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn settings() -> ClientSettings {
    ClientSettings {
        qps: 1000.0,
        burst: 1000,
        total_timeout: Duration::from_secs(5),
        ..ClientSettings::default()
    }
}

fn profile(auth_url: &str, extra: &str) -> CloudProfile {
    let yaml = format!(
        "clouds:\n  test:\n    auth: {{auth_url: '{auth_url}', user_id: u, password: {PASSWORD}, project_id: p}}\n    region_name: One\n{extra}"
    );
    let data = BTreeMap::from([("clouds.yaml".to_owned(), ByteString(yaml.into_bytes()))]);
    CloudProfile::from_secret(&data, "test", None).unwrap()
}

/// A token's answer with a catalogue of every service under `base`.
fn token(base: &str, life_seconds: i64) -> ResponseTemplate {
    let issued = jiff::Timestamp::now();
    let expires = issued + jiff::SignedDuration::from_secs(life_seconds);
    token_with(
        &json!({"issued_at": issued.to_string(), "expires_at": expires.to_string(),
        "project": {"id": PROJECT, "name": "demo"}, "catalog": catalogue(base)}),
    )
}

fn token_with(token: &Value) -> ResponseTemplate {
    ResponseTemplate::new(201)
        .insert_header("X-Subject-Token", TOKEN)
        .set_body_json(json!({ "token": token }))
}

fn catalogue(base: &str) -> Value {
    let service = |kind: &str, path: &str| {
        json!({"type": kind, "name": kind, "endpoints": [
            {"interface": "public", "region": "One", "region_id": "One", "url": format!("{base}{path}")}]})
    };
    json!([
        service("compute", "/compute/v2.1"),
        service("network", "/network"),
        service("load-balancer", "/lb"),
        service("image", "/image"),
        service("volumev3", &format!("/volume/v3/{PROJECT}")),
    ])
}

/// A cloud where signing in works and Nova offers 2.96.
async fn cloud() -> TestCloud {
    cloud_with(settings(), LeaseToken::unlimited()).await
}

async fn cloud_with(settings: ClientSettings, lease: LeaseToken) -> TestCloud {
    let test = bare_cloud(settings, lease).await;
    answer(
        &test,
        "POST",
        "/identity/v3/auth/tokens",
        token(&test.server.uri(), 3600),
    )
    .await;
    answer(
        &test,
        "GET",
        "/compute/v2.1/",
        ok(json!({"version": {"id": "v2.1", "version": "2.96", "min_version": "2.1"}})),
    )
    .await;
    test
}

/// A cloud that answers 404 to everything.
async fn bare_cloud(settings: ClientSettings, lease: LeaseToken) -> TestCloud {
    install_crypto();
    let server = MockServer::start().await;
    let events = Arc::new(RecordedEvents::default());
    let clouds = Clouds::new(
        settings,
        lease,
        Arc::clone(&events) as Arc<dyn CallObserver>,
    );
    let url = format!("{}/identity", server.uri());
    let cloud = clouds.cloud(profile(&url, "")).unwrap();
    TestCloud {
        server,
        clouds,
        cloud,
        events,
    }
}

/// Mounts an answer.
async fn answer(test: &TestCloud, verb: &str, at: &str, response: ResponseTemplate) {
    Mock::given(method(verb))
        .and(path(at))
        .respond_with(response)
        .mount(&test.server)
        .await;
}

fn ok(body: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

fn octavia_error(status: u16, text: &str) -> ResponseTemplate {
    ResponseTemplate::new(status)
        .insert_header(
            "x-openstack-request-id",
            "req-0b8c7bf5-2b1a-4b56-9e0c-0d5b5d3a1f00",
        )
        .set_body_json(json!({"faultcode": "Client", "faultstring": text, "debuginfo": null}))
}

impl TestCloud {
    /// Requests that reached `method path`.
    async fn requests(&self, verb: &str, at: &str) -> Vec<Request> {
        let all = self.server.received_requests().await.unwrap();
        all.into_iter()
            .filter(|request| request.method.as_str() == verb && request.url.path() == at)
            .collect()
    }

    async fn sign_ins(&self) -> usize {
        self.requests("POST", "/identity/v3/auth/tokens")
            .await
            .len()
    }

    /// The one request to `method path`: its query and its body.
    async fn the_request(&self, verb: &str, at: &str) -> (Vec<(String, String)>, Value) {
        let requests = self.requests(verb, at).await;
        assert_eq!(requests.len(), 1, "{verb} {at}");
        let request = &requests[0];
        assert_eq!(request.headers.get("x-auth-token").unwrap(), TOKEN);
        let query = request.url.query_pairs().into_owned().collect();
        let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        (query, body)
    }
}

/// `key=value` pairs for comparing with a query.
fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

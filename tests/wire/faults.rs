//! Connections that fail, hang or never end.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use capo_core::{FailureClass, Priority};
use capo_openstack::{CallObserver, CallOutcome, ClientSettings, Cloud, Clouds, Error, LeaseToken};
use serde_json::json;
use wiremock::{
    Mock, MockServer,
    matchers::{method, path},
};

use super::{
    PROJECT, RecordedEvents, catalogue, install_crypto, profile,
    raw::{Behaviour, serve},
    settings, token_with,
};

/// A cloud whose Octavia is at `octavia`.
pub(crate) async fn cloud_with_octavia(
    octavia: &str,
    settings: ClientSettings,
) -> (MockServer, Cloud, Arc<RecordedEvents>) {
    install_crypto();
    let server = MockServer::start().await;
    let mut services = catalogue(&server.uri());
    for entry in services.as_array_mut().unwrap() {
        if entry["type"] == "load-balancer" {
            entry["endpoints"][0]["url"] = json!(octavia);
        }
    }
    Mock::given(method("POST"))
        .and(path("/v3/auth/tokens"))
        .respond_with(token_with(
            &json!({"project": {"id": PROJECT}, "catalog": services}),
        ))
        .mount(&server)
        .await;
    let events = Arc::new(RecordedEvents::default());
    let clouds = Clouds::new(
        settings,
        LeaseToken::unlimited(),
        Arc::clone(&events) as Arc<dyn CallObserver>,
    );
    let cloud = clouds.cloud(profile(&server.uri(), "")).unwrap();
    (server, cloud, events)
}

async fn read(cloud: &Cloud) -> Error {
    cloud
        .status_tree(&"lb1".into(), Priority::Gate)
        .await
        .unwrap_err()
}

fn short() -> ClientSettings {
    ClientSettings {
        total_timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_millis(500),
        ..settings()
    }
}

/// Only a call without a time-out of its own takes longer than this.
const FOR_EVER: Duration = Duration::from_secs(20);

#[tokio::test]
async fn every_way_to_break_an_answer_off() {
    let table = [
        (
            Behaviour::Hang,
            CallOutcome::TimedOut,
            "no complete answer within 1 s",
        ),
        (
            Behaviour::StallInBody,
            CallOutcome::TimedOut,
            "no complete answer within 1 s",
        ),
        (
            Behaviour::Drip,
            CallOutcome::TimedOut,
            "no complete answer within 1 s",
        ),
        (
            Behaviour::Reset,
            CallOutcome::Transport,
            "the connection broke before the answer was complete",
        ),
        (
            Behaviour::Truncate,
            CallOutcome::Transport,
            "the connection broke before the answer was complete",
        ),
        (
            Behaviour::Announce,
            CallOutcome::Unreadable,
            "the answer is larger than 8 MiB",
        ),
        (
            Behaviour::Flood,
            CallOutcome::Unreadable,
            "the answer is larger than 8 MiB",
        ),
    ];
    for (behaviour, outcome, text) in table {
        let server = serve(behaviour).await;
        let (_keystone, cloud, events) = cloud_with_octavia(&server.url, short()).await;
        let start = Instant::now();
        let error = read(&cloud).await;
        assert!(start.elapsed() < FOR_EVER, "{behaviour:?}");
        assert_eq!(error.class(), FailureClass::Transient);
        assert_eq!(
            error.to_string(),
            format!("loadbalancer_status_get: load-balancer: {text}")
        );
        assert_eq!(events.calls.lock().last().unwrap().2, outcome);
        let write = cloud
            .delete_load_balancer(&"lb1".into(), Priority::Gate)
            .await
            .unwrap_err();
        assert!(write.maybe_done(), "the request was sent");
    }
}

#[tokio::test]
async fn a_hang_delays_no_call_by_more_than_one_time_out() {
    let server = serve(Behaviour::Hang).await;
    let (_keystone, cloud, _) = cloud_with_octavia(&server.url, short()).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let cloud = cloud.clone();
        calls.spawn(async move { read(&cloud).await.to_string() });
    }
    let texts: BTreeSet<_> = calls.join_all().await.into_iter().collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    // The calls in flight wait for the time-out, and so do those that follow the first failures, but the fifty calls do
    // not wait in turns of eight.
    let connections = server.connections.load(Ordering::SeqCst);
    assert!((8..=12).contains(&connections), "{connections} connections");
    for _ in 0..100 {
        read(&cloud).await;
    }
    // The other calls fail at once, except single probes.
    let probes = server.connections.load(Ordering::SeqCst) - connections;
    assert!(probes <= 3, "{probes} probes");
}

#[tokio::test]
async fn resets_cause_no_storm_and_one_text() {
    let server = serve(Behaviour::Reset).await;
    let (_keystone, cloud, _) = cloud_with_octavia(&server.url, short()).await;
    let start = Instant::now();
    let mut texts = BTreeSet::new();
    while start.elapsed() < Duration::from_secs(4) {
        let error = read(&cloud).await;
        texts.insert(error.to_string());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    // Three failures, then one probe after 1 s and one 2 s later.
    let connections = server.connections.load(Ordering::SeqCst);
    assert!((4..=6).contains(&connections), "{connections} connections");
}

#[tokio::test]
async fn a_port_without_a_listener() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let table = [
        (url.as_str(), "the connection was refused"),
        (
            "http://no-such-host.invalid:9876",
            "the host's name can't be resolved",
        ),
    ];
    for (url, text) in table {
        let settings = ClientSettings {
            connect_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(10),
            ..settings()
        };
        let (_keystone, cloud, events) = cloud_with_octavia(url, settings).await;
        let error = read(&cloud).await;
        assert_eq!(error.class(), FailureClass::Transient);
        assert_eq!(
            error.to_string(),
            format!("loadbalancer_status_get: load-balancer: {text}")
        );
        assert_eq!(
            events.calls.lock().last().unwrap().2,
            CallOutcome::Transport
        );
        let write = cloud
            .delete_load_balancer(&"lb1".into(), Priority::Gate)
            .await
            .unwrap_err();
        assert!(!write.maybe_done(), "it was never sent");
    }
}

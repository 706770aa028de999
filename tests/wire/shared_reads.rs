//! Reads that callers share: the number of calls, and the reads that are never shared.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use capo_core::{FailureClass, Priority};
use capo_openstack::{ClientSettings, LeaseToken, compute::NewServer, when_sent};
use futures::future::join_all;
use serde_json::json;
use wiremock::ResponseTemplate;

use super::{TestCloud, answer, cloud, cloud_with, ok, settings};

const SERVERS: &str = "/compute/v2.1/servers/detail";
const STEADY: Priority = Priority::Steady;

fn server(id: &str) -> serde_json::Value {
    json!({"id": id, "name": id, "status": "BUILD", "tenant_id": "p"})
}

/// A project with this many servers, `s0`, `s1`, …. Its list lacks some of them.
async fn project(servers: usize, unlisted: &[&str]) -> TestCloud {
    let test = cloud().await;
    let ids: Vec<String> = (0..servers).map(|number| format!("s{number}")).collect();
    let listed: Vec<_> = ids
        .iter()
        .filter(|id| !unlisted.contains(&id.as_str()))
        .map(|id| server(id))
        .collect();
    let slow = |body| ok(body).set_delay(Duration::from_millis(50));
    answer(&test, "GET", SERVERS, slow(json!({ "servers": listed }))).await;
    for id in &ids {
        let at = format!("/compute/v2.1/servers/{id}");
        answer(&test, "GET", &at, slow(json!({"server": server(id)}))).await;
    }
    test
}

async fn reads_of_servers(test: &TestCloud) -> usize {
    let all = test.server.received_requests().await.unwrap();
    all.iter()
        .filter(|request| request.url.path().starts_with("/compute/v2.1/servers"))
        .count()
}

#[tokio::test]
async fn a_hundred_callers_cost_one_read_and_one_list() {
    let test = project(100, &[]).await;
    let begin = Instant::now();
    let callers = (0..100).map(|number| {
        let cloud = test.cloud.clone();
        async move {
            let id = format!("s{number}").into();
            let read = cloud
                .shared_reads()
                .server(&id, begin, STEADY)
                .await
                .unwrap();
            assert_eq!(read.value.id, id);
            assert!(read.sent_at >= begin);
        }
    });
    join_all(callers).await;
    let calls = reads_of_servers(&test).await;
    assert!(calls <= 2, "{calls} calls");
    // A caller that accepts an older answer causes no call.
    let shared = test.cloud.shared_reads();
    shared.server(&"s7".into(), begin, STEADY).await.unwrap();
    assert_eq!(reads_of_servers(&test).await, calls);
    // A newer answer is read by itself.
    let read = shared.server(&"s7".into(), Instant::now(), STEADY).await;
    assert!(read.unwrap().sent_at > begin);
    assert_eq!(reads_of_servers(&test).await, calls + 1);
}

#[tokio::test]
async fn a_server_that_a_list_lacks_is_read_by_its_id() {
    let test = project(9, &["s4"]).await;
    let now = Instant::now();
    let callers = (0..10).map(|number| {
        let cloud = test.cloud.clone();
        async move {
            let id = format!("s{number}").into();
            let read = cloud.shared_reads().server(&id, now, STEADY).await;
            // No answer has `s9`: the error of the read by id shows that.
            assert_eq!(read.is_err_and(|error| error.is_not_found()), number == 9);
        }
    });
    join_all(callers).await;
    assert!(reads_of_servers(&test).await <= 4);
}

#[tokio::test]
async fn after_a_start_the_parts_of_all_load_balancers_are_read_by_one_list_each() {
    let test = cloud().await;
    let part = |number: usize| {
        json!({"id": format!("p{number}"), "name": "n", "provisioning_status": "ACTIVE", "protocol_port": 6443,
            "loadbalancers": [{"id": format!("lb{number}")}], "delay": 5, "timeout": 3, "max_retries": 2})
    };
    let parts: Vec<_> = (0..20).map(part).collect();
    for kind in ["listeners", "pools", "healthmonitors"] {
        let at = format!("/lb/v2/lbaas/{kind}");
        let body = ok(json!({ kind: parts })).set_delay(Duration::from_millis(50));
        answer(&test, "GET", &at, body).await;
    }
    // The first caller is served by a read of its own.
    let monitor = json!({"healthmonitor": parts[0]});
    answer(&test, "GET", "/lb/v2/lbaas/healthmonitors/p0", ok(monitor)).await;
    let callers = (0..20).map(|number| {
        let cloud = test.cloud.clone();
        async move {
            let shared = cloud.shared_reads();
            let balancer = format!("lb{number}").into();
            let monitor = format!("p{number}").into();
            let (listeners, pools, monitor) = futures::join!(
                shared.listeners(&balancer, STEADY),
                shared.pools(&balancer, STEADY),
                shared.health_monitor(&monitor, STEADY),
            );
            let own = format!("p{number}");
            let listeners = listeners.unwrap();
            // The first caller's answer is not filtered by this cloud.
            assert!(listeners.iter().any(|listener| listener.id == own));
            assert!(number == 0 || listeners.len() == 1);
            assert!(pools.unwrap().iter().any(|pool| pool.id == own));
            assert_eq!(monitor.unwrap().id, own);
        }
    });
    join_all(callers).await;
    let all = test.server.received_requests().await.unwrap();
    let of_octavia = all
        .iter()
        .filter(|request| request.url.path().contains("lbaas"))
        .count();
    assert!(of_octavia <= 6, "{of_octavia} calls");
}

#[tokio::test]
async fn look_ups_are_made_once_until_they_are_too_old() {
    let test = cloud().await;
    let zones =
        json!({"availabilityZoneInfo": [{"zoneName": "a", "zoneState": {"available": true}}]});
    let at = "/compute/v2.1/os-availability-zone";
    answer(
        &test,
        "GET",
        at,
        ok(zones).set_delay(Duration::from_millis(30)),
    )
    .await;
    let age = Duration::from_secs(30);
    let read = || async {
        test.cloud
            .shared_reads()
            .availability_zones(age, STEADY)
            .await
    };
    for found in join_all((0..20).map(|_| read())).await {
        assert_eq!(found.unwrap()[0].name, "a");
    }
    assert_eq!(test.requests("GET", at).await.len(), 1);
    tokio::time::pause();
    tokio::time::advance(age + Duration::from_secs(1)).await;
    tokio::time::resume();
    read().await.unwrap();
    assert_eq!(test.requests("GET", at).await.len(), 2);
}

#[tokio::test]
async fn a_failure_is_shared_by_those_that_waited_for_it_and_not_kept() {
    let test = cloud().await;
    let at = "/compute/v2.1/flavors/f1";
    let failing = ResponseTemplate::new(500).set_delay(Duration::from_millis(30));
    answer(&test, "GET", at, failing).await;
    let age = Duration::from_mins(5);
    let id = "f1".into();
    let read = || async { test.cloud.shared_reads().flavor(&id, age, STEADY).await };
    for found in join_all((0..20).map(|_| read())).await {
        assert!(found.unwrap_err().is(FailureClass::Transient));
    }
    assert_eq!(test.requests("GET", at).await.len(), 1);
    read().await.unwrap_err();
    assert_eq!(test.requests("GET", at).await.len(), 2);
}

#[tokio::test]
async fn an_upgraded_nova_is_noticed_without_a_restart() {
    let test = super::bare_cloud(settings(), LeaseToken::unlimited()).await;
    let token = super::token(&test.server.uri(), 3600);
    answer(&test, "POST", "/identity/v3/auth/tokens", token).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    wiremock::Mock::given(wiremock::matchers::path("/compute/v2.1/"))
        .respond_with(move |_: &wiremock::Request| {
            let old = counted.fetch_add(1, Ordering::SeqCst) == 0;
            let version = if old { "2.38" } else { "2.96" };
            ok(json!({"version": {"id": "v2.1", "version": version}}))
        })
        .mount(&test.server)
        .await;
    answer(
        &test,
        "POST",
        "/compute/v2.1/servers",
        ok(json!({"server": {"id": "s1"}})),
    )
    .await;
    let tagged = NewServer {
        tags: vec!["t".into()],
        ..NewServer::default()
    };
    for _ in 0..3 {
        let error = test.cloud.create_server(&tagged, STEADY).await.unwrap_err();
        assert!(error.is(FailureClass::NoService), "{error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the old answer is young");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    test.cloud.create_server(&tagged, STEADY).await.unwrap();
}

#[tokio::test]
async fn a_read_is_stamped_when_it_is_sent_and_not_when_it_is_requested() {
    let alone = ClientSettings {
        max_in_flight: 1,
        ..settings()
    };
    let test = cloud_with(alone, LeaseToken::unlimited()).await;
    let slow = ok(json!({"flavors": []})).set_delay(Duration::from_millis(300));
    answer(&test, "GET", "/compute/v2.1/flavors/detail", slow).await;
    // The sign-in and the read of the versions are not counted.
    test.cloud.compute_api_version(STEADY).await.unwrap();
    let asked = Instant::now();
    let flavors = || when_sent(test.cloud.flavors(STEADY));
    let ((one, first), (two, second)) = tokio::join!(flavors(), flavors());
    one.unwrap();
    two.unwrap();
    let (first, second) = (first.unwrap().into_std(), second.unwrap().into_std());
    let waited = second - asked;
    assert!(waited >= Duration::from_millis(250), "{waited:?}");
    assert!(first < second);
}

#[tokio::test]
async fn names_of_many_servers_are_looked_up_by_one_list() {
    let test = project(100, &[]).await;
    let begin = Instant::now();
    let callers = (0..50).map(|number| {
        let cloud = test.cloud.clone();
        async move {
            let shared = cloud.shared_reads();
            let there = shared
                .server_ids(&format!("s{number}"), begin, STEADY)
                .await;
            assert_eq!(there.unwrap(), [format!("s{number}").as_str()]);
            let absent = shared
                .server_ids(&format!("n{number}"), begin, STEADY)
                .await;
            assert_eq!(absent.unwrap().len(), 0);
        }
    });
    join_all(callers).await;
    let calls = reads_of_servers(&test).await;
    assert!(calls <= 2, "{calls} calls");
}

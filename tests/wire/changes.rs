//! When a change is sent, and what its failure shows about whether it was made.

use std::time::{Duration, Instant};

use capo_core::FailureClass;
use capo_openstack::LeaseToken;
use serde_json::json;
use wiremock::{Mock, ResponseTemplate, matchers::path};

use super::{
    answer, cloud, cloud_with,
    errors::{GATE, LB, MEMBERS, create},
    ok, settings,
};

#[tokio::test]
async fn a_write_that_failed_half_way_may_have_been_made() {
    let test = cloud().await;
    answer(&test, "POST", MEMBERS, ResponseTemplate::new(504)).await;
    answer(&test, "GET", LB, ResponseTemplate::new(504)).await;
    assert!(create(&test).await.unwrap_err().maybe_done());
    let read = test
        .cloud
        .load_balancer(&"lb1".into(), GATE)
        .await
        .unwrap_err();
    assert!(!read.maybe_done());
}

#[tokio::test]
async fn a_change_may_have_been_made_where_a_proxy_asks_for_a_pause() {
    // The service itself answers 429 or 413 to a request that it does not carry out. A proxy may answer 503 while the
    // service goes on.
    for (status, maybe_done) in [(429, false), (413, false), (503, true)] {
        let test = cloud().await;
        let pause = ResponseTemplate::new(status).insert_header("Retry-After", "20");
        answer(&test, "POST", MEMBERS, pause).await;
        let error = create(&test).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Throttled);
        assert_eq!(error.maybe_done(), maybe_done, "{status}");
        let held_back = create(&test).await.unwrap_err();
        assert!(!held_back.maybe_done(), "it was never sent");
        assert_eq!(test.requests("POST", MEMBERS).await.len(), 1);

        let test = cloud().await;
        let pause = ResponseTemplate::new(status).insert_header("Retry-After", "20");
        answer(&test, "GET", LB, pause).await;
        let read = test.cloud.load_balancer(&"lb1".into(), GATE).await;
        assert!(!read.unwrap_err().maybe_done(), "{status}");
    }
}

#[tokio::test]
async fn without_the_lease_nothing_is_written() {
    let lease = LeaseToken::not_held();
    let test = cloud_with(settings(), lease.clone()).await;
    answer(&test, "GET", MEMBERS, ok(json!({"members": []}))).await;
    let member =
        json!({"member": {"id": "m", "protocol_port": 1, "provisioning_status": "PENDING_CREATE"}});
    answer(&test, "POST", MEMBERS, ok(member)).await;
    test.cloud.members(&"p1".into(), GATE).await.unwrap();
    let error = create(&test).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::NotSent);
    assert!(test.requests("POST", MEMBERS).await.is_empty());
    lease.extend_until(Instant::now() + Duration::from_mins(1));
    create(&test).await.unwrap();
    lease.revoke();
    assert_eq!(
        create(&test).await.unwrap_err().class(),
        FailureClass::NotSent
    );
    assert_eq!(test.requests("POST", MEMBERS).await.len(), 1);
}

#[tokio::test]
async fn the_lease_is_checked_after_the_wait_for_the_budget() {
    let lease = LeaseToken::unlimited();
    let test = cloud_with(
        capo_openstack::ClientSettings {
            qps: 5.0,
            burst: 1,
            ..settings()
        },
        lease.clone(),
    )
    .await;
    answer(&test, "GET", MEMBERS, ok(json!({"members": []}))).await;
    test.cloud.members(&"p1".into(), GATE).await.unwrap();
    let (result, ()) = tokio::join!(create(&test), async {
        tokio::task::yield_now().await;
        lease.revoke();
    });
    assert_eq!(result.unwrap_err().class(), FailureClass::NotSent);
    assert!(test.requests("POST", MEMBERS).await.is_empty());
}

#[tokio::test]
async fn a_change_is_sent_soon_or_not_at_all() {
    let longest_wait = Duration::from_secs(2);
    let late = longest_wait + Duration::from_millis(500);
    let impatient = capo_openstack::ClientSettings {
        longest_wait,
        ..settings()
    };
    // The time of the first answer, which is 401, and the number of requests.
    for (delay, sent) in [(Duration::ZERO, 2), (late, 1)] {
        let test = cloud_with(impatient.clone(), LeaseToken::unlimited()).await;
        Mock::given(path(MEMBERS))
            .respond_with(ResponseTemplate::new(401).set_delay(delay))
            .up_to_n_times(1)
            .mount(&test.server)
            .await;
        let member = json!({"id": "m", "protocol_port": 1, "provisioning_status": "ACTIVE"});
        let created = ok(json!({"member": member, "members": [member]}));
        Mock::given(path(MEMBERS))
            .respond_with(created)
            .mount(&test.server)
            .await;
        let created = create(&test).await;
        assert_eq!(test.requests("POST", MEMBERS).await.len(), sent);
        if sent == 1 {
            let error = created.unwrap_err();
            assert_eq!(error.class(), FailureClass::Transient);
            assert!(!error.maybe_done(), "{error}");
        } else {
            created.unwrap();
        }
    }

    // A read may be repeated as late as that.
    let test = cloud_with(impatient, LeaseToken::unlimited()).await;
    Mock::given(path(MEMBERS))
        .respond_with(ResponseTemplate::new(401).set_delay(late))
        .up_to_n_times(1)
        .mount(&test.server)
        .await;
    answer(&test, "GET", MEMBERS, ok(json!({"members": []}))).await;
    test.cloud.members(&"p1".into(), GATE).await.unwrap();
}

#[tokio::test]
async fn a_change_that_is_taken_back_while_it_waits_for_the_budget_is_not_sent() {
    let one_in_half_a_second = capo_openstack::ClientSettings {
        qps: 2.0,
        burst: 1,
        ..settings()
    };
    let test = cloud_with(one_in_half_a_second, LeaseToken::unlimited()).await;
    answer(&test, "GET", MEMBERS, ok(json!({"members": []}))).await;
    let member =
        json!({"member": {"id": "m", "protocol_port": 1, "provisioning_status": "PENDING_CREATE"}});
    answer(&test, "POST", MEMBERS, ok(member)).await;
    let withdrawal = capo_openstack::Withdrawal::default();
    withdrawal.scope(create(&test)).await.unwrap();
    // This one has to wait for half a second.
    let (answered, ()) = tokio::join!(withdrawal.scope(create(&test)), async {
        withdrawal.withdraw();
    });
    let error = answered.unwrap_err();
    assert_eq!(error.class(), FailureClass::NotSent);
    assert!(!error.maybe_done());
    assert!(error.to_string().contains("taken back"), "{error}");
    assert_eq!(test.requests("POST", MEMBERS).await.len(), 1);
    // A read is made all the same.
    let pool = "p1".into();
    withdrawal
        .scope(test.cloud.members(&pool, GATE))
        .await
        .unwrap();
}

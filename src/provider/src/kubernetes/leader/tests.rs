use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Election, Ended, Timing,
    lease_server::{LeaseServer, Treatment},
};
use capo_core::GateMode;
use capo_openstack::LeaseToken;

const RETRY: Duration = Duration::from_millis(10);

fn candidate(server: &LeaseServer) -> Election {
    candidate_with(server, Duration::from_secs(40))
}

fn candidate_with(server: &LeaseServer, renew_deadline: Duration) -> Election {
    let timing = Timing {
        lease_duration: Duration::from_mins(1),
        renew_deadline,
        retry_period: RETRY,
    };
    let token = LeaseToken::not_held();
    Election::new(
        server.client(),
        "n",
        "host",
        timing,
        token,
        GateMode::Enforce,
    )
}

fn lease_of(holder: &str) -> Value {
    json!({
        "metadata": {"name": super::LEASE_NAME, "namespace": "n"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": "2026-11-21T10:00:00.000000Z"},
    })
}

/// Leads until some renewals were treated in this way, and is stopped.
async fn led_until_stopped(server: &LeaseServer, treatment: Treatment) -> Election {
    let mut election = candidate(server);
    election.acquire().await;
    assert_eq!(server.holder().as_deref(), Some(election.identity()));
    server.treats(treatment);
    let stop = CancellationToken::new();
    let ended = tokio::join!(election.hold(&stop), async {
        sleep(RETRY * 10).await;
        stop.cancel();
    });
    assert_eq!(ended.0, Ended::Stopped);
    election
}

#[tokio::test]
async fn a_renewal_without_an_answer_is_repeated_before_the_deadline() {
    let server = LeaseServer::default();
    let deadline = Duration::from_millis(1_500);
    let mut election = candidate_with(&server, deadline);
    election.acquire().await;
    server.treats(Treatment::WritesUnanswered);
    let stop = CancellationToken::new();
    let ended = tokio::join!(election.hold(&stop), async {
        // The next renewal is under way, and its answer never arrives.
        sleep(RETRY * 20).await;
        server.treats(Treatment::Answered);
        sleep(deadline).await;
        stop.cancel();
    });
    assert_eq!(ended.0, Ended::Stopped);
}

#[tokio::test]
async fn a_stop_releases_the_lease_whatever_became_of_the_last_renewal() {
    for treatment in [
        Treatment::Answered,
        Treatment::WritesUnanswered,
        Treatment::WritesFail,
        Treatment::AllFail,
    ] {
        let server = LeaseServer::default();
        let mut election = led_until_stopped(&server, treatment).await;
        server.treats(Treatment::Answered);
        election.release().await;
        assert_eq!(server.holder().as_deref(), Some(""));
    }
}

#[tokio::test]
async fn a_candidate_that_stops_while_it_takes_the_lease_releases_it() {
    let server = LeaseServer::default();
    server.put(lease_of(""));
    server.treats(Treatment::WritesUnanswered);
    let mut election = candidate(&server);
    assert!(timeout(RETRY * 10, election.acquire()).await.is_err());
    assert_eq!(server.holder().as_deref(), Some(election.identity()));
    server.treats(Treatment::Answered);
    election.release().await;
    assert_eq!(server.holder().as_deref(), Some(""));
}

#[tokio::test]
async fn the_lease_of_another_process_is_not_released() {
    for treatment in [Treatment::Answered, Treatment::WritesFail] {
        let server = LeaseServer::default();
        let mut election = led_until_stopped(&server, treatment).await;
        server.put(lease_of("other"));
        server.treats(Treatment::Answered);
        election.release().await;
        assert_eq!(server.holder().as_deref(), Some("other"));
    }
}

#[tokio::test]
async fn a_candidate_that_never_wrote_the_lease_does_not_read_it_at_its_end() {
    let server = LeaseServer::default();
    server.put(lease_of("other"));
    let mut election = candidate(&server);
    assert!(timeout(RETRY * 5, election.acquire()).await.is_err());
    let reads = server.reads();
    election.release().await;
    assert_eq!(server.reads(), reads);
    assert_eq!(server.holder().as_deref(), Some("other"));
}

#[tokio::test]
async fn a_release_is_based_on_the_newest_version_of_the_lease() {
    let server = LeaseServer::default();
    let mut election = led_until_stopped(&server, Treatment::Answered).await;
    // The process's own renewal arrives after the answer that it knows.
    server.put(lease_of(election.identity()));
    election.release().await;
    assert_eq!(server.holder().as_deref(), Some(""));
}

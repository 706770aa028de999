//! Twenty authenticated reads a second, each over a TLS connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{SLOW, Target};
use crate::timeline::{Answered, Sender, Slow, Timeline, What};

/// The time between the starts of two requests.
pub const PACE: Duration = Duration::from_millis(50);
/// Answers are recorded in groups of about this duration.
const BUNDLE: Duration = Duration::from_secs(1);
/// The longest duration of the requests.
pub(super) const AT_MOST: Duration = Duration::from_hours(1);

/// The client at work; it stops when dropped, and by itself after an hour.
#[derive(Debug)]
pub struct Requests {
    counts: Arc<Counts>,
    stop: CancellationToken,
    work: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Requests {
    /// Starts to send requests at intervals of [`PACE`], whatever the results of the earlier ones are.
    pub fn start(target: Target, timeline: &Timeline) -> Self {
        let counts = Arc::new(Counts::default());
        let stop = CancellationToken::new();
        let work = tokio::spawn(send_requests(
            target,
            timeline.clone(),
            Arc::clone(&counts),
            stop.clone(),
        ));
        Self {
            counts,
            stop,
            work: Some(work),
        }
    }

    /// The number of requests sent so far.
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// The number of requests that failed.
    pub fn failed(&self) -> u64 {
        self.counts.failed.load(Ordering::Relaxed)
    }

    /// Stops sending and returns when the last request has been answered or has failed.
    pub async fn finish(mut self) -> (u64, u64) {
        self.stop.cancel();
        if let Some(work) = self.work.take() {
            let _ = work.await;
        }
        (self.sent(), self.failed())
    }
}

async fn send_requests(
    target: Target,
    timeline: Timeline,
    counts: Arc<Counts>,
    stop: CancellationToken,
) {
    let begun = Instant::now();
    let mut pace = interval(PACE);
    // On a busy machine the client sends fewer requests, and never sends several at once to catch up.
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let bundle = Arc::new(Mutex::new(Answered::default()));
    let mut bundled = Instant::now();
    let mut under_way = JoinSet::new();
    while begun.elapsed() < AT_MOST {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = pace.tick() => {}
        }
        counts.sent.fetch_add(1, Ordering::Relaxed);
        under_way.spawn(one(
            target.clone(),
            timeline.clone(),
            Arc::clone(&counts),
            Arc::clone(&bundle),
        ));
        while under_way.try_join_next().is_some() {}
        if bundled.elapsed() >= BUNDLE {
            bundled = Instant::now();
            write_down(&bundle, &timeline);
        }
    }
    under_way.join_all().await;
    write_down(&bundle, &timeline);
}

async fn one(
    target: Target,
    timeline: Timeline,
    counts: Arc<Counts>,
    bundle: Arc<Mutex<Answered>>,
) {
    let at = timeline.clock().now();
    match target.read().await {
        Ok(_) => {
            let took = timeline.clock().now().saturating_sub(at);
            if took > SLOW {
                let slow = Slow {
                    sender: Sender::Client,
                    took,
                };
                timeline.note_at(at, What::Slow(slow));
            }
            let mut bundle = bundle.lock();
            bundle.count += 1;
            bundle.slowest = bundle.slowest.max(took);
        }
        Err(failure) => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            timeline.note_at(at, What::RequestFailed(failure.to_string()));
        }
    }
}

fn write_down(bundle: &Mutex<Answered>, timeline: &Timeline) {
    let answered = std::mem::take(&mut *bundle.lock());
    if answered.count > 0 {
        timeline.note(What::Answered(answered));
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::client::server::{Behaviour, Server};

    /// The results of requests while the server behaves in this way.
    async fn results_of(behaviour: Behaviour) -> Vec<String> {
        let server = Server::start().await;
        let timeline = Timeline::start();
        let requests = Requests::start(server.target(), &timeline);
        while requests.sent() < 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.behave(behaviour);
        let before = requests.sent();
        while requests.sent() < before + 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.behave(Behaviour::Serves);
        let (sent, failed) = requests.finish().await;
        let mut failures = Vec::new();
        let mut answered = 0;
        for entry in timeline.entries() {
            match entry.what {
                What::RequestFailed(why) => failures.push(why),
                What::Answered(bundle) => answered += u64::from(bundle.count),
                // This happens on a busy machine.
                What::Slow(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(failures.len() as u64, failed);
        assert_eq!(sent, answered + failed, "every request has an end");
        assert!(answered > 0);
        failures.dedup();
        failures
    }

    #[tokio::test]
    async fn a_server_that_serves_fails_no_request() {
        assert_eq!(results_of(Behaviour::Serves).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_reset_before_the_session_is_seen() {
        let failures = results_of(Behaviour::Resets).await;
        assert!(failures[0].starts_with("TLS: "), "{failures:?}");
    }

    #[tokio::test]
    async fn a_connection_closed_without_an_answer_is_seen() {
        let failures = results_of(Behaviour::Closes).await;
        assert!(failures[0].starts_with("no answer: "), "{failures:?}");
    }

    #[tokio::test]
    async fn half_an_answer_is_seen() {
        let failures = results_of(Behaviour::Truncates).await;
        assert!(
            failures[0].starts_with("the answer broke off: "),
            "{failures:?}"
        );
    }

    #[tokio::test]
    async fn a_status_of_500_is_seen() {
        assert_eq!(results_of(Behaviour::Answers(500)).await, ["status 500"]);
    }

    #[tokio::test]
    async fn a_read_that_is_not_authorised_has_failed() {
        assert_eq!(results_of(Behaviour::Answers(403)).await, ["status 403"]);
    }

    #[tokio::test]
    async fn an_object_that_was_not_requested_is_seen() {
        let failures = results_of(Behaviour::AnswersForeign).await;
        assert!(
            failures[0].starts_with("not what was asked for: "),
            "{failures:?}"
        );
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_seen() {
        assert_eq!(results_of(Behaviour::Hangs).await, ["nothing within 5 s"]);
    }

    #[tokio::test]
    async fn an_answer_that_takes_longer_than_a_second_is_recorded() {
        let server = Server::start().await;
        server.behave(Behaviour::ServesAfter(SLOW));
        let timeline = Timeline::start();
        let requests = Requests::start(server.target(), &timeline);
        while requests.sent() < 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (sent, failed) = requests.finish().await;
        let entries = timeline.entries();
        let slow = entries.iter().filter(|entry| {
            matches!(&entry.what, What::Slow(slow) if slow.sender == Sender::Client && slow.took > SLOW)
        });
        assert_eq!((slow.count() as u64, failed), (sent, 0), "{entries:?}");
    }

    #[tokio::test]
    async fn a_port_without_a_listener_is_seen() {
        let server = Server::start().await;
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let unserved = server.target().at(free.local_addr().unwrap());
        drop(free);
        assert_eq!(
            unserved.read().await.unwrap_err().to_string(),
            "no connection: connection refused"
        );
    }
}

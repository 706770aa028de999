//! The control of the client: the same reads at the same time, sent to the API servers themselves. A busy machine slows
//! both down. A request that is slow through the load balancer alone shows that the load balancer has sent it to an API
//! server that was not up, or not up any more.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{SLOW, Target, requests::AT_MOST};
use crate::timeline::{Sender, Slow, Timeline, What};

/// The time between the starts of two requests. The servers take turns, so each of three servers gets about three
/// requests a second.
const PACE: Duration = Duration::from_millis(100);

/// The control at work; it stops when dropped.
#[derive(Debug)]
pub struct Control {
    stop: CancellationToken,
    work: Option<JoinHandle<()>>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Control {
    /// Starts to send requests to the current `servers` in turn, and records the slow ones.
    pub fn start(
        target: &Target,
        servers: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static,
        timeline: &Timeline,
    ) -> Self {
        let stop = CancellationToken::new();
        let work = tokio::spawn(send_requests(
            target.clone(),
            servers,
            timeline.clone(),
            stop.clone(),
        ));
        Self {
            stop,
            work: Some(work),
        }
    }

    /// Stops sending and returns when the last request has ended.
    pub async fn finish(mut self) {
        self.stop.cancel();
        if let Some(work) = self.work.take() {
            let _ = work.await;
        }
    }
}

async fn send_requests(
    target: Target,
    servers: impl Fn() -> Vec<SocketAddr>,
    timeline: Timeline,
    stop: CancellationToken,
) {
    let begun = Instant::now();
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turn = 0;
    let mut under_way = JoinSet::new();
    while begun.elapsed() < AT_MOST {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = pace.tick() => {}
        }
        let servers = servers();
        turn += 1;
        if let Some(server) = servers.get(turn % servers.len().max(1)) {
            under_way.spawn(one(target.at(*server), timeline.clone()));
        }
        while under_way.try_join_next().is_some() {}
    }
    under_way.join_all().await;
}

/// Only a request that was answered shows how fast the machine is, because an API server may end at any moment.
async fn one(target: Target, timeline: Timeline) {
    let at = timeline.clock().now();
    if target.read().await.is_err() {
        return;
    }
    let took = timeline.clock().now().saturating_sub(at);
    // A request of the client counts as slow from one second on. A request of the control is recorded from half of that
    // on.
    if took > SLOW / 2 {
        let slow = Slow {
            sender: Sender::Control,
            took,
        };
        timeline.note_at(at, What::Slow(slow));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::server::{Behaviour, Server};

    /// What the control records while the server behaves in this way.
    async fn recorded(behaviour: Behaviour) -> Vec<Slow> {
        let server = Server::start().await;
        let timeline = Timeline::start();
        server.behave(behaviour);
        let address = server.address();
        let control = Control::start(&server.target(), move || vec![address], &timeline);
        tokio::time::sleep(10 * PACE).await;
        control.finish().await;
        let entries = timeline.entries().into_iter();
        entries
            .map(|entry| match entry.what {
                What::Slow(slow) => slow,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[tokio::test]
    async fn an_answer_that_takes_long_is_recorded_as_the_controls() {
        let slow = recorded(Behaviour::ServesAfter(SLOW)).await;
        assert!(!slow.is_empty());
        for one in slow {
            assert_eq!(one.sender, Sender::Control);
            assert!(one.took >= SLOW, "{one:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_fails_excuses_nothing() {
        assert_eq!(recorded(Behaviour::Closes).await, []);
    }
}

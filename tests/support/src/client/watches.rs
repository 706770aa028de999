//! Long watches. A watch that is cut must continue from its last event, at the first attempt and without a gap.

use std::time::Duration;

use bytes::BytesMut;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Failure, NAMESPACE, OBJECT, Target, deepest};
use crate::timeline::{Timeline, What};

/// The time without events after which a watch counts as cut, because the writer writes every second.
const SILENCE: Duration = Duration::from_secs(15);
/// The pause between attempts after the first one has failed.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the last events may take to arrive.
const LAST_EVENTS: Duration = Duration::from_mins(2);
/// The longest event that is read, in bytes. Every event of the watched object is shorter.
const LONGEST_EVENT: usize = 1 << 20;

/// Watches at work; they stop when dropped.
#[derive(Debug)]
pub struct Watches {
    stop: CancellationToken,
    /// The last number that each watch has received.
    seen: Vec<watch::Receiver<u64>>,
    timeline: Timeline,
    work: JoinSet<()>,
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Watches {
    /// Opens this many watches of the object, one after the other, and returns when each has begun.
    pub async fn start(
        target: &Target,
        count: usize,
        timeline: &Timeline,
    ) -> Result<Self, Failure> {
        let stop = CancellationToken::new();
        let mut seen = Vec::new();
        let mut work = JoinSet::new();
        for _ in 0..count {
            let position = WatchPosition::of(&target.read().await?);
            let answer = open(target, &position).await?;
            let (sender, receiver) = watch::channel(position.sequence);
            seen.push(receiver);
            let watching = Watching {
                target: target.clone(),
                timeline: timeline.clone(),
                position,
                sender,
            };
            let stop = stop.clone();
            work.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = watching.run(answer) => {}
                }
            });
        }
        Ok(Self {
            stop,
            seen,
            timeline: timeline.clone(),
            work,
        })
    }

    /// Waits until every watch has received `written`, the last number that was written, and stops.
    pub async fn finish(mut self, written: u64) {
        for seen in &mut self.seen {
            let all = seen.wait_for(|seen| *seen >= written);
            if tokio::time::timeout(LAST_EVENTS, all).await.is_err() {
                let text = format!("it has seen {} and {written} was written", *seen.borrow());
                self.timeline.note(What::WatchFailed(text));
            }
        }
        self.stop.cancel();
        while self.work.join_next().await.is_some() {}
    }
}

/// The position of a watch: its last event.
#[derive(Debug, Clone)]
struct WatchPosition {
    resource_version: String,
    sequence: u64,
}

impl WatchPosition {
    fn of(object: &Value) -> Self {
        Self {
            resource_version: object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            sequence: object["data"]["sequence"]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
        }
    }
}

async fn open(target: &Target, position: &WatchPosition) -> Result<Incoming, Failure> {
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true&allowWatchBookmarks=true\
         &fieldSelector=metadata.name%3D{OBJECT}&resourceVersion={}",
        position.resource_version
    );
    let limit = target.limit;
    let answer = tokio::time::timeout(limit, target.send(Request::get(path), String::new()))
        .await
        .map_err(|_| Failure::TimedOut(limit))??;
    match answer.status().as_u16() {
        200 => Ok(answer.into_body()),
        status => Err(Failure::Status(status)),
    }
}

/// Why a stream of events ended.
enum End {
    /// The watch was cut. That is no failure if it continues over another connection.
    Cut(String),
    /// The server does not know the position any more: the events since then are lost.
    Refused(String),
}

struct Watching {
    target: Target,
    timeline: Timeline,
    position: WatchPosition,
    sender: watch::Sender<u64>,
}

impl Watching {
    async fn run(mut self, first: Incoming) {
        let mut stream = first;
        loop {
            match self.follow(stream).await {
                End::Cut(why) => self.timeline.note(What::WatchCut(why)),
                End::Refused(why) => {
                    self.timeline.note(What::WatchFailed(why));
                    tokio::time::sleep(PAUSE).await;
                    self.restart_from_present_state().await;
                }
            }
            stream = loop {
                match open(&self.target, &self.position).await {
                    Ok(stream) => break stream,
                    Err(failure) => {
                        let text = format!("it could not go on: {failure}");
                        self.timeline.note(What::WatchFailed(text));
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            };
        }
    }

    /// After a refusal only the present state is available.
    async fn restart_from_present_state(&mut self) {
        if let Ok(object) = self.target.read().await {
            self.position = WatchPosition::of(&object);
            self.sender.send_replace(self.position.sequence);
        }
    }

    /// Reads events until the stream ends.
    async fn follow(&mut self, mut stream: Incoming) -> End {
        let mut unread = BytesMut::new();
        loop {
            let frame = match tokio::time::timeout(SILENCE, stream.frame()).await {
                Err(_) => return End::Cut(format!("silent for {} s", SILENCE.as_secs())),
                Ok(None) => return End::Cut("closed".to_owned()),
                Ok(Some(Err(error))) => return End::Cut(deepest(&error)),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            unread.extend_from_slice(&data);
            if unread.len() > LONGEST_EVENT {
                return End::Cut("an event without an end".to_owned());
            }
            while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = unread.split_to(end + 1);
                match serde_json::from_slice::<Value>(&line) {
                    Ok(event) => {
                        if let Some(end) = self.event(&event) {
                            return end;
                        }
                    }
                    Err(error) => return End::Cut(error.to_string()),
                }
            }
        }
    }

    fn event(&mut self, event: &Value) -> Option<End> {
        let object = &event["object"];
        match event["type"].as_str().unwrap_or_default() {
            "ERROR" => {
                let why = object["message"].as_str().unwrap_or("no reason given");
                return Some(End::Refused(why.to_owned()));
            }
            "BOOKMARK" => {
                let version = object["metadata"]["resourceVersion"].as_str();
                version
                    .unwrap_or_default()
                    .clone_into(&mut self.position.resource_version);
            }
            _ => {
                let next = WatchPosition::of(object);
                if next.sequence != self.position.sequence + 1 {
                    let text = format!(
                        "after event {} came {}",
                        self.position.sequence, next.sequence
                    );
                    self.timeline.note(What::WatchFailed(text));
                }
                self.sender.send_replace(next.sequence);
                self.position = next;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{
        server::{Behaviour, Server},
        writer::Writer,
    };

    /// Runs two watches while `happens` acts on the server, and returns all that was recorded.
    async fn watched(happens: impl AsyncFnOnce(&Server)) -> (u64, Vec<What>) {
        let server = Server::start().await;
        let timeline = Timeline::start();
        let target = server.target();
        let address = server.address();
        let writer = Writer::start(&target, move || vec![address]).await.unwrap();
        let watches = Watches::start(&target, 2, &timeline).await.unwrap();
        happens(&server).await;
        let before = writer.written();
        while writer.written() < before + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let written = writer.written();
        watches.finish(written).await;
        let notes = timeline.entries().into_iter().map(|entry| entry.what);
        (written, notes.collect())
    }

    fn failures(notes: &[What]) -> Vec<&str> {
        notes
            .iter()
            .filter_map(|note| match note {
                What::WatchFailed(why) => Some(why.as_str()),
                _ => None,
            })
            .collect()
    }

    fn cuts(notes: &[What]) -> usize {
        let cut = |note: &&What| matches!(note, What::WatchCut(_));
        notes.iter().filter(cut).count()
    }

    #[tokio::test]
    async fn undisturbed_watches_see_every_event() {
        let (written, notes) = watched(async |_| {}).await;
        assert!(written >= 2);
        assert_eq!(notes, []);
    }

    #[tokio::test]
    async fn a_cut_is_no_failure_if_the_watch_goes_on_where_it_was() {
        let (_, notes) = watched(async |server| server.cut_watches()).await;
        assert_eq!(cuts(&notes), 2);
        assert_eq!(failures(&notes), Vec::<&str>::new());
    }

    #[tokio::test]
    async fn a_watch_that_is_refused_once_after_a_cut_has_failed() {
        let (_, notes) = watched(async |server| {
            server.behave(Behaviour::Answers(503));
            server.cut_watches();
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.behave(Behaviour::Serves);
        })
        .await;
        assert_eq!(
            failures(&notes),
            ["it could not go on: status 503"; 2],
            "{notes:?}"
        );
    }

    #[tokio::test]
    async fn a_position_that_is_not_known_any_more_has_failed() {
        let (_, notes) = watched(async |server| {
            server.forget_history();
            server.cut_watches();
        })
        .await;
        assert_eq!(
            failures(&notes),
            ["too old resource version"; 2],
            "{notes:?}"
        );
    }

    #[tokio::test]
    async fn an_event_that_never_comes_is_missed() {
        let (_, notes) = watched(async |server| server.swallow_next_event().await).await;
        let failures = failures(&notes);
        assert_eq!(failures.len(), 2, "{notes:?}");
        assert!(failures[0].starts_with("after event "), "{failures:?}");
    }

    #[tokio::test]
    async fn a_watch_that_falls_silent_is_opened_again() {
        let (_, notes) = watched(async |server| {
            server.silence_watches();
            tokio::time::sleep(SILENCE + Duration::from_secs(1)).await;
        })
        .await;
        assert_eq!(cuts(&notes), 2, "{notes:?}");
        assert_eq!(failures(&notes), Vec::<&str>::new());
    }
}

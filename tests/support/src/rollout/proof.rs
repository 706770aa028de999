//! The proof around a rollout: a client that sends requests all the time, and the check of everything that was
//! recorded.

use std::{fmt::Write as _, time::Duration};

use crate::{
    client::{Target, control::Control, requests::Requests, watches::Watches, writer::Writer},
    invariants::{self, Promises, Violation, figures::Figures, secrets},
    rollout::{Rollout, folder, results},
    timeline::{Timeline, What, render::render},
};

/// The number of watches that are open all the time.
const WATCHES: usize = 3;

/// The result of a rollout.
pub struct RolloutResult {
    /// Rules that were broken.
    pub broken: Vec<Violation>,
    /// The costs, while the client sent requests.
    pub figures: Figures,
    /// The whole timeline as text.
    pub page: String,
}

/// A running client of a rollout's endpoint.
pub struct Proof {
    requests: Requests,
    control: Control,
    watches: Watches,
    writer: Writer,
    timeline: Timeline,
    from: Duration,
}

impl Proof {
    /// Starts the client. The endpoint must serve, because every failure counts from here on.
    pub async fn begin(rollout: &Rollout) -> Self {
        let timeline = rollout.timeline.clone();
        let target = target(rollout).await;
        let writer = Writer::start(&target, rollout.machines.serving())
            .await
            .unwrap();
        let watches = Watches::start(&target, WATCHES, &timeline).await.unwrap();
        timeline.note(What::Remark(
            "the client begins to send requests".to_owned(),
        ));
        Self {
            from: timeline.clock().now(),
            control: Control::start(&target, rollout.machines.serving(), &timeline),
            requests: Requests::start(target, &timeline),
            watches,
            writer,
            timeline,
        }
    }

    /// Stops the client and deletes the cluster. Fails the test, with the whole timeline, if a rule was broken between
    /// the cluster's beginning and its end. The figures are those of the time in which the client sent requests.
    pub async fn end(self, rollout: Rollout, promises: &Promises) -> Figures {
        let result = self.finish(&rollout, promises).await;
        if !result.broken.is_empty() {
            let cluster = &rollout.cluster;
            let mut text = format!("{cluster}: {} rules broken\n", result.broken.len());
            for violation in &result.broken {
                let _ = writeln!(text, "  {violation}");
            }
            panic!("{text}\n{}", result.page);
        }
        results::write(&rollout.cluster, &result.figures);
        result.figures
    }

    /// Stops the client, deletes the cluster, and checks everything that was recorded.
    pub async fn finish(self, rollout: &Rollout, promises: &Promises) -> RolloutResult {
        let timeline = self.timeline.clone();
        let from = self.from;
        self.stop().await;
        let until = timeline.clock().now();
        let outputs = outputs(rollout).await;
        rollout.delete_cluster().await;
        let entries = timeline.entries();
        let mut broken = invariants::check(&entries, promises);
        let outputs = outputs.iter().map(|(name, text)| (*name, text.as_str()));
        broken.extend(secrets::check(outputs));
        let page = render(&entries);
        let file = folder(&rollout.cluster).join("timeline.txt");
        std::fs::write(&file, &page).unwrap();
        RolloutResult {
            figures: Figures::of(&entries, from, until),
            broken,
            page,
        }
    }

    /// Stops sending requests, after the last answers and events have arrived.
    async fn stop(self) {
        self.requests.finish().await;
        self.control.finish().await;
        let written = self.writer.written();
        drop(self.writer);
        self.watches.finish(written).await;
        let text = "the client has stopped".to_owned();
        self.timeline.note(What::Remark(text));
    }
}

async fn target(rollout: &Rollout) -> Target {
    let administrator = &rollout.workload.administrator;
    Target::new(
        rollout.endpoint().await,
        rollout.workload.authority.certificate().as_bytes(),
        administrator.certificate.as_bytes(),
        administrator.key.as_bytes(),
    )
    .unwrap()
}

/// All output that a user or an operator can see.
async fn outputs(rollout: &Rollout) -> Vec<(&'static str, String)> {
    let mut outputs = Vec::new();
    let log = rollout.workload.folder().join("manager.log");
    outputs.push(("the log", std::fs::read_to_string(log).unwrap()));
    for kind in [
        "Cluster",
        "Machine",
        "OpenStackCluster",
        "OpenStackMachine",
        "OpenStackServer",
        "Event",
    ] {
        let objects = rollout.list(kind).await;
        assert!(!objects.is_empty(), "no {kind} to look at");
        outputs.push((kind, serde_json::to_string(&objects).unwrap()));
    }
    if let Some(manager) = rollout.manager.lock().await.as_ref() {
        outputs.push(("the metrics", manager.metrics().await));
    }
    outputs
}

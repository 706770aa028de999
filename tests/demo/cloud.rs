//! The cloud of the demo: a load balancer whose members do what amphorav2 did in the field, and a
//! record of what was really true at every moment.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fake_cloud::{Command, FakeCloud, Hold, OperationRule, Options, Provisioning};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::env::Error;

/// The cloud's name in clouds.yaml.
pub(crate) const CLOUD: &str = "demo";
/// A flavor that it has.
pub(crate) const FLAVOR: &str = "m1.small";
/// An image that it has.
pub(crate) const IMAGE: &str = "ubuntu-kube";
/// The subnet of the cluster: addresses on which Linux answers without configuration.
pub(crate) const SUBNET: &str = "127.77.0.0/24";

/// How often the truth is written down.
const BEAT: Duration = Duration::from_millis(20);

/// A member's provisioning status since a moment, in seconds of the cloud's clock.
pub(crate) type History = Vec<(f64, String)>;

/// The running cloud.
pub(crate) struct DemoCloud {
    cloud: FakeCloud,
    begun: Timestamp,
    truth: Arc<Mutex<BTreeMap<String, History>>>,
    watch: JoinHandle<()>,
}

impl Drop for DemoCloud {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl DemoCloud {
    /// A cloud in which the member of `pending` is PENDING_CREATE for so long under an ACTIVE load
    /// balancer, and the first creation of `failing`'s ends in ERROR.
    pub(crate) async fn start(
        pending: &str,
        how_long: Duration,
        failing: &str,
    ) -> Result<Self, Error> {
        let cloud = FakeCloud::start(Options::default()).await?;
        let control = cloud.control().clone();
        control.command(Command::Hold(Hold {
            member: pending.to_owned(),
            status: Provisioning::PendingCreate,
            count: Some(1),
            release_after: Some(how_long.as_secs_f64()),
            now: false,
        }))?;
        control.command(Command::Operation(OperationRule {
            operation: "member-create".to_owned(),
            name: failing.to_owned(),
            count: Some(1),
            fail: true,
            ..OperationRule::default()
        }))?;
        let elapsed = control.dump()["elapsed"].as_f64().unwrap_or_default();
        let begun = Timestamp::now().checked_sub(Duration::from_secs_f64(elapsed))?;
        let truth = Arc::new(Mutex::new(BTreeMap::<String, History>::new()));
        let sink = truth.clone();
        let watch = tokio::spawn(async move {
            loop {
                write_down(
                    &control.dump(),
                    &mut sink.lock().unwrap_or_else(PoisonError::into_inner),
                );
                tokio::time::sleep(BEAT).await;
            }
        });
        Ok(Self {
            cloud,
            begun,
            truth,
            watch,
        })
    }

    /// Where it answers.
    pub(crate) fn url(&self) -> &str {
        self.cloud.base()
    }

    /// A clouds.yaml for it.
    pub(crate) fn clouds_yaml(&self) -> String {
        self.cloud.clouds_yaml()
    }

    /// A moment of the wall clock in seconds of the cloud's.
    pub(crate) fn clock(&self, moment: Timestamp) -> f64 {
        moment.duration_since(self.begun).as_secs_f64()
    }

    /// What was true of every member, by the member's name.
    pub(crate) fn truth(&self) -> BTreeMap<String, History> {
        self.truth
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// When the status tree was asked for and when it was answered.
    pub(crate) fn tree_reads(&self) -> Vec<(f64, f64)> {
        self.cloud
            .control()
            .calls_since(0)
            .into_iter()
            .filter(|call| call.label == "loadbalancer_status_tree" && call.status == Some(200))
            .map(|call| (call.at, call.at + call.duration.unwrap_or_default()))
            .collect()
    }

    /// Calls answered, by service, without sign-in.
    pub(crate) fn calls(&self) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for ((service, _), count) in self.cloud.control().counters() {
            *calls.entry(format!("{service:?}")).or_default() += count;
        }
        calls
    }

    /// Objects that carry the cluster's name.
    pub(crate) fn leftovers(&self, cluster: &str) -> Vec<String> {
        self.cloud
            .control()
            .leftovers(cluster)
            .into_iter()
            .map(|left| format!("{} {}", left.kind, left.name))
            .collect()
    }
}

fn write_down(dump: &serde_json::Value, truth: &mut BTreeMap<String, History>) {
    let now = dump["elapsed"].as_f64().unwrap_or_default();
    let members = dump["load_balancers"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|balancer| balancer["pools"].as_array().into_iter().flatten())
        .flat_map(|pool| pool["members"].as_array().into_iter().flatten());
    for member in members {
        let (Some(name), Some(status)) = (
            member["name"].as_str(),
            member["provisioning_status"].as_str(),
        ) else {
            continue;
        };
        let history = truth.entry(name.to_owned()).or_default();
        if history.last().is_none_or(|(_, last)| last != status) {
            history.push((now, status.to_owned()));
        }
    }
}

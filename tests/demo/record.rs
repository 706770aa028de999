//! What happened, as the Kubernetes API told it: every change of every OpenStackMachine, in order.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    Api,
    api::DynamicObject,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::env::cluster_api::condition;

/// One machine at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moment {
    /// When the watch told it.
    pub at: Timestamp,
    /// `status.initialization.provisioned`.
    pub provisioned: bool,
    /// The gate's condition: status, reason, message.
    pub gate: Option<(String, String, String)>,
}

/// A watch that forgets nothing.
pub(crate) struct Record {
    moments: Arc<Mutex<BTreeMap<String, Vec<Moment>>>>,
    watch: JoinHandle<()>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Record {
    /// Starts to watch.
    pub(crate) fn start(machines: Api<DynamicObject>) -> Self {
        let moments = Arc::new(Mutex::new(BTreeMap::<String, Vec<Moment>>::new()));
        let sink = moments.clone();
        let watch = tokio::spawn(async move {
            let mut changes = watcher(machines, watcher::Config::default())
                .default_backoff()
                .applied_objects()
                .boxed();
            while let Some(change) = changes.next().await {
                let Ok(object) = change.and_then(|object| {
                    serde_json::to_value(object).map_err(|_| watcher::Error::NoResourceVersion)
                }) else {
                    continue;
                };
                let mut moments = sink.lock().unwrap_or_else(PoisonError::into_inner);
                let history = moments
                    .entry(
                        object["metadata"]["name"]
                            .as_str()
                            .unwrap_or_default()
                            .to_owned(),
                    )
                    .or_default();
                let moment = moment(&object);
                if history.last().is_none_or(|last| {
                    (last.provisioned, &last.gate) != (moment.provisioned, &moment.gate)
                }) {
                    history.push(moment);
                }
            }
        });
        Self { moments, watch }
    }

    /// Everything seen so far, by machine.
    pub(crate) fn moments(&self) -> BTreeMap<String, Vec<Moment>> {
        self.moments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn moment(object: &Value) -> Moment {
    Moment {
        at: Timestamp::now(),
        provisioned: object["status"]["initialization"]["provisioned"] == true,
        gate: condition(object, "APIServerLoadBalancerReady").map(|(status, reason, message)| {
            (status.to_owned(), reason.to_owned(), message.to_owned())
        }),
    }
}

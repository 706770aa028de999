//! Counts of the changes of objects, from a watch.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, pin_mut};
use kube::{
    Client, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::measured_environment::NAMESPACE;
use crate::env::cluster_api::api;

/// Changes by kind and name.
pub(super) type Counts = BTreeMap<String, u32>;

/// Counts every change of our objects, whoever made it, until dropped.
pub(super) struct Writes {
    counts: Arc<Mutex<Counts>>,
    watches: Vec<JoinHandle<()>>,
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl Writes {
    /// Starts to count.
    pub(super) fn watch(client: &Client) -> Self {
        let counts = Arc::new(Mutex::new(Counts::new()));
        let watches = ["OpenStackCluster", "OpenStackMachine", "OpenStackServer"]
            .map(|kind| {
                let (objects, counts) = (api(client, NAMESPACE, kind), counts.clone());
                tokio::spawn(async move {
                    // A watch ends after somewhat less than five minutes, and no test here counts for longer.
                    let events = objects.watch(&WatchParams::default(), "0").await.unwrap();
                    pin_mut!(events);
                    while let Some(event) = events.next().await {
                        if let Ok(WatchEvent::Modified(object)) = event {
                            let mut counts = counts.lock();
                            *counts
                                .entry(format!("{kind} {}", object.name_any()))
                                .or_default() += 1;
                        }
                    }
                })
            })
            .into();
        Self { counts, watches }
    }

    /// The counts so far.
    pub(super) fn so_far(&self) -> Counts {
        self.counts.lock().clone()
    }
}

//! Follows the objects of one cluster with watches.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher::{self, watcher},
    },
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::snapshot::{OUR_EVENTS, Objects, Snapshot, infrastructure_of};
use crate::{
    cli::connection::api_error,
    reconcile::capi::{Cluster, Machine},
};
use capo_api::v1beta2::{OpenStackCluster, OpenStackMachine};

/// The objects of one cluster, kept up to date by watches.
pub(super) struct Follower {
    clusters: Store<Cluster>,
    openstack_clusters: Store<OpenStackCluster>,
    machines: Store<Machine>,
    openstack_machines: Store<OpenStackMachine>,
    events: Store<Event>,
    shared: Arc<FollowerState>,
    _watches: [AbortOnDropHandle<()>; 5],
}

#[derive(Default)]
struct FollowerState {
    changed: Notify,
    /// Why a kind can't be followed, by kind.
    trouble: Mutex<BTreeMap<&'static str, Trouble>>,
}

/// Why a kind can't be followed at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) text: String,
    /// Whether the trouble lasts until a person changes something.
    pub(super) is_final: bool,
}

impl Follower {
    /// Starts to follow the objects of a Cluster that exists.
    ///
    /// # Errors
    /// An object could not be read; the text names it.
    pub(super) async fn follow(objects: &Objects) -> Result<Self, String> {
        let cluster = objects.cluster().await?;
        let infrastructure = infrastructure_of(&cluster, &objects.name)?;
        let shared = Arc::new(FollowerState::default());
        let named =
            |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let labelled = || watcher::Config::default().labels(&objects.label);
        let (clusters, of_clusters) = watch(
            "Cluster",
            objects.clusters.clone(),
            named(&objects.name.name),
            &shared,
        );
        let (openstack_clusters, of_openstack_clusters) = watch(
            "OpenStackCluster",
            objects.openstack_clusters.clone(),
            named(&infrastructure),
            &shared,
        );
        let (machines, of_machines) =
            watch("Machines", objects.machines.clone(), labelled(), &shared);
        let (openstack_machines, of_openstack_machines) = watch(
            "OpenStackMachines",
            objects.openstack_machines.clone(),
            labelled(),
            &shared,
        );
        let (events, of_events) = watch(
            "Events",
            objects.events.clone(),
            watcher::Config::default().fields(OUR_EVENTS),
            &shared,
        );
        let follower = Self {
            clusters,
            openstack_clusters,
            machines,
            openstack_machines,
            events,
            shared,
            _watches: [
                of_clusters,
                of_openstack_clusters,
                of_machines,
                of_openstack_machines,
                of_events,
            ],
        };
        follower.until_complete().await?;
        Ok(follower)
    }

    async fn until_complete(&self) -> Result<(), String> {
        let complete = async {
            let _ = futures::join!(
                self.clusters.wait_until_ready(),
                self.openstack_clusters.wait_until_ready(),
                self.machines.wait_until_ready(),
                self.openstack_machines.wait_until_ready(),
                self.events.wait_until_ready(),
            );
        };
        let mut complete = pin!(complete);
        loop {
            tokio::select! {
                () = &mut complete => return Ok(()),
                () = self.changed() => {}
            }
            if let Some(trouble) = self.trouble().filter(|trouble| trouble.is_final) {
                return Err(trouble.text);
            }
        }
    }

    /// Returns when an object may have changed.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Why the objects may be out of date; `None` while they are up to date.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let troubles = self.shared.trouble.lock();
        let worst = troubles.values().find(|trouble| trouble.is_final);
        worst.or_else(|| troubles.values().next()).cloned()
    }

    /// The objects as last read; `None` when the Cluster is gone.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let cluster = self.clusters.state().into_iter().next()?;
        let all = |objects: Vec<Arc<OpenStackMachine>>| {
            objects.into_iter().map(Arc::unwrap_or_clone).collect()
        };
        Some(Snapshot {
            cluster: Arc::unwrap_or_clone(cluster),
            openstack_cluster: self
                .openstack_clusters
                .state()
                .into_iter()
                .next()
                .map(Arc::unwrap_or_clone),
            machines: self
                .machines
                .state()
                .into_iter()
                .map(Arc::unwrap_or_clone)
                .collect(),
            openstack_machines: all(self.openstack_machines.state()),
            events: self
                .events
                .state()
                .into_iter()
                .map(Arc::unwrap_or_clone)
                .collect(),
            direct: None,
        })
    }
}

fn watch<K>(
    kind: &'static str,
    api: Api<K>,
    config: watcher::Config,
    shared: &Arc<FollowerState>,
) -> (Store<K>, AbortOnDropHandle<()>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let shared = Arc::clone(shared);
    let events = watcher(api, config).default_backoff().reflect(writer);
    let task = tokio::spawn(async move {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let mut troubles = shared.trouble.lock();
            match event {
                Ok(_) => troubles.remove(kind),
                Err(error) => troubles.insert(kind, trouble(kind, &error)),
            };
            drop(troubles);
            shared.changed.notify_one();
        }
    });
    (store, AbortOnDropHandle::new(task))
}

fn trouble(kind: &str, error: &watcher::Error) -> Trouble {
    let doing = format!("watching the {kind}");
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Trouble {
            text: api_error(&doing, error),
            is_final: matches!(error, kube::Error::Api(status) if [401, 403, 404].contains(&status.code)),
        },
        // kube starts an expired watch again.
        other => Trouble {
            text: format!("{doing}: {other}"),
            is_final: false,
        },
    }
}

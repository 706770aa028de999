//! One watch per kind, shared by all controllers. It has a store of objects without their large unused fields, and
//! calls a function for every change that can require a pass. A status that capo-rs wrote itself causes no call; the
//! removal of a status does.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fmt::Debug,
    hash::{Hash, Hasher},
    sync::Arc,
};

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{PassObserver, creations, kubernetes_text, name_of};
use capo_api::CAPO_STASH;
use capo_core::ObjectName;

/// The objects that need a pass when another one changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// An `OpenStackCluster`.
    Cluster(ObjectName),
    /// An `OpenStackCluster` that may not exist any more without a last pass, because its finalizer was removed by a
    /// user.
    VanishedCluster(ObjectName),
    /// The `OpenStackCluster` of the Cluster with this name.
    ClusterOf(ObjectName),
    /// An `OpenStackMachine`.
    Machine(ObjectName),
    /// Every `OpenStackMachine` of the Cluster with this name.
    MachinesOf(ObjectName),
    /// An `OpenStackServer`.
    Server(ObjectName),
}

/// The objects that need a pass when a part of an object changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Route<T = Target> {
    /// The objects that a change of metadata or spec enqueues.
    pub own: Vec<T>,
    /// The objects that are enqueued by a change of the part on which related objects depend, and by the deletion of
    /// the object.
    pub related: Vec<T>,
}

/// The hashes of the parts of an object, by the controllers that depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprints {
    /// The part on which the object's own controller depends: metadata and generation.
    own: u64,
    /// The part on which other controllers depend, such as a status.
    related: u64,
}

/// Whether an object has a status that capo-rs wrote. The first pass over an object already writes conditions.
macro_rules! has_conditions {
    () => {
        |object| {
            let status = object.status.as_ref();
            status.is_some_and(|status| !status.conditions.is_empty())
        }
    };
}
pub(crate) use has_conditions;

/// A store of objects as last read, and the watch that fills it.
#[derive(Debug)]
pub(crate) struct Watch<K: Resource<DynamicType = ()> + Clone + 'static> {
    api: Api<K>,
    config: watcher::Config,
    has_status: fn(&K) -> bool,
    writer: reflector::store::Writer<K>,
    store: Store<K>,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A watch over `api`. If `labels` is given, it contains only the objects that match this label selector.
    pub(crate) fn new(api: Api<K>, labels: Option<&str>) -> Self {
        let config = watcher::Config::default().page_size(PAGE);
        let config = match labels {
            Some(labels) => config.labels(labels),
            None => config,
        };
        let (store, writer) = reflector::store();
        Self {
            api,
            config,
            // Other programs write the status of this kind, so its loss requires no pass.
            has_status: |_| true,
            writer,
            store,
        }
    }

    /// Sets how to detect that an object has a status that capo-rs wrote. An object that lost its status is enqueued.
    pub(crate) fn with_status(self, has_status: fn(&K) -> bool) -> Self {
        Self { has_status, ..self }
    }

    /// The objects as last read.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Follows the objects until `shutdown`. `related` hashes the part on which other controllers depend, `route` names
    /// the objects to enqueue, and `enqueue` is called for every change that can require a pass.
    pub(crate) async fn run<T: Send>(
        self,
        (observer, shutdown): (Arc<dyn PassObserver>, CancellationToken),
        related: impl Fn(&K, &mut DefaultHasher) + Send,
        route: impl Fn(&K) -> Route<T> + Send,
        enqueue: impl Fn(&T) + Send,
    ) {
        let kind = K::kind(&());
        let has_status = self.has_status;
        let store = self.store;
        observer.watching(&kind, Box::new(move || store.len()));
        let events = watcher(self.api, self.config)
            .default_backoff()
            .modify(trim)
            .reflect(self.writer)
            .inspect(|event| match event {
                Ok(Event::Apply(_) | Event::InitApply(_) | Event::Delete(_)) => {
                    observer.watched(&kind);
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => observer.watch_broke(&kind, error.into()),
            })
            .take_until(shutdown.cancelled_owned());
        let look = move |object: &K| Tracked {
            fingerprints: fingerprints_of(object, &related),
            has_status: has_status(object),
            route: route(object),
        };
        follow(events, look, enqueue).await;
    }
}

/// The number of objects in one answer to a list. All objects of one answer are in memory three times: as text, as
/// parsed objects, and in the store.
const PAGE: u32 = 100;

/// Annotations with copies of objects. They are removed because capo-rs never reads them from a store. They belong to
/// kubectl, to CAPO's conversion, and to control-plane providers on their Machines.
const COPIES: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    CAPO_STASH,
    "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration",
];

/// Removes large fields that are never read.
fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    if let Some(annotations) = &mut object.meta_mut().annotations {
        for copy in COPIES {
            annotations.remove(copy);
        }
        if annotations.is_empty() {
            object.meta_mut().annotations = None;
        }
    }
}

/// The data that is kept of an object besides the store: its fingerprints, and the objects to enqueue.
#[derive(Debug)]
struct Tracked<T> {
    fingerprints: Fingerprints,
    has_status: bool,
    route: Route<T>,
}

/// The last error of a watch. It is logged only when it is new, because a watch may be retried for hours.
#[derive(Debug, Default)]
struct LastWatchError(Option<String>);

impl LastWatchError {
    /// Records the error, and returns whether it differs from the last one.
    fn is_new(&mut self, text: &str) -> bool {
        let new = self.0.as_deref() != Some(text);
        if new {
            self.0 = Some(text.to_owned());
        }
        new
    }

    /// Returns whether the watch had failed until now, and resets that.
    fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// The text of an error without the parts that differ every time.
fn stable_text(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => kubernetes_text(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Whether Kubernetes does not serve the kind.
fn is_not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

/// The text of the error, with the remedy if Kubernetes does not serve the kind.
fn explained<K: Resource<DynamicType = ()>>(error: &watcher::Error) -> String {
    let text = stable_text(error);
    if !is_not_served(error) {
        return text;
    }
    let version = K::api_version(&());
    let needed = if version.starts_with("cluster.x-k8s.io/") {
        "Cluster API 1.11 or later must be installed"
    } else {
        "the definition must be installed in a version that serves it"
    };
    format!("{version} is not served; {needed} ({text})")
}

async fn follow<K: Resource<DynamicType = ()> + Debug, T>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send,
    look: impl Fn(&K) -> Tracked<T> + Send,
    enqueue: impl Fn(&T) + Send,
) {
    let kind = K::kind(&());
    let mut last_error = LastWatchError::default();
    let mut seen: HashMap<ObjectName, Tracked<T>> = HashMap::new();
    let mut listed: HashMap<ObjectName, Tracked<T>> = HashMap::new();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        // The start of a list does not prove yet that the API server answers.
        let answered = !matches!(event, Err(_) | Ok(Event::Init));
        if answered && last_error.is_over() {
            tracing::info!(%kind, "Watching again");
        }
        match event {
            Ok(Event::Init) => listed.clear(),
            // Until the list is complete, the store shows the one before. A pass that began now would not find a new
            // object, or would act on the old state of a changed one, and nothing would start another pass.
            Ok(Event::InitApply(object)) => {
                listed.insert(name_of(&object), look(&object));
            }
            Ok(Event::InitDone) => {
                let before = std::mem::replace(&mut seen, std::mem::take(&mut listed));
                for (name, now) in &seen {
                    report(before.get(name), now, &enqueue);
                }
                // An object that is missing in the new list was deleted while the watch was interrupted.
                for (name, gone) in before {
                    if !seen.contains_key(&name) {
                        gone.route.related.iter().for_each(&enqueue);
                    }
                }
            }
            Ok(Event::Apply(object)) => {
                let (name, now) = (name_of(&object), look(&object));
                report(seen.get(&name), &now, &enqueue);
                seen.insert(name, now);
            }
            Ok(Event::Delete(object)) => {
                seen.remove(&name_of(&object));
                look(&object).route.related.iter().for_each(&enqueue);
            }
            Err(error) => {
                let text = explained::<K>(&error);
                if last_error.is_new(&text) {
                    tracing::warn!(%kind, error = text, "The watch failed and will be retried");
                }
            }
        }
    }
}

fn report<T>(before: Option<&Tracked<T>>, now: &Tracked<T>, enqueue: &impl Fn(&T)) {
    let wiped = |before: &Tracked<T>| before.has_status && !now.has_status;
    if before.is_none_or(|before| before.fingerprints.own != now.fingerprints.own || wiped(before))
    {
        now.route.own.iter().for_each(enqueue);
    }
    if before.is_none_or(|before| before.fingerprints.related != now.fingerprints.related) {
        now.route.related.iter().for_each(enqueue);
    }
}

fn fingerprints_of<K: Resource>(
    object: &K,
    related: &impl Fn(&K, &mut DefaultHasher),
) -> Fingerprints {
    let (mut own, mut theirs) = (DefaultHasher::new(), DefaultHasher::new());
    hash_metadata(object.meta(), &mut own);
    related(object, &mut theirs);
    Fingerprints {
        own: own.finish(),
        related: theirs.finish(),
    }
}

/// Hashes all metadata that can require a pass. Writing the status does not change any of it.
fn hash_metadata(meta: &ObjectMeta, hasher: &mut impl Hasher) {
    meta.uid.hash(hasher);
    meta.generation.hash(hasher);
    meta.labels.hash(hasher);
    hash_annotations(meta, hasher);
    meta.finalizers.hash(hasher);
    meta.deletion_timestamp.is_some().hash(hasher);
    for owner in meta.owner_references.iter().flatten() {
        (&owner.api_version, &owner.kind, &owner.name, &owner.uid).hash(hasher);
    }
}

/// Hashes the annotations that can require a pass.
pub(crate) fn hash_annotations(meta: &ObjectMeta, hasher: &mut impl Hasher) {
    for annotation in meta.annotations.iter().flatten() {
        // Only capo-rs writes this annotation. A pass after each write would not wait for the time of the next try.
        if annotation.0 != creations::ANNOTATION {
            annotation.hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests;

//! One watch per kind, shared by all controllers: a store of trimmed objects, and a call for every change
//! that can matter. Our own status writes are not among those; a status that was wiped is.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fmt::Debug,
    hash::{Hash, Hasher},
    sync::Arc,
};

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{Observer, kubernetes_text, name_of};
use capo_core::ObjectName;

/// Which objects want a pass when another one changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// An `OpenStackCluster`.
    Cluster(ObjectName),
    /// An `OpenStackCluster` that may be gone without a last pass, because others removed its finalizer.
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

/// Which objects want a pass when which part of an object changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Route<T = Target> {
    /// Enqueued by a change of metadata or spec.
    pub own: Vec<T>,
    /// Enqueued by a change of what related objects depend on, and when the object is gone.
    pub related: Vec<T>,
}

/// Fingerprints of an object, by what depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprints {
    /// What the controller of the object itself depends on: metadata and generation.
    own: u64,
    /// What other controllers depend on, such as a status that another controller writes.
    related: u64,
}

/// Whether an object has a status of ours: there are conditions in it from the first pass on.
macro_rules! has_conditions {
    () => {
        |object| {
            let status = object.status.as_ref();
            status.is_some_and(|status| !status.conditions.is_empty())
        }
    };
}
pub(crate) use has_conditions;

/// A store of objects as last seen, and the task that fills it.
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
    /// A watch over `api`, narrowed to `labels` where given.
    pub(crate) fn new(api: Api<K>, labels: Option<&str>) -> Self {
        let config = labels.map_or_else(watcher::Config::default, |labels| {
            watcher::Config::default().labels(labels)
        });
        let (store, writer) = reflector::store();
        Self {
            api,
            config,
            // Others write it.
            has_status: |_| true,
            writer,
            store,
        }
    }

    /// How to see whether an object has a status of ours. The object is enqueued when it has lost it.
    pub(crate) fn with_status(self, has_status: fn(&K) -> bool) -> Self {
        Self { has_status, ..self }
    }

    /// The objects as last seen.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Follows the objects until `shutdown`. `related` hashes what other controllers depend on, `route`
    /// names those; `enqueue` is called for every change that can matter.
    pub(crate) async fn run<T: Send>(
        self,
        (observer, shutdown): (Arc<dyn Observer>, CancellationToken),
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

/// Drops what is large and never read.
fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    object
        .annotations_mut()
        .remove("kubectl.kubernetes.io/last-applied-configuration");
}

/// What is kept of an object besides the store: its fingerprints, and what depends on it.
#[derive(Debug)]
struct Tracked<T> {
    fingerprints: Fingerprints,
    has_status: bool,
    route: Route<T>,
}

/// The last error of a watch, logged when it is new: a watch may be tried again for hours.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    /// Whether this is another error than the last one.
    fn is_new(&mut self, text: &str) -> bool {
        let new = self.0.as_deref() != Some(text);
        if new {
            self.0 = Some(text.to_owned());
        }
        new
    }

    /// Whether the watch had failed until now.
    fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// The error without what differs every time.
fn stable_text(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => kubernetes_text(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

async fn follow<K: Resource<DynamicType = ()> + Debug, T>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send,
    look: impl Fn(&K) -> Tracked<T> + Send,
    enqueue: impl Fn(&T) + Send,
) {
    let kind = K::kind(&());
    let mut trouble = Trouble::default();
    let mut seen: HashMap<ObjectName, Tracked<T>> = HashMap::new();
    let mut listed: HashMap<ObjectName, Tracked<T>> = HashMap::new();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        // A list begins before it is known whether there is one.
        let goes_on = !matches!(event, Err(_) | Ok(Event::Init));
        if goes_on && trouble.is_over() {
            tracing::info!(%kind, "Watching again");
        }
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                let (name, now) = (name_of(&object), look(&object));
                report(seen.get(&name), &now, &enqueue);
                listed.insert(name, now);
            }
            Ok(Event::InitDone) => {
                // What is not listed any more went while the watch was down.
                let before = std::mem::replace(&mut seen, std::mem::take(&mut listed));
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
                let text = stable_text(&error);
                if trouble.is_new(&text) {
                    tracing::warn!(%kind, error = text, "Waiting to watch again");
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

/// Everything in the metadata that can ask for a pass. Without status subresource writes: those
/// change neither generation nor any of these.
fn hash_metadata(meta: &ObjectMeta, hasher: &mut impl Hasher) {
    meta.uid.hash(hasher);
    meta.generation.hash(hasher);
    meta.labels.hash(hasher);
    meta.annotations.hash(hasher);
    meta.finalizers.hash(hasher);
    meta.deletion_timestamp.is_some().hash(hasher);
    for owner in meta.owner_references.iter().flatten() {
        (&owner.api_version, &owner.kind, &owner.name, &owner.uid).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::stream;
    use k8s_openapi::api::core::v1::{Pod, PodStatus};

    use super::*;

    fn pod(name: &str, generation: i64, phase: &str) -> Pod {
        Pod {
            metadata: ObjectMeta {
                namespace: Some("n".to_owned()),
                name: Some(name.to_owned()),
                generation: Some(generation),
                ..ObjectMeta::default()
            },
            status: Some(PodStatus {
                phase: Some(phase.to_owned()),
                ..PodStatus::default()
            }),
            ..Pod::default()
        }
    }

    fn phase(pod: &Pod) -> Option<&String> {
        pod.status.as_ref()?.phase.as_ref()
    }

    async fn wakes(events: Vec<Event<Pod>>) -> Vec<Target> {
        let seen = Mutex::new(Vec::new());
        follow(
            stream::iter(events.into_iter().map(Ok)),
            |pod| Tracked {
                fingerprints: fingerprints_of(pod, &|pod: &Pod, hasher| phase(pod).hash(hasher)),
                has_status: phase(pod).is_some_and(|phase| !phase.is_empty()),
                route: Route {
                    own: vec![own(&pod.name_any())],
                    related: vec![neighbour(&pod.name_any())],
                },
            },
            |target| seen.lock().unwrap().push(target.clone()),
        )
        .await;
        seen.into_inner().unwrap()
    }

    fn own(name: &str) -> Target {
        Target::Machine(ObjectName::new("n", name))
    }

    fn neighbour(name: &str) -> Target {
        Target::Cluster(ObjectName::new("n", name))
    }

    #[tokio::test]
    async fn a_status_write_wakes_neighbours_only_and_an_equal_object_nobody() {
        let seen = wakes(vec![
            Event::Init,
            Event::InitApply(pod("a", 1, "x")),
            Event::InitDone,
            Event::Apply(pod("a", 1, "x")),
            Event::Apply(pod("a", 1, "y")),
            Event::Apply(pod("a", 2, "y")),
            Event::Delete(pod("a", 2, "y")),
        ])
        .await;
        assert_eq!(
            seen,
            [
                own("a"),
                neighbour("a"),
                neighbour("a"),
                own("a"),
                neighbour("a"),
            ]
        );
    }

    #[tokio::test]
    async fn a_wiped_status_wakes_its_controller_and_the_first_one_does_not() {
        let seen = wakes(vec![
            Event::Init,
            Event::InitApply(pod("a", 1, "")),
            Event::InitDone,
            Event::Apply(pod("a", 1, "x")),
            Event::Apply(pod("a", 1, "")),
            Event::Apply(pod("a", 1, "y")),
        ])
        .await;
        assert_eq!(
            seen,
            [
                own("a"),
                neighbour("a"),
                neighbour("a"),
                own("a"),
                neighbour("a"),
                neighbour("a"),
            ]
        );
    }

    #[test]
    fn a_kind_that_is_not_served_is_told_once() {
        let missing = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(
            kube::core::Status::failure(
                "the server could not find the requested resource",
                "NotFound",
            )
            .with_code(404),
        )));
        let missing = stable_text(&missing);
        assert_eq!(
            missing,
            "Kubernetes answered 404: the server could not find the requested resource"
        );
        let mut trouble = Trouble::default();
        let told: Vec<bool> = [missing.as_str(), &missing, "another", &missing]
            .into_iter()
            .map(|text| trouble.is_new(text))
            .collect();
        assert_eq!(told, [true, false, true, true]);
        assert!(trouble.is_over() && !trouble.is_over());
        assert!(trouble.is_new(&missing));
    }

    #[tokio::test]
    async fn a_relist_wakes_what_changed_came_or_went_meanwhile() {
        let seen = wakes(vec![
            Event::Init,
            Event::InitApply(pod("a", 1, "x")),
            Event::InitApply(pod("b", 1, "x")),
            Event::InitApply(pod("c", 1, "x")),
            Event::InitDone,
            Event::Init,
            Event::InitApply(pod("a", 1, "x")),
            Event::InitApply(pod("b", 2, "x")),
            Event::InitDone,
            Event::Delete(pod("a", 1, "x")),
            Event::Apply(pod("a", 1, "x")),
        ])
        .await;
        assert_eq!(
            seen.get(6..),
            Some(
                [
                    own("b"),
                    neighbour("c"),
                    neighbour("a"),
                    own("a"),
                    neighbour("a")
                ]
                .as_slice()
            )
        );
    }
}

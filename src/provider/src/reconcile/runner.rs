//! Runs the passes of one controller: a limited number at the same time, and never two over the same object.

use std::{
    collections::HashMap, convert::Infallible, fmt::Debug, panic::AssertUnwindSafe, sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{
        controller::{Action, Config, Error},
        reflector::{ObjectRef, Store},
    },
};
use parking_lot::Mutex;
use rand::RngExt;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field};

use super::{
    Outcome, PassObserver, QueueMetrics, backoff::Backoff, capi::CLUSTER_NAME_LABEL, name_of,
    panicked_pass,
};
use crate::subject::Subject;
use crate::work_queue::WorkQueue;
use capo_core::ObjectName;

/// How long running passes may continue after the stop. They can be cut at any point, because the next process finds
/// the objects that they created.
const GRACE: Duration = Duration::from_millis(1_500);

/// A pass over one object.
pub(crate) type Pass<K, C> = fn(Arc<K>, Arc<C>) -> BoxFuture<'static, Outcome>;

/// One controller.
pub(crate) struct Controller<K: Resource<DynamicType = ()> + 'static, C> {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// One pass over one object.
    pub pass: Pass<K, C>,
    /// The objects as last read by the watch.
    pub store: Store<K>,
    /// The objects that need a pass.
    pub queue: WorkQueue,
    /// The number of passes at the same time.
    pub concurrency: u16,
}

/// The parts that all controllers share while they run.
#[derive(Clone)]
pub(crate) struct Runner {
    /// Counts passes.
    pub observer: Arc<dyn PassObserver>,
    /// Writes the condition of an object whose pass panicked.
    pub client: Client,
    /// The pause after a pass that found nothing to do.
    pub sync_period: Duration,
    /// Ends the controllers.
    pub shutdown: CancellationToken,
}

impl Runner {
    /// Runs passes until the shutdown, then for [`GRACE`] at most.
    pub(crate) async fn run<K, C>(self, controller: Controller<K, C>, context: Arc<C>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
        C: Send + Sync + 'static,
    {
        let Controller {
            name,
            pass,
            store,
            queue,
            concurrency,
        } = controller;
        let state = Arc::new(ControllerState {
            controller: name,
            observer: self.observer,
            client: self.client,
            sync_period: self.sync_period,
            metrics: Arc::default(),
            backoff: Backoff::default(),
            failures: Failures::default(),
        });
        state
            .observer
            .controller(name, concurrency, state.metrics.clone());
        let metrics = state.metrics.clone();
        let due = queue
            .stream()
            .map(move |name| {
                let object = reference::<K>(&name);
                metrics.added(name);
                Ok::<_, Infallible>(object)
            })
            .take_until(self.shutdown.clone().cancelled_owned());
        let of_passes = state.clone();
        let one = move |object: Arc<K>, context: Arc<C>| {
            let state = of_passes.clone();
            Box::pin(async move { Ok(state.observe(pass, object, context).await) })
        };
        let passes = kube::runtime::applier(
            one,
            |_, never: &Infallible, _| match *never {},
            context,
            store,
            Box::pin(due),
            Config::default().concurrency(concurrency),
        )
        .for_each(|ended| {
            // Passes report no failure in this way. kube reports here that an object in the queue does not exist any
            // more.
            if let Err(Error::ObjectNotFound(object)) = ended {
                let namespace = object.namespace.unwrap_or_default();
                state.forget(&ObjectName::new(namespace, object.name));
            }
            std::future::ready(())
        });
        let end = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = passes => {}
            () = end => tracing::info!(controller = name, "Cancelling the passes that still run after the stop"),
        }
    }
}

/// An object of a kind without namespaces has an empty namespace in its name.
fn reference<K: Resource<DynamicType = ()>>(name: &ObjectName) -> ObjectRef<K> {
    let reference = ObjectRef::new(&name.name);
    if name.namespace.is_empty() {
        reference
    } else {
        reference.within(&name.namespace)
    }
}

/// The state of one controller while it runs.
struct ControllerState {
    controller: &'static str,
    observer: Arc<dyn PassObserver>,
    client: Client,
    sync_period: Duration,
    metrics: Arc<QueueMetrics>,
    backoff: Backoff,
    failures: Failures,
}

impl ControllerState {
    async fn observe<K, C>(&self, pass: Pass<K, C>, object: Arc<K>, context: Arc<C>) -> Action
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        let name = name_of(&*object);
        let generation = object.meta().generation.unwrap_or_default();
        let span = span(self.controller, &name, &*object);
        let waited = self.metrics.begin(&name);
        self.observer.pass_began(self.controller, waited);
        let begun = tokio::time::Instant::now();
        // The next pass does not depend on the state that the panicked pass left, because every pass reads its object
        // and OpenStack again.
        let pass = AssertUnwindSafe(async move { pass(object, context).await }).catch_unwind();
        let subject = Subject::new(K::kind(&()), &name);
        let pass = subject.clone().scope(pass);
        let outcome = if let Ok(outcome) = pass.instrument(span.clone()).await {
            outcome
        } else {
            self.observer.pass_panicked(self.controller);
            panicked_pass::show::<K>(&self.client, &name)
                .instrument(span.clone())
                .await;
            panicked_pass::outcome()
        };
        let duration = begun.elapsed();
        self.observer
            .pass(self.controller, outcome.result(), duration);
        self.observer.pass_over(&subject, &outcome);
        let pause = self.backoff.next(
            &name,
            generation,
            &outcome,
            self.sync_period,
            rand::rng().random(),
        );
        self.metrics.end(&name, pause);
        let transition = self.failures.transition(&name, &outcome);
        span.in_scope(|| log(&outcome, transition, duration, pause));
        Action::requeue(pause)
    }

    fn forget(&self, object: &ObjectName) {
        self.metrics.forget(object);
        self.backoff.forget(object);
        self.failures.forget(object);
    }
}

/// The span of a pass. Its keys are those of Cluster API's logs: the object's kind with its name, and the object's
/// Cluster.
fn span<K>(controller: &'static str, name: &ObjectName, object: &K) -> tracing::Span
where
    K: Resource<DynamicType = ()>,
{
    let span = tracing::info_span!(
        "pass",
        controller,
        Cluster = field::Empty,
        OpenStackCluster = field::Empty,
        OpenStackMachine = field::Empty,
        OpenStackServer = field::Empty,
        object = field::Empty,
    );
    let full_name = field::display(name);
    match K::kind(&()).as_ref() {
        "OpenStackCluster" => span.record("OpenStackCluster", full_name),
        "OpenStackMachine" => span.record("OpenStackMachine", full_name),
        "OpenStackServer" => span.record("OpenStackServer", full_name),
        _ => span.record("object", full_name),
    };
    if let Some(cluster) = object.labels().get(CLUSTER_NAME_LABEL) {
        let cluster = ObjectName::new(&name.namespace, cluster);
        span.record("Cluster", field::display(cluster));
    }
    span
}

/// How the outcome of a pass differs from that of the pass before it over the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureTransition {
    /// Neither pass failed.
    None,
    /// The pass failed, and the one before it did not fail in this way.
    Failed,
    /// The pass failed in the same way as the one before it.
    FailedAgain,
    /// The pass did not fail, and the one before it did.
    Recovered,
}

/// The failures that were logged, by object, so that a repeated failure is logged once.
#[derive(Debug, Default)]
struct Failures(Mutex<HashMap<ObjectName, String>>);

/// The number of objects whose failures are kept at the same time.
const REMEMBERED: usize = 10_000;

impl Failures {
    fn transition(&self, object: &ObjectName, outcome: &Outcome) -> FailureTransition {
        let mut logged = self.0.lock();
        match outcome {
            Outcome::Failed { message, .. } if logged.get(object) == Some(message) => {
                FailureTransition::FailedAgain
            }
            Outcome::Failed { message, .. } => {
                if logged.len() < REMEMBERED || logged.contains_key(object) {
                    logged.insert(object.clone(), message.clone());
                }
                FailureTransition::Failed
            }
            Outcome::Done | Outcome::Wait { .. } => match logged.remove(object) {
                Some(_) => FailureTransition::Recovered,
                None => FailureTransition::None,
            },
        }
    }

    fn forget(&self, object: &ObjectName) {
        self.0.lock().remove(object);
    }
}

/// Logs one line when a failure begins and one when it ends. Other passes are logged at the debug level only.
fn log(outcome: &Outcome, transition: FailureTransition, duration: Duration, pause: Duration) {
    let (milliseconds, again_in) = (duration.as_millis(), pause.as_secs());
    if transition == FailureTransition::Recovered {
        tracing::info!("Recovering from a failure");
    }
    match outcome {
        Outcome::Done => tracing::debug!(milliseconds, again_in, "Reconciled"),
        Outcome::Wait {
            reason, message, ..
        } => tracing::debug!(milliseconds, again_in, %reason, message, "Waiting"),
        Outcome::Failed {
            class,
            reason,
            message,
            ..
        } => {
            if transition == FailureTransition::FailedAgain {
                tracing::debug!(milliseconds, again_in, ?class, %reason, message, "Failing again");
            } else {
                tracing::warn!(milliseconds, again_in, ?class, %reason, message, "Failing");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::conflict_once::ConflictOnce;
    use capo_api::v1beta2::OpenStackCluster;
    use capo_core::FailureClass;
    use capo_core::Reason;
    use kube::runtime::{reflector, watcher::Event};
    use serde_json::{Value, from_value, json};

    /// How many passes each object had.
    type Passes = Mutex<HashMap<String, u32>>;

    fn pass(object: Arc<OpenStackCluster>, passes: Arc<Passes>) -> BoxFuture<'static, Outcome> {
        async move {
            let name = object.name_any();
            *passes.lock().entry(name.clone()).or_default() += 1;
            assert_ne!(name, "broken", "a programming error");
            Outcome::Done
        }
        .boxed()
    }

    #[derive(Default)]
    struct Panics(Mutex<u32>);

    impl PassObserver for Panics {
        fn pass_panicked(&self, _: &'static str) {
            *self.0.lock() += 1;
        }
    }

    fn cluster(name: &str) -> Value {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": name, "namespace": "n", "resourceVersion": "1"},
            "spec": {"identityRef": {"name": "s", "cloudName": "c"}},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_one_pass_and_is_counted_shown_and_tried_again() {
        let (store, mut writer) = reflector::store::<OpenStackCluster>();
        let queue = WorkQueue::default();
        writer.apply_watcher_event(&Event::Init);
        for name in ["broken", "good"] {
            let object = from_value(cluster(name)).unwrap();
            writer.apply_watcher_event(&Event::InitApply(object));
            queue.enqueue(&ObjectName::new("n", name));
        }
        writer.apply_watcher_event(&Event::InitDone);
        let server = ConflictOnce::new(cluster("broken"), cluster("broken"));
        let (panics, passes) = (Arc::new(Panics::default()), Arc::new(Passes::default()));
        let shutdown = CancellationToken::new();
        let runner = Runner {
            observer: panics.clone(),
            client: server.client(),
            sync_period: Duration::from_mins(10),
            shutdown: shutdown.clone(),
        };
        let controller = Controller {
            name: "openstackcluster",
            pass,
            store,
            queue,
            concurrency: 2,
        };
        let running = tokio::spawn(runner.run(controller, passes.clone()));
        tokio::time::sleep(Duration::from_mins(2)).await;
        shutdown.cancel();
        running.await.unwrap();
        let passes = passes.lock().clone();
        assert_eq!(passes.get("good"), Some(&1));
        let broken = passes.get("broken").copied().unwrap_or_default();
        assert!(broken >= 2, "{passes:?}");
        assert_eq!(*panics.0.lock(), broken);
        let patches = server.patches.lock();
        let ready = &patches.last().unwrap()["status"]["conditions"][0];
        assert_eq!(
            (&ready["type"], &ready["status"], &ready["reason"]),
            (&json!("Ready"), &json!("False"), &json!("InternalError"))
        );
    }

    #[test]
    fn a_failure_and_its_end_are_each_logged_once() {
        let failures = Failures::default();
        let transition = |object: &str, outcome: &Outcome| {
            failures.transition(&ObjectName::new("n", object), outcome)
        };
        let failed = |text: &str| {
            Outcome::failed(FailureClass::Transient, Reason::OpenStackUnavailable, text)
        };
        assert_eq!(transition("a", &Outcome::Done), FailureTransition::None);
        assert_eq!(transition("a", &failed("x")), FailureTransition::Failed);
        assert_eq!(
            transition("a", &failed("x")),
            FailureTransition::FailedAgain
        );
        assert_eq!(transition("b", &failed("x")), FailureTransition::Failed);
        assert_eq!(transition("a", &failed("y")), FailureTransition::Failed);
        assert_eq!(
            transition("a", &Outcome::Done),
            FailureTransition::Recovered
        );
        assert_eq!(transition("a", &Outcome::Done), FailureTransition::None);
    }
}

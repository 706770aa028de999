//! One controller: wakes in, passes out, bounded in number, never two over one object.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture};
use kube::{
    Resource, ResourceExt,
    runtime::{
        controller::{Action, Config, Error},
        reflector::{ObjectRef, Store},
    },
};
use rand::RngExt;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field};

use super::{Context, Outcome, Queue, capi::CLUSTER_NAME_LABEL, wakes::Wakes};
use capo_core::ObjectName;

/// How long passes may go on after the word to stop. They can be cut anywhere: the next process finds
/// what they made.
const GRACE: Duration = Duration::from_millis(1_500);

/// A pass over one object.
pub(super) type Pass<K> = fn(Arc<K>, Arc<Context>) -> BoxFuture<'static, Outcome>;

/// Runs passes over objects of kind `K` until `shutdown`, then for [`GRACE`] at most.
pub(super) async fn run<K>(
    controller: &'static str,
    pass: Pass<K>,
    store: Store<K>,
    wakes: Wakes,
    concurrency: u16,
    context: Arc<Context>,
    shutdown: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let queue = Arc::new(Queue::default());
    context
        .observer
        .controller(controller, concurrency, queue.clone());
    let asked = queue.clone();
    let wanted = wakes
        .stream()
        .map(move |name| {
            let object = reference::<K>(&name);
            asked.ask(name);
            Ok::<_, Infallible>(object)
        })
        .take_until(shutdown.clone().cancelled_owned());
    let gone = queue.clone();
    let one = move |object: Arc<K>, context: Arc<Context>| {
        Box::pin(observed(controller, pass, object, context, queue.clone()))
    };
    let passes = kube::runtime::applier(
        one,
        |_, never: &Infallible, _| match *never {},
        context,
        store,
        Box::pin(wanted),
        Config::default().concurrency(concurrency),
    )
    .for_each(|ended| {
        // What is left to report is a wake for an object that is gone.
        if let Err(Error::ObjectNotFound(object)) = ended {
            gone.forget(&ObjectName::new(
                object.namespace.unwrap_or_default(),
                object.name,
            ));
        }
        std::future::ready(())
    });
    let end = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = passes => {}
        () = end => tracing::info!(controller, "Cutting off passes at the stop"),
    }
}

/// An object of a kind without namespaces has an empty one in its name.
fn reference<K: Resource<DynamicType = ()>>(name: &ObjectName) -> ObjectRef<K> {
    let reference = ObjectRef::new(&name.name);
    if name.namespace.is_empty() {
        reference
    } else {
        reference.within(&name.namespace)
    }
}

async fn observed<K>(
    controller: &'static str,
    pass: Pass<K>,
    object: Arc<K>,
    context: Arc<Context>,
    queue: Arc<Queue>,
) -> Result<Action, Infallible>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let name = ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
    let generation = object.meta().generation.unwrap_or_default();
    let span = span(controller, &name, &*object);
    context.observer.pass_began(controller, queue.begin(&name));
    let begun = tokio::time::Instant::now();
    let outcome = pass(object, context.clone()).instrument(span.clone()).await;
    let duration = begun.elapsed();
    context.observer.pass(controller, outcome.label(), duration);
    let pause = context.backoff.next(
        controller,
        &name,
        generation,
        &outcome,
        context.settings.sync_period,
        rand::rng().random(),
    );
    queue.end(&name, pause);
    let news = context.logged.look(controller, &name, &outcome);
    span.in_scope(|| log(&outcome, news, duration, pause));
    Ok(Action::requeue(pause))
}

/// The keys that Cluster API's logs have: the object under its kind, and the Cluster it belongs to.
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
    let shown = field::display(name);
    match K::kind(&()).as_ref() {
        "OpenStackCluster" => span.record("OpenStackCluster", shown),
        "OpenStackMachine" => span.record("OpenStackMachine", shown),
        "OpenStackServer" => span.record("OpenStackServer", shown),
        _ => span.record("object", shown),
    };
    if let Some(cluster) = object.labels().get(CLUSTER_NAME_LABEL) {
        let cluster = ObjectName::new(&name.namespace, cluster);
        span.record("Cluster", field::display(cluster));
    }
    span
}

/// What a pass's outcome is after the one before it over the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// Nothing is wrong, nor was it.
    None,
    /// A failure that was not there before.
    Failed,
    /// The same failure again.
    FailedAgain,
    /// A failure is over.
    Recovered,
}

/// Failures that the log has told of, by object: the same one again is no news.
#[derive(Debug, Default)]
pub(super) struct Logged(Mutex<HashMap<(&'static str, ObjectName), String>>);

/// Objects whose failures are remembered at once.
const REMEMBERED: usize = 10_000;

impl Logged {
    fn look(&self, controller: &'static str, object: &ObjectName, outcome: &Outcome) -> News {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (controller, object.clone());
        match outcome {
            Outcome::Failed { message, .. } if told.get(&key) == Some(message) => News::FailedAgain,
            Outcome::Failed { message, .. } => {
                if told.len() < REMEMBERED || told.contains_key(&key) {
                    told.insert(key, message.clone());
                }
                News::Failed
            }
            Outcome::Done | Outcome::Wait { .. } => match told.remove(&key) {
                Some(_) => News::Recovered,
                None => News::None,
            },
        }
    }
}

/// A line when something begins or ends to be wrong; what every pass finds only for those who look for faults.
fn log(outcome: &Outcome, news: News, duration: Duration, pause: Duration) {
    let (milliseconds, again_in) = (duration.as_millis(), pause.as_secs());
    if news == News::Recovered {
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
            if news == News::FailedAgain {
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
    use capo_core::FailureClass;
    use capo_core::Reason;

    #[test]
    fn a_failure_is_news_once_and_so_is_its_end() {
        let logged = Logged::default();
        let look = |object: &str, outcome: &Outcome| {
            logged.look("c", &ObjectName::new("n", object), outcome)
        };
        let failed = |text: &str| {
            Outcome::failed(FailureClass::Transient, Reason::OpenStackUnavailable, text)
        };
        assert_eq!(look("a", &Outcome::Done), News::None);
        assert_eq!(look("a", &failed("x")), News::Failed);
        assert_eq!(look("a", &failed("x")), News::FailedAgain);
        assert_eq!(look("b", &failed("x")), News::Failed);
        assert_eq!(look("a", &failed("y")), News::Failed);
        assert_eq!(look("a", &Outcome::Done), News::Recovered);
        assert_eq!(look("a", &Outcome::Done), News::None);
    }
}

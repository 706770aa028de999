//! One controller: wakes in, passes out, bounded in number, never two over one object.

use std::{convert::Infallible, fmt::Debug, sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture};
use kube::{
    Resource, ResourceExt,
    runtime::{
        controller::{Action, Config},
        reflector::{ObjectRef, Store},
    },
};
use rand::RngExt;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Context, Outcome, wakes::Wakes};
use crate::names::ObjectName;

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
    let queue = wakes
        .stream()
        .map(|name| Ok::<_, Infallible>(ObjectRef::<K>::new(&name.name).within(&name.namespace)))
        .take_until(shutdown.clone().cancelled_owned());
    let one = move |object: Arc<K>, context: Arc<Context>| {
        Box::pin(observed(controller, pass, object, context))
    };
    let passes = kube::runtime::applier(
        one,
        |_, never: &Infallible, _| match *never {},
        context,
        store,
        Box::pin(queue),
        Config::default().concurrency(concurrency),
    )
    // What is left to report is a wake for an object that is gone.
    .for_each(|_| std::future::ready(()));
    let end = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = passes => {}
        () = end => tracing::info!(controller, "passes were cut off at the stop"),
    }
}

async fn observed<K>(
    controller: &'static str,
    pass: Pass<K>,
    object: Arc<K>,
    context: Arc<Context>,
) -> Result<Action, Infallible>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let name = ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
    let generation = object.meta().generation.unwrap_or_default();
    let span = tracing::info_span!("pass", controller, object = %name);
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
    span.in_scope(|| log(&outcome, duration, pause));
    Ok(Action::requeue(pause))
}

fn log(outcome: &Outcome, duration: Duration, pause: Duration) {
    let (milliseconds, again_in) = (duration.as_millis(), pause.as_secs());
    match outcome {
        Outcome::Done => tracing::debug!(milliseconds, again_in, "done"),
        Outcome::Wait {
            reason, message, ..
        } => tracing::debug!(milliseconds, again_in, %reason, message, "waits"),
        Outcome::Failed {
            class,
            reason,
            message,
            ..
        } => tracing::warn!(milliseconds, again_in, ?class, %reason, message, "failed"),
    }
}

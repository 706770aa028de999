//! Kinds that no other controller looks at: templates, shared credentials, pools. Each has a watch and
//! passes of its own, so that none of them keeps clusters and machines waiting.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{
    Context, Outcome, capi, cluster_identity, cluster_template, floating_ip_pool, machine_template,
    pass,
    wakes::Wakes,
    watches::{Route, Watch, has_conditions},
};
use capo_core::ObjectName;

/// What becomes of an object of such a kind.
enum News {
    Changed(ObjectName),
    /// It may be there again by now: then nothing is lost but what was remembered of it.
    Gone(ObjectName),
}

/// One such kind.
struct Alone<K> {
    controller: &'static str,
    pass: pass::Pass<K>,
    concurrency: u16,
    /// Whether an object has a status of ours.
    has_status: fn(&K) -> bool,
    /// Forgets an object that is gone.
    forget: fn(&Context, &ObjectName),
}

/// Runs the controllers of all these kinds until `shutdown`.
pub(super) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let (client, settings) = (&context.client, &context.settings);
    let filter = settings.label_selector();
    let filter = filter.as_deref();
    let machine_templates = Alone {
        controller: machine_template::CONTROLLER,
        pass: machine_template::pass,
        concurrency: settings.machine_template_concurrency,
        has_status: has_conditions!(),
        forget: |context, name| context.machine_templates.forget(name),
    }
    .run(
        Context::watched(client, settings),
        filter,
        &context,
        &shutdown,
    );
    let pools = Alone {
        controller: floating_ip_pool::CONTROLLER,
        pass: floating_ip_pool::pass,
        concurrency: 1,
        has_status: has_conditions!(),
        forget: |_, _| {},
    }
    .run(
        Context::watched(client, settings),
        filter,
        &context,
        &shutdown,
    );
    // CAPO does nothing about these two, so nobody has put the label of --watch-filter on them. Two
    // managers that both look at one write the same.
    let cluster_templates = Alone {
        controller: cluster_template::CONTROLLER,
        pass: cluster_template::pass,
        concurrency: 1,
        has_status: |template| {
            let status = template.status.as_ref();
            status.is_some_and(|status| status.observed_generation.is_some_and(|seen| seen > 0))
        },
        forget: |_, _| {},
    }
    .run(
        Context::watched(client, settings),
        None,
        &context,
        &shutdown,
    );
    let identities = Alone {
        controller: cluster_identity::CONTROLLER,
        pass: cluster_identity::pass,
        concurrency: 1,
        has_status: has_conditions!(),
        forget: |_, _| {},
    }
    .run(Api::all(client.clone()), None, &context, &shutdown);
    futures::join!(machine_templates, pools, cluster_templates, identities);
}

impl<K> Alone<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    /// Runs this controller until `shutdown`.
    fn run(
        self,
        api: Api<K>,
        labels: Option<&str>,
        context: &Arc<Context>,
        shutdown: &CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let watch = Watch::new(api, labels).with_status(self.has_status);
        let store = watch.store();
        let wakes = Wakes::default();
        let (bell, of_watch) = (wakes.clone(), context.clone());
        let (context, shutdown) = (context.clone(), shutdown.clone());
        let follow = watch.run(
            (context.observer.clone(), shutdown.clone()),
            |_: &K, _| {},
            |object: &K| {
                let name =
                    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
                Route {
                    own: vec![News::Changed(name.clone())],
                    neighbours: vec![News::Gone(name)],
                }
            },
            move |news| match news {
                News::Changed(name) => bell.wake(name.clone()),
                News::Gone(name) => {
                    of_watch.backoff.forget(self.controller, name);
                    (self.forget)(&of_watch, name);
                }
            },
        );
        let passes = async move {
            // An object that is not in the store yet would lose its wake.
            tokio::select! {
                ready = store.wait_until_ready() => if ready.is_err() { return },
                () = shutdown.cancelled() => return,
            }
            pass::run(
                self.controller,
                self.pass,
                store,
                wakes,
                self.concurrency,
                context,
                shutdown,
            )
            .await;
        };
        Box::pin(async move {
            futures::join!(follow, passes);
        })
    }
}

/// Whether an object is to be left as it is: it goes, is paused, or is being moved away.
pub(super) fn is_to_be_left(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
        || capi::has_annotation(metadata, capi::PAUSED_ANNOTATION)
        || capi::has_annotation(metadata, capi::DELETE_FOR_MOVE_ANNOTATION)
}

/// How a pass ends whose status could not be written.
pub(super) fn unwritten(error: &kube::Error) -> Outcome {
    super::server::kubernetes_failed("Writing the status", error)
}

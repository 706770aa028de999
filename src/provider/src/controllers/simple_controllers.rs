//! Starts the controllers of the kinds on which no other controller depends: templates, shared credentials and pools.
//! Each has its own watch and its own passes, so that none of them delays clusters and machines.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::{Context, cluster_identity, cluster_template, floating_ip_pool, machine_template};
use crate::reconcile::{
    SharedContext, name_of,
    runner::{Controller, Pass, Runner},
    watches::{Route, Watch, has_conditions},
};
use crate::work_queue::WorkQueue;
use capo_core::ObjectName;

/// A change of an object of one of these kinds.
enum Event {
    Changed(ObjectName),
    /// The object was deleted. If it was created again meanwhile, only the cached values of the new object are lost.
    Deleted(ObjectName),
}

/// The controller of a kind on which no other controller depends.
struct SimpleController<K> {
    name: &'static str,
    pass: Pass<K, Context>,
    concurrency: u16,
    /// Whether an object has a status that capo-rs wrote.
    has_status: fn(&K) -> bool,
    /// Removes the cached values of an object that does not exist any more.
    forget: fn(&Context, &ObjectName),
}

/// Runs the controllers of all these kinds until `shutdown`.
pub(super) async fn run(context: Arc<Context>, runner: Runner) {
    let (client, settings) = (&context.client, &context.settings);
    let filter = settings.label_selector();
    let filter = filter.as_deref();
    let machine_templates = SimpleController {
        name: machine_template::CONTROLLER,
        pass: machine_template::pass,
        concurrency: settings.machine_template_concurrency,
        has_status: has_conditions!(),
        forget: |context, name| context.machine_templates.forget(name),
    }
    .run(
        SharedContext::watched(client, settings),
        filter,
        &context,
        &runner,
    );
    let pools = floating_ip_pool::run(context.clone(), runner.clone());
    // CAPO does not reconcile these two kinds, so users have not put the label of `--watch-filter` on their objects. If
    // two managers reconcile the same object, both write the same status.
    let cluster_templates = SimpleController {
        name: cluster_template::CONTROLLER,
        pass: cluster_template::pass,
        concurrency: 1,
        has_status: |template| {
            let status = template.status.as_ref();
            status.is_some_and(|status| status.observed_generation.is_some_and(|seen| seen > 0))
        },
        forget: |_, _| {},
    }
    .run(
        SharedContext::watched(client, settings),
        None,
        &context,
        &runner,
    );
    let identities = SimpleController {
        name: cluster_identity::CONTROLLER,
        pass: cluster_identity::pass,
        concurrency: 1,
        has_status: has_conditions!(),
        forget: |_, _| {},
    }
    .run(Api::all(client.clone()), None, &context, &runner);
    futures::join!(machine_templates, pools, cluster_templates, identities);
}

impl<K> SimpleController<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    /// Runs this controller until the shutdown.
    fn run(
        self,
        api: Api<K>,
        labels: Option<&str>,
        context: &Arc<Context>,
        runner: &Runner,
    ) -> BoxFuture<'static, ()> {
        let watch = Watch::new(api, labels).with_status(self.has_status);
        let store = watch.store();
        let queue = WorkQueue::default();
        let (of_watch, changed) = (context.clone(), queue.clone());
        let (context, runner) = (context.clone(), runner.clone());
        let follow = watch.run(
            (runner.observer.clone(), runner.shutdown.clone()),
            |_: &K, _| {},
            |object: &K| {
                let name = name_of(object);
                Route {
                    own: vec![Event::Changed(name.clone())],
                    related: vec![Event::Deleted(name)],
                }
            },
            move |event| match event {
                Event::Changed(name) => changed.enqueue(name),
                Event::Deleted(name) => (self.forget)(&of_watch, name),
            },
        );
        let passes = async move {
            // The passes start after the first complete list, because an object that is not in the store yet would be
            // dropped from the queue.
            tokio::select! {
                ready = store.wait_until_ready() => if ready.is_err() { return },
                () = runner.shutdown.cancelled() => return,
            }
            let controller = Controller {
                name: self.name,
                pass: self.pass,
                store,
                queue,
                concurrency: self.concurrency,
            };
            runner.run(controller, context).await;
        };
        Box::pin(async move {
            futures::join!(follow, passes);
        })
    }
}

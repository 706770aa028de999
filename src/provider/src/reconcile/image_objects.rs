//! Watches the Image objects of the OpenStack Resource Controller for servers that wait for one of them.
//!
//! The watch starts only when a server names such an object, because the kind may not be installed. It reads only
//! metadata. A change of an Image object enqueues the servers that wait for it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::SharedContext;
use crate::work_queue::WorkQueue;
use capo_core::ObjectName;

/// The time after which a server reads its Image object again, in case the watch missed a change.
pub(super) const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// The servers that wait, by Image object. A clone is cheap and shares the data.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageObjects(Arc<Waits>);

#[derive(Debug, Default)]
struct Waits {
    waiting: Mutex<HashMap<ObjectName, BTreeSet<ObjectName>>>,
    begun: Notify,
}

impl ImageObjects {
    /// Records that a server needs to know about the next change of an Image object. The caller has to do this before
    /// it reads the object.
    pub(super) fn wait(&self, image: ObjectName, server: ObjectName) {
        self.0
            .waiting
            .lock()
            .entry(image)
            .or_default()
            .insert(server);
        self.0.begun.notify_one();
    }

    /// Removes and returns the servers that waited for this Image.
    fn take(&self, image: &ObjectName) -> BTreeSet<ObjectName> {
        self.0.waiting.lock().remove(image).unwrap_or_default()
    }
}

/// The resource of Image objects.
pub(super) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("openstack.k-orc.cloud", "v1alpha1", "Image");
    ApiResource::from_gvk_with_plural(&kind, "images")
}

/// Enqueues the waiting servers when their Image object changes, until `shutdown`.
pub(crate) async fn run(
    context: &SharedContext,
    images: &ImageObjects,
    servers: &WorkQueue,
    shutdown: CancellationToken,
) {
    tokio::select! {
        () = follow(context, images, servers) => {}
        () = shutdown.cancelled() => {}
    }
}

async fn follow(context: &SharedContext, images: &ImageObjects, servers: &WorkQueue) {
    images.0.begun.notified().await;
    let api = watched(&context.client, context.settings.namespace.as_deref());
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut fails = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(image) | Event::InitApply(image) | Event::Delete(image)) => {
                let name = image.metadata.name.unwrap_or_default();
                let namespace = image.metadata.namespace.unwrap_or_default();
                for server in images.take(&ObjectName::new(namespace, name)) {
                    servers.enqueue(&server);
                }
                fails = false;
            }
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => {
                // Waiting servers read their Image object from time to time even without the watch.
                if !fails {
                    tracing::warn!(%error, "Watching Image objects of openstack.k-orc.cloud fails and is retried");
                }
                fails = true;
            }
        }
    }
}

fn watched(client: &Client, namespace: Option<&str>) -> Api<PartialObjectMeta<DynamicObject>> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource()),
        None => Api::all_with(client.clone(), &resource()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_an_image_reaches_those_who_wait_for_it_once() {
        let images = ImageObjects::default();
        let name = |name: &str| ObjectName::new("n", name);
        images.wait(name("node"), name("b"));
        images.wait(name("node"), name("a"));
        images.wait(name("other"), name("c"));
        let waited: Vec<_> = images.take(&name("node")).into_iter().collect();
        assert_eq!(waited, [name("a"), name("b")]);
        assert!(images.take(&name("node")).is_empty());
    }
}

//! What every controller is built from: one pass runner, one work queue, one error of a step, one cache of
//! objects. Nothing in here knows a single controller.
//!
//! A pass is observe, validate, plan, act, report. It ends in an [`Outcome`], which decides when the next one
//! comes by itself; a step that did not come to its end is a [`StepError`].

mod backoff;
pub mod capi;
mod context;
pub mod deletion_hooks;
pub(crate) mod health;
pub(crate) mod health_check;
pub mod identity;
mod object_cache;
mod observer;
mod outcome;
mod panicked_pass;
pub(crate) mod provider_id;
mod queue_metrics;
pub(crate) mod related_objects;
pub(crate) mod runner;
mod step_error;
pub(crate) mod transition_events;
mod uncached;
pub(crate) mod watches;
mod work_queue;

pub use context::{Settings, SharedContext, Stores};
pub use object_cache::ObjectCache;
pub use observer::{Observer, WatchBreak};
pub use outcome::Outcome;
pub use queue_metrics::{QueueDepth, QueueMetrics};
pub(crate) use step_error::reason_of;
pub use step_error::{StepError, StepResult, kubernetes_text};
pub use uncached::UncachedMachines;
pub(crate) use uncached::names_as_absent;
pub use work_queue::WorkQueue;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use capo_core::ObjectName;

/// Namespace and name of an object; a kind without namespaces has an empty one.
pub(crate) fn name_of<K: kube::Resource>(object: &K) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// Whether a simple object is to be left as it is: it is being deleted, paused, or being moved away.
pub(crate) fn is_left_alone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
        || capi::has_annotation(metadata, capi::PAUSED_ANNOTATION)
        || capi::has_annotation(metadata, capi::DELETE_FOR_MOVE_ANNOTATION)
}

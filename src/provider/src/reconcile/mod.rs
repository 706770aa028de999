//! The parts that every controller is built from: one pass runner, one error of a step, one cache of objects. This
//! module depends on no controller. It uses the tracker, which uses nothing of it; the work queue of both is
//! [`crate::work_queue`].
//!
//! The steps of a pass are observe, validate, plan, act, report. A pass ends in an [`Outcome`], which decides when the
//! next pass starts by itself. A step that did not complete returns a [`StepError`].

mod backoff;
pub mod capi;
pub(crate) mod cluster_names;
mod context;
pub(crate) mod creations;
pub mod deletion_hooks;
pub(crate) mod filters;
pub(crate) mod finalizer;
pub(crate) mod health;
pub(crate) mod health_check;
pub mod identity;
pub(crate) mod image_and_flavor;
pub(crate) mod image_objects;
pub(crate) mod ipam;
pub(crate) mod matching;
mod object_cache;
mod observer;
mod outcome;
mod panicked_pass;
pub(crate) mod provider_id;
mod queue_metrics;
pub(crate) mod related_objects;
pub(crate) mod runner;
pub(crate) mod server_error;
pub(crate) mod server_names;
pub(crate) mod server_observation;
pub(crate) mod server_spec;
pub(crate) mod start;
mod step_error;
pub(crate) mod transition_events;
mod uncached;
pub(crate) mod uncertain_create;
pub(crate) mod watches;

pub(crate) use context::api_in;
pub use context::{ClusterIdentityDefault, Settings, SharedContext, Stores};
pub use object_cache::ObjectCache;
pub(crate) use object_cache::ReadAt;
pub use observer::{PassObserver, WatchBreak};
pub use outcome::{Outcome, PassResult};
pub use queue_metrics::{QueueDepth, QueueMetrics};
pub(crate) use step_error::reason_of;
pub use step_error::{StepError, StepResult, kubernetes_text};
pub use uncached::UncachedMachines;
pub(crate) use uncached::{names_as_absent, read_uncached};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use capo_core::ObjectName;

/// The namespace and name of an object. The namespace is empty for kinds without one.
pub(crate) fn name_of<K: kube::Resource>(object: &K) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// Whether a pass over an object of a simple kind changes nothing: the object is being deleted, is paused, or is being
/// moved away.
pub(crate) fn is_left_alone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() || is_paused_or_moved(metadata)
}

/// Whether the annotations of an object pause it, or clusterctl moves it to another management cluster.
pub(crate) fn is_paused_or_moved(metadata: &ObjectMeta) -> bool {
    capi::has_annotation(metadata, capi::PAUSED_ANNOTATION)
        || capi::has_annotation(metadata, capi::DELETE_FOR_MOVE_ANNOTATION)
}

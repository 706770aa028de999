//! The lookup of machines, which a worker may need before it deletes a member.

use capo_core::ObjectName;
use futures::future::BoxFuture;

/// Reads whether an `OpenStackMachine` exists, without a cache.
pub trait MachineLookup: Send + Sync + 'static {
    /// `Ok(false)` only if Kubernetes answered, after the caches of this process were synced, that no object has this
    /// name. An error means that the existence is unknown.
    fn exists(&self, machine: ObjectName) -> BoxFuture<'static, Result<bool, LookupError>>;
}

/// Why it is unknown whether a machine exists.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The watches of this process have not listed every kind yet.
    #[error("the caches of this process are not complete yet")]
    NotSynced,
    /// The answer took too long.
    #[error("Kubernetes did not answer in time")]
    TimedOut,
    /// Kubernetes refused the read, or was not reached.
    #[error("reading the OpenStackMachine failed")]
    Failed(#[from] kube::Error),
}

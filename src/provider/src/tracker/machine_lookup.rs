//! The lookup of machines, which a worker may need before it deletes a member.

use capo_core::ObjectName;
use futures::future::BoxFuture;

/// Reads whether an `OpenStackMachine` exists, without a cache.
pub trait MachineLookup: Send + Sync + 'static {
    /// `Ok(false)` only if Kubernetes answered, after the caches of this process were synced, that no object has this
    /// name. An error means that the existence is unknown; its text is stable.
    fn exists(&self, machine: ObjectName) -> BoxFuture<'static, Result<bool, String>>;
}

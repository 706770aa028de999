//! The last findings of a worker, for readers that do not wait for it.

use std::sync::Arc;

use parking_lot::RwLock;

use capo_gate::findings::Findings;

/// The last publication of a worker.
#[derive(Debug, Default)]
pub(super) struct PublishedFindings(RwLock<Option<Arc<Findings>>>);

impl PublishedFindings {
    pub(super) fn get(&self) -> Option<Arc<Findings>> {
        self.0.read().clone()
    }

    /// Removes the settled generation from the findings, because the desired state has changed since. The worker's next
    /// publication has the new one.
    pub(super) fn unsettle(&self) {
        let mut published = self.0.write();
        if let Some(findings) = published.as_mut() {
            Arc::make_mut(findings).settled_generation = None;
        }
    }

    /// Replaces the last publication, and returns it.
    pub(super) fn put(&self, findings: Arc<Findings>) -> Option<Arc<Findings>> {
        self.0.write().replace(findings)
    }
}

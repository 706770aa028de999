//! The last findings of a worker, for readers that do not wait for it.

use std::sync::Arc;

use parking_lot::RwLock;

use capo_gate::{findings::Findings, state::Observation};

/// The last publication of a worker.
#[derive(Debug, Default)]
pub(super) struct Published(RwLock<Option<Arc<Findings>>>);

impl Published {
    pub(super) fn get(&self) -> Option<Arc<Findings>> {
        self.0.read().clone()
    }

    /// Forgets which generation has settled, because the desired state has changed since. The worker's next publication
    /// has the new one.
    pub(super) fn unsettle(&self) {
        let mut published = self.0.write();
        if let Some(findings) = published.as_mut() {
            Arc::make_mut(findings).settled_generation = None;
        }
    }

    pub(super) fn put(&self, findings: Arc<Findings>) -> Option<Arc<Findings>> {
        self.0.write().replace(findings)
    }

    /// Records the time of a read without changes. It is not published, but readers of the findings see the age of the
    /// last read.
    pub(super) fn observed(&self, observation: Observation) {
        let mut published = self.0.write();
        let Some(findings) = published.as_mut().filter(|findings| {
            findings.observed != Some(observation.observed)
                || findings.fresh_until != observation.fresh_until
        }) else {
            return;
        };
        let findings = Arc::make_mut(findings);
        findings.observed = Some(observation.observed);
        findings.interval_seconds = observation.interval.as_secs_f64();
        findings.fresh_until = observation.fresh_until;
        for member in &mut findings.members {
            member.last_observed = observation.observed;
        }
    }
}

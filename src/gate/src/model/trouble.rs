//! Calls that OpenStack does not answer, and the pauses after them.

use std::time::Instant;

use crate::model::clock::{Now, Stamp};
use capo_core::FailureClass;

/// OpenStack does not answer calls of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) class: FailureClass,
    pub(crate) message: String,
    pub(crate) since: Stamp,
    /// How many calls in a row failed.
    pub(crate) failures: u32,
    /// No such call is made before this moment.
    pub(crate) until: Instant,
}

impl Trouble {
    /// Whether more than one call in a row failed. A single failure may be chance, so it is not shown and holds no
    /// gate.
    pub(crate) fn is_lasting(&self) -> bool {
        self.failures >= 2
    }

    /// Whether a call that this trouble is about has to wait.
    pub(crate) fn is_pausing(trouble: Option<&Self>, now: &Now) -> bool {
        trouble.is_some_and(|trouble| trouble.until > now.instant)
    }
}

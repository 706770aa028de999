//! The attempts at a write that fails repeatedly, and the pauses between them.

use std::time::Instant;

use capo_core::{
    FailureClass,
    backoff::{LONGEST_REPAIR_PAUSE, repair_pause},
};

/// Back-off of repeated attempts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    pub(crate) next: Option<Instant>,
}

impl Attempts {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// The attempts that an earlier process made are unknown. This process assumes that the earlier one has just made
    /// one, so at most five attempts are made in the first ten minutes even if the process restarts in between.
    pub(crate) fn inherited(now: Instant) -> Self {
        let mut attempts = Self::default();
        attempts.record(now);
        attempts
    }

    /// Notes that the object that was written to is well at `now`. Once it has been well for the longest pause, earlier
    /// attempts no longer count.
    pub(crate) fn forget_if_old(&mut self, now: Instant) {
        let is_long_ago =
            |next: Instant| now.saturating_duration_since(next) >= LONGEST_REPAIR_PAUSE;
        if self.next.is_some_and(is_long_ago) {
            *self = Self::default();
        }
    }

    /// Allows the next attempt at once. The count of attempts stays, so the pauses between attempts go on growing.
    pub(crate) fn allow_at_once(&mut self, now: Instant) {
        self.next = Some(now);
    }

    pub(crate) fn record(&mut self, now: Instant) {
        let pause = repair_pause(self.count);
        self.count = self.count.saturating_add(1);
        self.next = now.checked_add(pause);
    }
}

/// A write that OpenStack refused, or did not answer several times in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) class: FailureClass,
    pub(crate) message: String,
    /// When the first such write in a row failed.
    pub(crate) since: Instant,
}

//! The clocks that pure code gets as arguments.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The present time, which the caller gives to pure code.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For durations and decisions.
    pub instant: Instant,
    /// For display, and for the operator's expiry.
    pub wall: Timestamp,
    /// A random number from 0 to 1, for jitter.
    pub random: f64,
}

impl Now {
    /// This moment on both clocks.
    pub fn stamp(&self) -> Stamp {
        Stamp {
            instant: self.instant,
            wall: self.wall,
        }
    }

    /// How long ago `earlier` was.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.instant.saturating_duration_since(earlier)
    }
}

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// For durations.
    pub instant: Instant,
    /// For display.
    pub wall: Timestamp,
}

impl Stamp {
    /// The moment that is `instant` on the monotonic clock; never an earlier one.
    pub(crate) fn later(self, instant: Instant) -> Self {
        let after = instant.saturating_duration_since(self.instant);
        let after = jiff::SignedDuration::try_from(after).unwrap_or_default();
        Self {
            instant: instant.max(self.instant),
            wall: self.wall.saturating_add(after).unwrap_or(self.wall),
        }
    }
}

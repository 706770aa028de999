//! Leave to change OpenStack. Only the process that holds the leader lease has it.

use std::{sync::Arc, time::Instant};

use parking_lot::RwLock;

/// Asked before every OpenStack call that changes something. It ends by itself at the renew deadline,
/// on the monotonic clock, before another process can take the lease: a process that was frozen finds
/// it ended when it thaws, whatever it was about to do.
#[derive(Debug, Clone)]
pub struct LeaseToken(Arc<RwLock<Leave>>);

#[derive(Debug, Clone, Copy)]
enum Leave {
    Always,
    Until(Instant),
    Never,
}

impl LeaseToken {
    /// A token that never ends, for a process that runs without leader election.
    pub fn unlimited() -> Self {
        Self::with(Leave::Always)
    }

    /// A token that is not held until it is extended.
    pub fn not_held() -> Self {
        Self::with(Leave::Never)
    }

    fn with(leave: Leave) -> Self {
        Self(Arc::new(RwLock::new(leave)))
    }

    /// Holds the token until `deadline`.
    pub fn extend_until(&self, deadline: Instant) {
        self.set(Leave::Until(deadline));
    }

    /// Ends the token at once.
    pub fn revoke(&self) {
        self.set(Leave::Never);
    }

    /// Whether a change may be sent at `now`.
    pub fn holds_at(&self, now: Instant) -> bool {
        match *self.0.read() {
            Leave::Always => true,
            Leave::Until(deadline) => now < deadline,
            Leave::Never => false,
        }
    }

    fn set(&self, leave: Leave) {
        *self.0.write() = leave;
    }
}

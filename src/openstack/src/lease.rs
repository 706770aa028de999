//! The permission to change OpenStack, which only the process with the leader lease has.

use std::{sync::Arc, time::Instant};

use parking_lot::RwLock;

/// The permission that every OpenStack call which changes something needs. It expires at the renew deadline on the
/// monotonic clock, before another process can take the lease. A process that was suspended therefore finds it expired
/// when it continues.
#[derive(Debug, Clone)]
pub struct LeaseToken(Arc<RwLock<Permission>>);

#[derive(Debug, Clone, Copy)]
enum Permission {
    Always,
    Until(Instant),
    Never,
    DryRun,
}

impl LeaseToken {
    /// A token that never expires, for a process that runs without leader election.
    pub fn unlimited() -> Self {
        Self::with(Permission::Always)
    }

    /// A token that is not held until it is extended.
    pub fn not_held() -> Self {
        Self::with(Permission::Never)
    }

    /// A token that is never held: every change is reported to [`CallObserver::not_sent`] in place of being sent.
    ///
    /// [`CallObserver::not_sent`]: crate::CallObserver::not_sent
    pub fn dry_run() -> Self {
        Self::with(Permission::DryRun)
    }

    fn with(permission: Permission) -> Self {
        Self(Arc::new(RwLock::new(permission)))
    }

    /// Holds the token until `deadline`.
    pub fn extend_until(&self, deadline: Instant) {
        self.set(Permission::Until(deadline));
    }

    /// Revokes the token at once.
    pub fn revoke(&self) {
        self.set(Permission::Never);
    }

    /// Whether a change may be sent at `now`.
    pub fn holds_at(&self, now: Instant) -> bool {
        match *self.0.read() {
            Permission::Always => true,
            Permission::Until(deadline) => now < deadline,
            Permission::Never | Permission::DryRun => false,
        }
    }

    /// Whether this process may write to Kubernetes what opens a gate: it holds the lease, or it is a dry run, which
    /// sends no write.
    pub fn may_open_gates(&self) -> bool {
        self.is_dry_run() || self.holds_at(Instant::now())
    }

    /// Whether changes are reported instead of being sent.
    pub fn is_dry_run(&self) -> bool {
        matches!(*self.0.read(), Permission::DryRun)
    }

    fn set(&self, permission: Permission) {
        *self.0.write() = permission;
    }
}

//! What the server controller remembers between passes: looks at servers, and creations whose outcome
//! nobody knows. Losing it costs a read or a wait, never an object.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{failed, sight::Sights};
use crate::{controllers::Outcome, names::ObjectName, openstack::Error, status::Reason};

/// So long may OpenStack go on with a request whose answer was lost, and the object appear late.
const DOUBT: Duration = Duration::from_secs(30);

/// One per process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::controllers) struct Memory {
    /// Looks at servers.
    pub sights: Sights,
    /// Creations whose outcome nobody knows.
    pub(super) doubts: Doubts,
}

impl Memory {
    /// Forgets a server whose object is gone.
    pub(super) fn forget(&self, name: &ObjectName) {
        self.sights.forget(name);
        self.doubts.lock().remove(name);
    }
}

/// Objects for which a creation may have been carried out though its answer was lost. Until the doubt
/// is over they are looked up, but nothing more is created for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubts(Arc<Mutex<HashMap<ObjectName, Instant>>>);

impl Doubts {
    /// Whether something may be created for `owner`; what to wait for when not.
    pub(super) fn check(&self, owner: &ObjectName) -> Result<(), Outcome> {
        self.check_at(owner, Instant::now())
    }

    fn check_at(&self, owner: &ObjectName, now: Instant) -> Result<(), Outcome> {
        let mut doubts = self.lock();
        match doubts.get(owner) {
            Some(until) if *until > now => Err(Outcome::wait(
                Reason::OpenStackUnavailable,
                "The answer to a creation was lost; waiting for what it made to appear",
                Duration::from_secs(5),
            )),
            Some(_) => {
                doubts.remove(owner);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Remembers a creation that failed so that it may have been carried out, and answers the failure.
    pub(super) fn note(&self, owner: &ObjectName, error: &Error, reason: Reason) -> Outcome {
        if error.maybe_done() {
            self.lock().insert(owner.clone(), Instant::now() + DOUBT);
        }
        failed(error, reason)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectName, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_over_after_a_while() {
        let doubts = Doubts::default();
        let (name, now) = (ObjectName::new("default", "m1"), Instant::now());
        assert!(doubts.check_at(&name, now).is_ok());
        doubts.lock().insert(name.clone(), now + DOUBT);
        assert!(doubts.check_at(&name, now).is_err());
        assert!(
            doubts
                .check_at(&ObjectName::new("default", "m2"), now)
                .is_ok()
        );
        assert!(doubts.check_at(&name, now + DOUBT).is_ok());
        assert!(doubts.lock().is_empty());
    }
}

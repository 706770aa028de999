//! What the server controller remembers between passes: looks at servers, and creations whose outcome
//! nobody knows. Losing it costs a read or a wait, never an object.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use super::{failed, sight::Sights};
use crate::controllers::Outcome;
use capo_core::{ObjectName, Reason};
use capo_openstack::Error;

/// For so long OpenStack may still carry out a request whose answer was lost: twice the time-out of a call.
const DOUBT: Duration = Duration::from_mins(1);

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
        self.doubts.lock().retain(|(owner, _), _| owner != name);
    }
}

/// Whose creation it was, and the name of what was to be created.
type Subject = (ObjectName, String);

/// Creations that may have been carried out though their answer was lost. Until the doubt is over they
/// are looked up and not repeated.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubts(Arc<Mutex<HashMap<Subject, Instant>>>);

impl Doubts {
    /// Whether `what` may be created for `owner`; what to wait for when not.
    pub(super) fn check(&self, owner: &ObjectName, what: &str) -> Result<(), Outcome> {
        self.check_at(owner, what, Instant::now())
    }

    fn check_at(&self, owner: &ObjectName, what: &str, now: Instant) -> Result<(), Outcome> {
        let mut doubts = self.lock();
        let subject = (owner.clone(), what.to_owned());
        match doubts.get(&subject) {
            Some(until) if *until > now => Err(Outcome::wait(
                Reason::OpenStackUnavailable,
                format!("The answer to the creation of {what} was lost; waiting for it to appear"),
                Duration::from_secs(5),
            )),
            Some(_) => {
                doubts.remove(&subject);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Remembers a creation that failed so that it may have been carried out, and answers the failure.
    pub(super) fn note(
        &self,
        owner: &ObjectName,
        what: &str,
        error: &Error,
        reason: Reason,
    ) -> Outcome {
        if error.maybe_done() {
            let subject = (owner.clone(), what.to_owned());
            self.lock().insert(subject, Instant::now() + DOUBT);
        }
        failed(error, reason)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Instant>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_holds_one_creation_and_is_over_after_a_while() {
        let doubts = Doubts::default();
        let (name, now) = (ObjectName::new("default", "m1"), Instant::now());
        assert!(doubts.check_at(&name, "port m1-0", now).is_ok());
        let subject = (name.clone(), "port m1-0".to_owned());
        doubts.lock().insert(subject, now + DOUBT);
        assert!(doubts.check_at(&name, "port m1-0", now).is_err());
        assert!(doubts.check_at(&name, "server m1", now).is_ok());
        let other = ObjectName::new("default", "m2");
        assert!(doubts.check_at(&other, "port m1-0", now).is_ok());
        assert!(doubts.check_at(&name, "port m1-0", now + DOUBT).is_ok());
        assert!(doubts.lock().is_empty());
    }
}

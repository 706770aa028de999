//! How the steps of a deletion wait.

use std::time::Duration;

use crate::reconcile::StepError;
use capo_core::Reason;
use capo_openstack::Error;

/// The first pause before the next look at an object that is being deleted.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// Returns a wait if OpenStack reports the object as in use, and a failure of the step for any other error.
pub(super) fn in_use(condition: &'static str, doing: &str, error: &Error) -> StepError {
    if error.class().is_conflict() {
        return StepError::wait(
            condition,
            Reason::Deleting,
            format!("{doing} waits for what uses it: {error}"),
            SOON,
        );
    }
    StepError::cloud(condition, Reason::OpenStackError, doing, error)
}

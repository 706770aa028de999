//! What the steps of a deletion have in common: how they wait.

use std::time::Duration;

use crate::reconcile::StepError;
use capo_core::Reason;
use capo_openstack::Error;

/// How soon to look again for what is being deleted, at first.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// The deletion waits while OpenStack reports the object as in use; any other error fails the step.
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

//! The failure of a call of the OpenStack client, as the gate sees it.

use capo_gate::octavia::Failure;
use capo_openstack::Error;

/// The failure of a call, with the fields on which the gate decides.
pub(super) fn failure(error: &Error) -> Failure {
    Failure {
        class: error.class(),
        retry_after: error.retry_after(),
        message: error.to_string(),
    }
}

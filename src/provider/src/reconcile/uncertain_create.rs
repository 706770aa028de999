//! How long the creation of an OpenStack object is uncertain after its answer was lost. During this time the object is
//! only looked up, because a second request could create a second object.
//!
//! A service can carry out a request after the client has given it up. It is trusted not to do so any more after twice
//! the client's time limit of a request, and after one minute at least.

use std::time::Duration;

/// How long a service may still carry out a request that it answered with an error.
pub(crate) const ANSWERED: Duration = Duration::from_secs(65);

/// How long OpenStack may still carry out a request that it did not answer. Services have been seen to take two
/// minutes. The time counts from the record of the creation too, after which the client sends the request within a
/// minute or not at all, whatever it waits for.
pub(crate) const UNANSWERED: Duration = Duration::from_secs(130);

/// How long a creation is uncertain after an error with this HTTP status; `None` if there was no answer. A proxy may
/// answer while the service continues.
pub(crate) fn uncertain_for(status: Option<u16>) -> Duration {
    match status {
        None | Some(502..=504) => UNANSWERED,
        Some(_) => ANSWERED,
    }
}

#[cfg(test)]
mod tests {
    use capo_openstack::ClientSettings;

    use super::*;

    #[test]
    fn what_was_not_answered_is_uncertain_for_longer() {
        for (status, expected) in [
            (None, UNANSWERED),
            (Some(500), ANSWERED),
            (Some(502), UNANSWERED),
            (Some(504), UNANSWERED),
        ] {
            assert_eq!(uncertain_for(status), expected, "{status:?}");
        }
    }

    #[test]
    fn a_creation_is_uncertain_for_longer_than_a_request_can_take() {
        let client = ClientSettings::default();
        let request = 2 * client.total_timeout;
        assert!(ANSWERED >= request);
        assert!(UNANSWERED >= client.longest_wait + request);
    }
}

//! The pauses while OpenStack does not answer. All calls wait while the tree can't be read. If only a list fails, only
//! that list waits.

use std::time::Duration;

use crate::model::{clock::Now, octavia::Failure, state::State, trouble::Trouble};
use capo_core::{FailureClass, backoff::ExponentialBackoff};

/// Notes that OpenStack did not answer. No call is made until the pause is over.
pub(crate) fn in_trouble(state: &mut State, failure: Failure, now: &Now) {
    worsen(&mut state.trouble, failure, state.reads.jitter_factor, now);
}

/// Counts a failure. The findings show the trouble from the second failure on, and each pause is longer than the one
/// before.
pub(crate) fn worsen(trouble: &mut Option<Trouble>, failure: Failure, factor: f64, now: &Now) {
    let failures = trouble
        .as_ref()
        .map_or(0, |trouble| trouble.failures)
        .saturating_add(1);
    let wait = back_off(failure.class, failures)
        .mul_f64(factor)
        .max(failure.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
    let since = trouble
        .as_ref()
        .map_or(now.stamp(), |trouble| trouble.since);
    // The findings change with the class of the failure, not with the wording of each failure.
    let reported = trouble
        .take()
        .filter(|trouble| trouble.failures > 1 && trouble.class == failure.class);
    *trouble = Some(Trouble {
        class: failure.class,
        message: reported.map_or(failure.message, |trouble| trouble.message),
        since,
        failures,
        until: now.instant.checked_add(wait).unwrap_or(now.instant),
    });
}

/// The longest pause that a Retry-After can cause.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(10);

fn back_off(class: FailureClass, failures: u32) -> Duration {
    let (first, most) = match class {
        // These pauses are at most 8 s long, so that a call follows within ten seconds after the trouble ends, unless
        // it has lasted for more than 40 failures. A Retry-After of OpenStack is kept in any case, so a longer pause of
        // our own would only delay the first call after the trouble.
        FailureClass::Transient | FailureClass::Throttled if failures <= 40 => (1, 8),
        FailureClass::Transient
        | FailureClass::Throttled
        | FailureClass::NotFound
        | FailureClass::Locked
        | FailureClass::Conflict => (1, 30),
        FailureClass::NotSent => (5, 5),
        FailureClass::Auth
        | FailureClass::Denied
        | FailureClass::Quota
        | FailureClass::Duplicate
        | FailureClass::InUse
        | FailureClass::Invalid
        | FailureClass::NotImplemented
        | FailureClass::NoService => (10, 60),
    };
    let pauses =
        ExponentialBackoff::doubling(Duration::from_secs(first), Duration::from_secs(most));
    pauses.pause(failures.saturating_sub(1))
}

//! The pauses while OpenStack does not answer.

use std::time::Duration;

use crate::model::{
    clock::Now,
    octavia::Failure,
    state::{State, Trouble},
};
use capo_core::{FailureClass, backoff::Schedule};

/// OpenStack answered.
pub(crate) fn well(state: &mut State) {
    state.trouble = None;
}

/// OpenStack did not answer. The findings show that from the second time on, and each pause is longer than the last.
pub(crate) fn in_trouble(state: &mut State, failure: Failure, now: &Now) {
    let failures = state
        .trouble
        .as_ref()
        .map_or(0, |trouble| trouble.failures)
        .saturating_add(1);
    let wait = back_off(failure.class, failures)
        .mul_f64(state.reads.factor)
        .max(failure.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
    let since = state
        .trouble
        .as_ref()
        .map_or(now.stamp(), |trouble| trouble.since);
    // The findings change with the class of the failure, not with the wording of each.
    let reported = state
        .trouble
        .take()
        .filter(|trouble| trouble.failures > 1 && trouble.class == failure.class);
    state.trouble = Some(Trouble {
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
        // Ends within ten seconds of the trouble, unless it lasted long. A pause that was asked for
        // is kept anyway, and growing it further would outlast it.
        FailureClass::Transient | FailureClass::Throttled if failures <= 40 => (1, 8),
        FailureClass::Transient
        | FailureClass::Throttled
        | FailureClass::NotFound
        | FailureClass::Locked
        | FailureClass::Conflict => (1, 30),
        FailureClass::LeaseLost => (5, 5),
        FailureClass::Auth
        | FailureClass::Denied
        | FailureClass::Quota
        | FailureClass::Duplicate
        | FailureClass::InUse
        | FailureClass::Invalid
        | FailureClass::NotImplemented
        | FailureClass::NoService => (10, 60),
    };
    let pauses = Schedule::doubling(Duration::from_secs(first), Duration::from_secs(most));
    pauses.pause(failures.saturating_sub(1))
}

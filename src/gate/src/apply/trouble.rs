//! The pauses while OpenStack does not answer: all calls wait while the tree can't be read, and a list that fails while the
//! tree works makes only itself wait.

use std::time::Duration;

use crate::model::{clock::Now, octavia::Failure, state::State, trouble::Trouble};
use capo_core::{FailureClass, backoff::Schedule};

/// OpenStack did not answer, and no call is made until the pause is over.
pub(crate) fn in_trouble(state: &mut State, failure: Failure, now: &Now) {
    worsen(&mut state.trouble, failure, state.reads.factor, now);
}

/// Adds a failure. The findings show the trouble from the second failure on, and each pause is longer than the last.
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
    // The findings change with the class of the failure, not with the wording of each.
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
        // Ends within ten seconds of the trouble, unless it lasted long. A pause that was asked for
        // is kept anyway, and growing it further would outlast it.
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
    let pauses = Schedule::doubling(Duration::from_secs(first), Duration::from_secs(most));
    pauses.pause(failures.saturating_sub(1))
}

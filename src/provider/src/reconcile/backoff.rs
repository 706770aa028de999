//! The time until the next pass over an object. Each object has its own counter.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use super::Outcome;
use capo_core::{
    FailureClass, ObjectName, Reason,
    backoff::{ExponentialBackoff, jittered},
};

/// The longest time between two passes that wait for something.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The longest pause after refused credentials. Secrets are not watched, so a corrected Secret is read after this
/// time at the latest.
const LONGEST_AUTH_PAUSE: Duration = Duration::from_secs(25);
/// The longest Retry-After of OpenStack that is observed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(15);

/// The result that an object's last passes have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Streak {
    Waits { reason: Reason, count: u32 },
    Failures { generation: i64, count: u32 },
}

/// One controller's counters of consecutive passes over an object that ended in the same way.
#[derive(Debug, Default)]
pub(super) struct Backoff(Mutex<HashMap<ObjectName, Streak>>);

impl Backoff {
    /// The time until the next pass after `outcome`. `random` is uniform in `0.0..1.0`; `sync_period` is the pause
    /// after a pass that found nothing to do.
    pub(super) fn next(
        &self,
        object: &ObjectName,
        generation: i64,
        outcome: &Outcome,
        sync_period: Duration,
        random: f64,
    ) -> Duration {
        let mut streaks = self.0.lock();
        match outcome {
            Outcome::Done => {
                streaks.remove(object);
                jittered(sync_period, random)
            }
            Outcome::Wait { reason, after, .. } => {
                let count = match streaks.get(object) {
                    Some(Streak::Waits {
                        reason: before,
                        count,
                    }) if before == reason => count.saturating_add(1),
                    _ => 0,
                };
                let reason = *reason;
                streaks.insert(object.clone(), Streak::Waits { reason, count });
                wait_pause(*after, count, random)
            }
            Outcome::Failed {
                class, retry_after, ..
            } => {
                let count = match streaks.get(object) {
                    // A new generation starts with the shortest pause again, because its spec is another one.
                    Some(Streak::Failures {
                        generation: before,
                        count,
                    }) if *before == generation => count.saturating_add(1),
                    _ => 0,
                };
                streaks.insert(object.clone(), Streak::Failures { generation, count });
                failure_pause(*class, *retry_after, count, random)
            }
        }
    }

    /// Removes an object that does not exist any more.
    pub(super) fn forget(&self, object: &ObjectName) {
        self.0.lock().remove(object);
    }
}

/// The pause before pass number `count` that waits for the same reason.
fn wait_pause(after: Duration, count: u32, random: f64) -> Duration {
    let backoff = ExponentialBackoff {
        first: after,
        factor: 1.3,
        longest: LONGEST_WAIT,
    };
    jittered(backoff.pause(count), random)
}

/// The pause after failure number `count` in a row.
fn failure_pause(
    class: FailureClass,
    retry_after: Option<Duration>,
    count: u32,
    random: f64,
) -> Duration {
    let (first, longest) = match class {
        class if class.is_conflict() => (Duration::from_secs(2), Duration::from_mins(1)),
        FailureClass::Auth => (Duration::from_secs(5), LONGEST_AUTH_PAUSE),
        FailureClass::Quota => (Duration::from_secs(30), LONGEST_PAUSE),
        _ => (Duration::from_secs(5), LONGEST_PAUSE),
    };
    match retry_after {
        // The pause ends after the Retry-After, and is spread over a short time after it.
        Some(pause) => {
            let pause = pause.min(LONGEST_RETRY_AFTER);
            pause + pause.mul_f64(0.1 * random)
        }
        None => jittered(
            ExponentialBackoff::doubling(first, longest).pause(count),
            random,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: f64 = 0.5;
    const SYNC: Duration = Duration::from_mins(10);

    fn failed(class: FailureClass) -> Outcome {
        Outcome::failed(class, Reason::OpenStackError, "no")
    }

    fn next(backoff: &Backoff, generation: i64, outcome: &Outcome) -> u64 {
        backoff
            .next(
                &ObjectName::new("a", "b"),
                generation,
                outcome,
                SYNC,
                MIDDLE,
            )
            .as_secs()
    }

    #[test]
    fn pauses_double_up_to_five_minutes_and_a_changed_spec_resets_them() {
        let backoff = Backoff::default();
        let seen: Vec<u64> = (0..9)
            .map(|_| next(&backoff, 1, &failed(FailureClass::Invalid)))
            .collect();
        assert_eq!(seen, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(next(&backoff, 2, &failed(FailureClass::Invalid)), 5);
        assert_eq!(next(&backoff, 2, &Outcome::Done), 600);
        assert_eq!(next(&backoff, 2, &failed(FailureClass::Invalid)), 5);
    }

    #[test]
    fn a_corrected_secret_is_read_within_half_a_minute() {
        for count in 0..40 {
            let pause = failure_pause(FailureClass::Auth, None, count, 1.0);
            assert!(pause <= Duration::from_secs(30), "{count}: {pause:?}");
        }
    }

    #[test]
    fn no_pass_starts_before_the_end_of_retry_after() {
        for random in [0.0, 0.5, 1.0] {
            let pause = failure_pause(
                FailureClass::Throttled,
                Some(Duration::from_mins(2)),
                0,
                random,
            );
            assert!(pause >= Duration::from_mins(2));
            assert!(pause <= Duration::from_secs(132));
        }
    }

    #[test]
    fn waits_grow_to_ten_seconds_and_another_reason_resets_them() {
        let backoff = Backoff::default();
        let wait = |reason| Outcome::wait(reason, "soon", Duration::from_secs(1));
        let seen: Vec<u64> = (0..12)
            .map(|_| next(&backoff, 1, &wait(Reason::LoadBalancerPending)))
            .collect();
        assert_eq!(seen.first(), Some(&1));
        assert_eq!(seen.last(), Some(&10));
        assert!(seen.is_sorted());
        assert_eq!(next(&backoff, 1, &wait(Reason::WaitingForOwner)), 1);
    }

    #[test]
    fn a_long_wait_is_kept_as_asked() {
        assert_eq!(
            wait_pause(Duration::from_mins(1), 7, MIDDLE),
            Duration::from_mins(1)
        );
    }
}

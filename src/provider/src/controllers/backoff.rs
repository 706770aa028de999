//! When the next pass over an object comes by itself: one counter per object, nothing shared.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::Outcome;
use capo_core::FailureClass;
use capo_core::{ObjectName, Reason};

/// The longest wait between two looks at something that takes its time.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Credentials can't be watched, so this is how soon a mended Secret is noticed at the latest.
const LONGEST_AUTH_PAUSE: Duration = Duration::from_secs(25);

/// What an object's last passes had in common.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Streak {
    Waits { reason: Reason, count: u32 },
    Failures { generation: i64, count: u32 },
}

/// Per-object counters of passes that ended the same way.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Mutex<HashMap<(&'static str, ObjectName), Streak>>);

impl Backoff {
    /// When to look again after `outcome`. `random` is uniform in `0.0..1.0`; `sync_period` is the
    /// pause after a pass that found nothing to do.
    pub(crate) fn next(
        &self,
        controller: &'static str,
        object: &ObjectName,
        generation: i64,
        outcome: &Outcome,
        sync_period: Duration,
        random: f64,
    ) -> Duration {
        let mut streaks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (controller, object.clone());
        match outcome {
            Outcome::Done => {
                streaks.remove(&key);
                jittered(sync_period, random)
            }
            Outcome::Wait { reason, after, .. } => {
                let count = match streaks.get(&key) {
                    Some(Streak::Waits {
                        reason: before,
                        count,
                    }) if before == reason => count.saturating_add(1),
                    _ => 0,
                };
                streaks.insert(
                    key,
                    Streak::Waits {
                        reason: *reason,
                        count,
                    },
                );
                wait_pause(*after, count, random)
            }
            Outcome::Failed {
                class, retry_after, ..
            } => {
                let count = match streaks.get(&key) {
                    // A new generation is a new attempt at getting it right.
                    Some(Streak::Failures {
                        generation: before,
                        count,
                    }) if *before == generation => count.saturating_add(1),
                    _ => 0,
                };
                streaks.insert(key, Streak::Failures { generation, count });
                failure_pause(*class, *retry_after, count, random)
            }
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, controller: &'static str, object: &ObjectName) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(controller, object.clone()));
    }
}

/// The pause before look number `count` at something that takes its time.
fn wait_pause(after: Duration, count: u32, random: f64) -> Duration {
    let grown = after.mul_f64(1.3_f64.powi(i32::try_from(count.min(20)).unwrap_or(20)));
    jittered(grown.min(LONGEST_WAIT.max(after)), random)
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
    let doubled = first.saturating_mul(2_u32.saturating_pow(count.min(12)));
    let pause = jittered(doubled.min(longest), random);
    // Never earlier than asked for, and spread a little after it.
    retry_after.map_or(pause, |asked| {
        let asked = asked.min(Duration::from_mins(15));
        asked + asked.mul_f64(0.1 * random)
    })
}

/// Within a fifth of `pause`, so that objects that failed together come back apart.
fn jittered(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(0.8 + 0.4 * random.clamp(0.0, 1.0))
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
                "cluster",
                &ObjectName::new("a", "b"),
                generation,
                outcome,
                SYNC,
                MIDDLE,
            )
            .as_secs()
    }

    #[test]
    fn failures_double_up_to_five_minutes_and_start_over_with_the_spec() {
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
    fn a_mended_secret_is_noticed_within_half_a_minute() {
        for count in 0..40 {
            let pause = failure_pause(FailureClass::Auth, None, count, 1.0);
            assert!(pause <= Duration::from_secs(30), "{count}: {pause:?}");
        }
    }

    #[test]
    fn openstack_is_not_asked_before_the_time_it_named() {
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
    fn waits_grow_to_ten_seconds_and_start_over_with_another_reason() {
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

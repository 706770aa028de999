//! Growing pauses between attempts.

use std::time::Duration;

/// Pauses that grow by a factor up to a longest pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialBackoff {
    /// The pause after the first attempt.
    pub first: Duration,
    /// The factor between one pause and the next.
    pub factor: f64,
    /// No pause is longer than this, before [`jittered`] changes it.
    pub longest: Duration,
}

impl ExponentialBackoff {
    /// Pauses that double.
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            factor: 2.0,
            longest,
        }
    }

    /// The pause after attempt number `attempt`, counted from 0, without jitter.
    pub fn pause(&self, attempt: u32) -> Duration {
        // Past this many attempts every backoff has reached its longest pause.
        let exponent = i32::try_from(attempt.min(64)).unwrap_or(64);
        let seconds = self.first.as_secs_f64() * self.factor.powi(exponent);
        let longest = self.longest.max(self.first);
        if seconds < longest.as_secs_f64() {
            Duration::from_secs_f64(seconds)
        } else {
            longest
        }
    }
}

/// The longest pause between two repairs.
pub const LONGEST_REPAIR_PAUSE: Duration = Duration::from_mins(10);

/// The pause after repair number `repair`, counted from 0: 1, 2, 5, then always 10 minutes. A repair in Octavia locks
/// the whole load balancer, so at most five are made in the first ten minutes.
pub const fn repair_pause(repair: u32) -> Duration {
    match repair {
        0 => Duration::from_mins(1),
        1 => Duration::from_mins(2),
        2 => Duration::from_mins(5),
        _ => LONGEST_REPAIR_PAUSE,
    }
}

/// The pause, made shorter or longer by up to a fifth of its length. `random` is uniform in `0.0..1.0`.
pub fn jittered(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(0.8 + 0.4 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest() {
        let backoff = ExponentialBackoff::doubling(Duration::from_secs(5), Duration::from_mins(1));
        let pauses = [0, 1, 2, 3, 4, 5, u32::MAX].map(|n| backoff.pause(n).as_secs());
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn at_most_five_repairs_fit_into_ten_minutes() {
        let minutes = [0, 1, 2, 3, u32::MAX].map(|repair| repair_pause(repair).as_secs() / 60);
        assert_eq!(minutes, [1, 2, 5, 10, 10]);
    }

    #[test]
    fn a_jittered_pause_stays_within_a_fifth() {
        let pause = Duration::from_secs(10);
        assert_eq!(jittered(pause, 0.0), Duration::from_secs(8));
        assert_eq!(jittered(pause, 1.0), Duration::from_secs(12));
    }
}

//! How far a deletion has come, and how soon a pass checks again whether it can continue.

use std::time::{Duration, Instant};

use capo_core::Reason;

/// How far the deletion of a cluster has come, as this process has seen it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeletionProgress {
    /// Whether the load balancer and its floating IP were found to be gone.
    pub is_load_balancer_gone: bool,
    /// Whether the router was found to be gone.
    pub is_router_gone: bool,
    waiting: Option<Wait>,
}

/// What a deletion waits for.
#[derive(Debug, Clone, Copy)]
struct Wait {
    condition: &'static str,
    reason: Reason,
    /// The time since which condition and reason have not changed.
    since: Instant,
}

impl DeletionProgress {
    /// Returns the pause until the next pass of a deletion that waits with this condition and reason.
    pub(crate) fn pause(
        &mut self,
        condition: &'static str,
        reason: Reason,
        now: Instant,
    ) -> Duration {
        let same = |wait: &Wait| wait.condition == condition && wait.reason == reason;
        let since = self.waiting.filter(same).map_or(now, |wait| wait.since);
        self.waiting = Some(Wait {
            condition,
            reason,
            since,
        });
        pause(now.saturating_duration_since(since))
    }
}

/// How long to wait until the next pass. Most deletions end within seconds, so the first passes follow each other
/// quickly. A deletion that has taken five minutes needs an operator. A pass then makes up to five calls, and at most
/// two calls a minute are allowed.
fn pause(waited: Duration) -> Duration {
    if waited >= Duration::from_mins(5) {
        return Duration::from_mins(4);
    }
    (waited / 6).max(Duration::from_secs(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_the_deletion_waits_for_the_same() {
        let start = Instant::now();
        let mut progress = DeletionProgress::default();
        let mut at = |kind, seconds| {
            let now = start + Duration::from_secs(seconds);
            progress.pause(kind, Reason::Deleting, now).as_secs()
        };
        let pauses = [0, 10, 60, 120, 299, 300, 3_600].map(|seconds| at("NetworkReady", seconds));
        assert_eq!(pauses, [2, 2, 10, 20, 49, 240, 240]);
        assert_eq!(at("SecurityGroupsReady", 3_600), 2, "another step");
    }

    #[test]
    fn after_five_minutes_a_pass_of_five_calls_costs_two_calls_a_minute_at_most() {
        let shortest = capo_core::backoff::jittered(pause(Duration::from_mins(5)), 0.0);
        assert!(5.0 / shortest.as_secs_f64() * 60.0 <= 2.0, "{shortest:?}");
    }
}

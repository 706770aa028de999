//! The objects that wait for a pass of one controller and the passes that run, with the usual figures of a work queue.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use capo_core::ObjectName;

/// The objects whose pass is due or running. Every controller has one instance.
#[derive(Debug, Default)]
pub struct QueueMetrics(Mutex<QueueMetricsState>);

#[derive(Debug, Default)]
struct QueueMetricsState {
    /// The time at which each object's next pass is or was due.
    waiting: HashMap<ObjectName, Instant>,
    /// When each running pass began.
    running: HashMap<ObjectName, Instant>,
    /// The number of objects that were queued.
    added: u64,
}

/// The state of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    /// Objects whose pass is due.
    pub waiting: usize,
    /// The number of running passes.
    pub running: usize,
    /// The sum of the ages of the running passes.
    pub unfinished: Duration,
    /// The age of the oldest running pass.
    pub longest: Duration,
    /// The number of objects that were queued since the start.
    pub added: u64,
}

impl QueueMetrics {
    /// Records that an object is due for a pass.
    pub(super) fn added(&self, object: ObjectName) {
        let now = Instant::now();
        let mut state = self.0.lock();
        let state = &mut *state;
        let due = state.waiting.entry(object).or_insert_with(|| {
            state.added += 1;
            now
        });
        if *due > now {
            // The object waited for its timer. From now on it waits until another pass ends.
            *due = now;
            state.added += 1;
        }
    }

    /// Records that a pass begins. Returns how long its object has waited.
    pub(super) fn begin(&self, object: &ObjectName) -> Duration {
        let now = Instant::now();
        let mut state = self.0.lock();
        let due = state.waiting.remove(object).unwrap_or(now);
        state.running.insert(object.clone(), now);
        now.saturating_duration_since(due)
    }

    /// Records that a pass ended, and that the next one is due after `pause` unless a change starts it before.
    pub(super) fn end(&self, object: &ObjectName, pause: Duration) {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.running.remove(object);
        if let Some(due) = now.checked_add(pause)
            && !state.waiting.contains_key(object)
        {
            state.waiting.insert(object.clone(), due);
            state.added += 1;
        }
    }

    /// Removes an object that does not exist any more.
    pub(super) fn forget(&self, object: &ObjectName) {
        self.0.lock().waiting.remove(object);
    }

    /// The present state of the queue.
    pub fn depth(&self) -> QueueDepth {
        let now = Instant::now();
        let state = self.0.lock();
        let ages = || {
            state
                .running
                .values()
                .map(|begun| now.saturating_duration_since(*begun))
        };
        QueueDepth {
            waiting: state.waiting.values().filter(|due| **due <= now).count(),
            running: state.running.len(),
            unfinished: ages().sum(),
            longest: ages().max().unwrap_or_default(),
            added: state.added,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_object_waits_from_its_enqueueing_to_its_pass() {
        let (queue, object) = (QueueMetrics::default(), ObjectName::new("n", "a"));
        queue.added(object.clone());
        queue.added(object.clone());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(queue.depth().waiting, 1);
        assert_eq!(queue.begin(&object), Duration::from_secs(3));
        tokio::time::advance(Duration::from_secs(2)).await;
        let depth = queue.depth();
        assert_eq!((depth.waiting, depth.running, depth.added), (0, 1, 1));
        assert_eq!(depth.longest, Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_counts_as_waiting_once_it_is_due() {
        let (queue, object) = (QueueMetrics::default(), ObjectName::new("n", "a"));
        queue.added(object.clone());
        queue.begin(&object);
        queue.end(&object, Duration::from_secs(10));
        assert_eq!(queue.depth().waiting, 0);
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(queue.depth().waiting, 1);
        assert_eq!(queue.begin(&object), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_removed_or_enqueued_during_its_pass_is_not_counted_twice() {
        let (queue, object) = (QueueMetrics::default(), ObjectName::new("n", "a"));
        queue.added(object.clone());
        queue.begin(&object);
        queue.added(object.clone());
        queue.end(&object, Duration::from_secs(10));
        assert_eq!(queue.depth().waiting, 1);
        queue.forget(&object);
        assert_eq!(queue.depth().waiting, 0);
    }
}

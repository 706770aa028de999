//! What waits for a pass of one controller, and what is under way: the numbers that work queues are known for.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use capo_core::ObjectName;

/// Objects between the moment a pass is due and its end. One per controller.
#[derive(Debug, Default)]
pub struct QueueMetrics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When each object's next pass was or will be due.
    waiting: HashMap<ObjectName, Instant>,
    /// When each pass under way began.
    running: HashMap<ObjectName, Instant>,
    /// Objects that came to wait.
    added: u64,
}

/// A queue at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    /// Objects whose pass is due.
    pub waiting: usize,
    /// Passes under way.
    pub running: usize,
    /// Age of all passes under way, together.
    pub unfinished: Duration,
    /// Age of the oldest pass under way.
    pub longest: Duration,
    /// Objects that ever came to wait.
    pub added: u64,
}

impl QueueMetrics {
    /// An object is due for a pass.
    pub(super) fn added(&self, object: ObjectName) {
        let now = Instant::now();
        let mut state = self.0.lock();
        let state = &mut *state;
        let due = state.waiting.entry(object).or_insert_with(|| {
            state.added += 1;
            now
        });
        if *due > now {
            // It would have come by its timer, later.
            *due = now;
            state.added += 1;
        }
    }

    /// A pass begins: how long its object has waited.
    pub(super) fn begin(&self, object: &ObjectName) -> Duration {
        let now = Instant::now();
        let mut state = self.0.lock();
        let due = state.waiting.remove(object).unwrap_or(now);
        state.running.insert(object.clone(), now);
        now.saturating_duration_since(due)
    }

    /// A pass ended, and the next one is due after `pause` unless it is asked for before.
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

    /// An object is gone: no pass over it comes.
    pub(super) fn forget(&self, object: &ObjectName) {
        self.0.lock().waiting.remove(object);
    }

    /// The queue as it is now.
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
    async fn an_object_waits_from_the_wish_to_the_pass() {
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
    async fn what_is_gone_or_asked_for_meanwhile_is_not_counted_twice() {
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

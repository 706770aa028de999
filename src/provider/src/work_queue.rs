//! The objects that need a pass, in a queue without duplicates: many changes of one object cause one pass.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use capo_core::ObjectName;

/// The names of the objects that need a pass, each at most once. A clone is cheap; all clones share one queue.
#[derive(Debug, Clone, Default)]
pub struct WorkQueue(Arc<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<ObjectName>,
    names: HashSet<ObjectName>,
}

impl WorkQueue {
    /// Adds `object` unless the queue has it already.
    pub fn enqueue(&self, object: &ObjectName) {
        {
            let mut waiting = self.0.waiting.lock();
            if waiting.names.contains(object) {
                return;
            }
            waiting.names.insert(object.clone());
            waiting.order.push_back(object.clone());
        }
        self.0.added.notify_one();
    }

    /// The names in the order in which they were added. The stream never ends; two streams of one queue share its
    /// names.
    pub fn stream(&self) -> impl Stream<Item = ObjectName> + Send + use<> {
        stream::unfold(self.clone(), |queue| async move {
            let name = queue.next().await;
            Some((name, queue))
        })
    }

    async fn next(&self) -> ObjectName {
        loop {
            let added = self.0.added.notified();
            if let Some(name) = self.take() {
                return name;
            }
            added.await;
        }
    }

    fn take(&self) -> Option<ObjectName> {
        let mut waiting = self.0.waiting.lock();
        let name = waiting.order.pop_front()?;
        waiting.names.remove(&name);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn an_object_waits_once_and_can_be_added_again_after_it_was_taken() {
        let queue = WorkQueue::default();
        let (a, b) = (ObjectName::new("n", "a"), ObjectName::new("n", "b"));
        let mut stream = pin!(queue.stream());
        assert_eq!(stream.next().now_or_never(), None);
        for name in [&a, &b, &a, &a] {
            queue.enqueue(name);
        }
        assert_eq!(stream.next().now_or_never(), Some(Some(a.clone())));
        queue.enqueue(&a);
        assert_eq!(stream.next().now_or_never(), Some(Some(b)));
        assert_eq!(stream.next().now_or_never(), Some(Some(a)));
        assert_eq!(stream.next().now_or_never(), None);
    }
}

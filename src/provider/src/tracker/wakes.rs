//! A stream of objects to look at again. An object that waits already is not queued twice, so the queue
//! is never longer than there are objects.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{Stream, stream};
use tokio::sync::Notify;

use capo_core::ObjectName;

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<ObjectName>,
    names: BTreeSet<ObjectName>,
}

#[derive(Debug, Default)]
pub(super) struct Wakes {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

impl Wakes {
    pub(super) fn wake(&self, name: &ObjectName) {
        let new = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let new = !waiting.names.contains(name);
            if new {
                waiting.names.insert(name.clone());
                waiting.order.push_back(name.clone());
            }
            new
        };
        if new {
            self.bell.notify_one();
        }
    }

    fn take(&self) -> Option<ObjectName> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let name = waiting.order.pop_front()?;
        waiting.names.remove(&name);
        Some(name)
    }

    /// Ends never. Two streams of one queue share what it holds, so one is enough.
    pub(super) fn stream(self: &Arc<Self>) -> impl Stream<Item = ObjectName> + Send + 'static {
        stream::unfold(Arc::clone(self), |wakes| async move {
            loop {
                if let Some(name) = wakes.take() {
                    return Some((name, wakes));
                }
                wakes.bell.notified().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc};

    use futures::{FutureExt, StreamExt};

    use super::Wakes;
    use capo_core::ObjectName;

    #[test]
    fn an_object_waits_once_and_comes_again_after_it_was_taken() {
        let wakes = Arc::new(Wakes::default());
        let mut stream = pin!(wakes.stream());
        assert_eq!(stream.next().now_or_never(), None);
        let name = ObjectName::new("n", "a");
        wakes.wake(&name);
        wakes.wake(&name);
        wakes.wake(&ObjectName::new("n", "b"));
        assert_eq!(stream.next().now_or_never(), Some(Some(name.clone())));
        wakes.wake(&name);
        assert_eq!(
            stream.next().now_or_never(),
            Some(Some(ObjectName::new("n", "b")))
        );
        assert_eq!(stream.next().now_or_never(), Some(Some(name)));
        assert_eq!(stream.next().now_or_never(), None);
    }
}

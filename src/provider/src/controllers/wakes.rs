//! Which objects want a pass: a set, so that a storm of changes of one object is one wake.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{Stream, stream};
use tokio::sync::Notify;

use capo_core::ObjectName;

/// Names of objects that want a pass, each at most once. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wakes(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<ObjectName>,
    members: std::collections::HashSet<ObjectName>,
}

impl Wakes {
    /// Asks for a pass over `object`.
    pub(crate) fn wake(&self, object: ObjectName) {
        {
            let mut waiting = self.lock();
            if !waiting.members.insert(object.clone()) {
                return;
            }
            waiting.order.push_back(object);
        }
        self.0.arrived.notify_one();
    }

    /// The names in the order in which they were asked for; it never ends.
    pub(crate) fn stream(&self) -> impl Stream<Item = ObjectName> + Send + use<> {
        stream::unfold(self.clone(), |wakes| async move {
            let name = wakes.next().await;
            Some((name, wakes))
        })
    }

    async fn next(&self) -> ObjectName {
        loop {
            let arrived = self.0.arrived.notified();
            if let Some(name) = self.take() {
                return name;
            }
            arrived.await;
        }
    }

    fn take(&self) -> Option<ObjectName> {
        let mut waiting = self.lock();
        let name = waiting.order.pop_front()?;
        waiting.members.remove(&name);
        Some(name)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[tokio::test]
    async fn an_object_waits_once_however_often_it_is_woken() {
        let wakes = Wakes::default();
        let (a, b) = (ObjectName::new("n", "a"), ObjectName::new("n", "b"));
        for name in [&a, &b, &a, &a] {
            wakes.wake(name.clone());
        }
        let mut stream = Box::pin(wakes.stream());
        assert_eq!(stream.next().await, Some(a.clone()));
        assert_eq!(stream.next().await, Some(b));
        assert_eq!(stream.next().now_or_never(), None);
        wakes.wake(a.clone());
        assert_eq!(stream.next().await, Some(a));
    }
}

//! Objects of one kind, which one caller at a time reads for all callers that wait.

use std::{future::Future, hash::Hash};

use capo_core::Priority;
use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::batch::{Batch, Read, ReadPlan};
use crate::{error::Error, sent::when_sent};

/// Objects of one kind, by id or by name.
#[derive(Debug)]
pub(crate) struct Batched<K, V> {
    batch: Mutex<Batch<K, V>>,
    /// One lock for each priority, held during a read: an urgent caller does not wait for a read that has to wait
    /// itself.
    reading: [AsyncMutex<()>; 3],
}

impl<K, V> Batched<K, V> {
    /// Objects by id. A list that lacks an object does not prove that the object is absent, so the object is then read
    /// by its id.
    pub(crate) fn by_id() -> Self {
        Self::of(Batch::by_id())
    }

    fn of(batch: Batch<K, V>) -> Self {
        Self {
            batch: Mutex::new(batch),
            reading: Default::default(),
        }
    }
}

impl<K, V: Default> Batched<K, V> {
    /// Objects by name. A list shows the objects of every name, so one list serves all names.
    pub(crate) fn by_name() -> Self {
        Self::of(Batch::by_name())
    }
}

impl<K: Clone + Eq + Hash + Ord, V: Clone> Batched<K, V> {
    /// The object `key` as of `oldest` or later. `one` reads one object, and `all` reads all objects and gets the keys
    /// that callers wait for. One caller of each priority reads for all that wait. A caller that comes during a read is
    /// served by that read if it is new enough for the caller, and otherwise by the next one.
    pub(crate) async fn get<One, All>(
        &self,
        key: &K,
        oldest: std::time::Instant,
        priority: Priority,
        one: impl Fn(K) -> One,
        all: impl Fn(Vec<K>) -> All,
    ) -> Result<Read<V>, Error>
    where
        One: Future<Output = Result<V, Error>>,
        All: Future<Output = Result<Vec<(K, V)>, Error>>,
    {
        let requested = Instant::now();
        // A read that is sent from now on is new enough for every caller, so no caller waits for a time in the future.
        let oldest = Instant::from_std(oldest).min(requested);
        loop {
            if let Some(known) = self.batch.lock().result(key, oldest, requested) {
                return known;
            }
            let _reading = self.reading_at(priority).lock().await;
            // The read that was under way may have served this caller.
            if let Some(known) = self.batch.lock().result(key, oldest, requested) {
                return known;
            }
            self.read_due(&one, &all).await;
        }
    }

    /// Notes that a caller will want the object `key` soon.
    pub(crate) fn anticipate(&self, key: &K) {
        self.batch.lock().anticipate(key, Instant::now());
    }

    /// How many objects callers need at present.
    pub(crate) fn awaited(&self) -> u32 {
        self.batch.lock().awaited()
    }

    /// Applies a list of all objects in the project, which another read has sent at `sent` or later.
    pub(crate) fn offer(&self, objects: Vec<(K, V)>, sent: Instant) {
        self.batch.lock().listed(&[], objects, sent, Instant::now());
    }

    fn reading_at(&self, priority: Priority) -> &AsyncMutex<()> {
        let [gate, settling, steady] = &self.reading;
        match priority {
            Priority::Gate => gate,
            Priority::Settling => settling,
            Priority::Steady => steady,
        }
    }

    /// Reads all objects that callers wait for, in the cheaper way.
    async fn read_due<One, All>(&self, one: &impl Fn(K) -> One, all: &impl Fn(Vec<K>) -> All)
    where
        One: Future<Output = Result<V, Error>>,
        All: Future<Output = Result<Vec<(K, V)>, Error>>,
    {
        let (mut due, plan) = self.batch.lock().due(Instant::now());
        if plan == ReadPlan::List {
            let (listed, sent, ended) = stamped(all(due.clone())).await;
            let mut batch = self.batch.lock();
            due = match listed {
                Ok(objects) => batch.listed(&due, objects, sent, ended),
                Err(error) => {
                    for key in &due {
                        batch.read(key, Err(error.clone()), sent, ended);
                    }
                    Vec::new()
                }
            };
        }
        for key in &due {
            let (result, sent, ended) = stamped(one(key.clone())).await;
            self.batch.lock().read(key, result, sent, ended);
        }
        self.batch.lock().forget_unused(Instant::now());
    }
}

/// The result of a read, and the times when it was sent and when it ended. A read that sent no request counts from its
/// beginning.
async fn stamped<T>(read: impl Future<Output = T>) -> (T, Instant, Instant) {
    let began = Instant::now();
    let (result, sent) = when_sent(read).await;
    (result, sent.unwrap_or(began), Instant::now())
}

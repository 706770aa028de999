//! Decides which reads serve the callers that wait, and keeps the results of those reads. It is pure: times are
//! arguments.

use std::{collections::HashMap, hash::Hash, time::Duration};

use tokio::time::Instant;

use crate::error::Error;

/// The number of objects on one page of a list. Lists whose pages would be too large have smaller ones, which are not
/// considered here.
const PAGE: usize = 1000;

/// An object is removed from the cache when no caller needed it for this time, which is longer than the pause between
/// two passes over an object that does not change.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(30);

/// A caller that needed an object within this time will probably need it again soon, because the object is changing.
/// The time is longer than the pause between two passes that wait.
const RECENTLY: Duration = Duration::from_secs(15);

/// How to read the objects that callers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPlan {
    /// One read for each object.
    OneByOne,
    /// One list of all objects in the project.
    List,
}

/// The cheaper way to serve callers of `wanted` objects in a project that had `size` of them in the last list.
pub(crate) fn plan(wanted: usize, size: Option<usize>) -> ReadPlan {
    // The size is unknown before the first list: one page is assumed.
    let pages = size.map_or(1, |size| size / PAGE + 1);
    // A page costs the service more than one object does.
    if wanted > pages + 1 {
        ReadPlan::List
    } else {
        ReadPlan::OneByOne
    }
}

/// The last read of one object, and the last times at which callers needed it.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    requested_at: Instant,
    /// The greatest age of an answer that the last caller accepted.
    tolerance: Duration,
    /// A caller waits for a read that begins at this moment or later.
    wanted_since: Option<Instant>,
    outcome: Option<Outcome<V>>,
}

impl<V> Entry<V> {
    /// Whether a list that is read now serves a caller of this object: a caller that waits, or one that will probably
    /// come before the list is too old for it. `of_waiting` is the greatest age that any waiting caller accepts. It
    /// counts as well, because the callers of an object that has stopped changing accept older answers than before.
    fn gains_by_a_list(&self, now: Instant, of_waiting: Duration) -> bool {
        let tolerance = self.tolerance.max(of_waiting);
        let requested_lately =
            now.duration_since(self.requested_at) <= RECENTLY.max(tolerance.saturating_mul(3));
        let is_old = self
            .outcome
            .as_ref()
            .is_none_or(|outcome| now.duration_since(outcome.sent_at) > tolerance / 2);
        self.wanted_since.is_some() || (requested_lately && is_old)
    }
}

/// One read of an object.
#[derive(Debug, Clone)]
struct Outcome<V> {
    result: Result<V, Error>,
    sent_at: Instant,
    ended_at: Instant,
}

/// A list of all objects in the project. It also serves callers that come after it.
#[derive(Debug)]
struct Whole<K, V> {
    objects: HashMap<K, V>,
    sent_at: Instant,
}

/// The objects of one kind that callers need.
#[derive(Debug)]
pub(crate) struct Batch<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// How many objects the last list had.
    size: Option<usize>,
    /// The value of a key that a list lacks; `None` if a list does not prove that the object is absent.
    absent: Option<fn() -> V>,
    /// How many objects callers had requested lately when the last read was planned.
    awaited: u32,
    /// The last list, if it had at most as many objects as one page.
    whole: Option<Whole<K, V>>,
}

/// An object in a read that was sent at `sent_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<V> {
    /// The object.
    pub value: V,
    /// When the read was sent.
    pub sent_at: std::time::Instant,
}

impl<K, V> Batch<K, V> {
    /// Objects by id. A list may lack some of them.
    pub(crate) fn by_id() -> Self {
        Self {
            entries: HashMap::new(),
            size: None,
            absent: None,
            awaited: 0,
            whole: None,
        }
    }
}

impl<K, V: Default> Batch<K, V> {
    /// Objects by name. A name that a list lacks has no object.
    pub(crate) fn by_name() -> Self {
        Self {
            absent: Some(V::default),
            ..Self::by_id()
        }
    }
}

impl<K: Clone + Eq + Hash + Ord, V: Clone> Batch<K, V> {
    /// The result for `key`, if there is one that serves the caller: from a read that was sent at `oldest` or later,
    /// absence included, or a failure that came after the caller's request. With `None` the caller waits for the next
    /// read.
    pub(crate) fn result(
        &mut self,
        key: &K,
        oldest: Instant,
        requested: Instant,
    ) -> Option<Result<Read<V>, Error>> {
        let listed = self.in_whole_list(key, oldest);
        let entry = self.anticipate(key, requested);
        entry.tolerance = requested.saturating_duration_since(oldest);
        if let Some(listed) = listed
            && entry
                .outcome
                .as_ref()
                .is_none_or(|outcome| outcome.sent_at < listed.sent_at)
        {
            entry.outcome = Some(listed);
        }
        match &entry.outcome {
            Some(Outcome {
                result: Ok(value),
                sent_at,
                ..
            }) if *sent_at >= oldest => {
                return Some(Ok(Read {
                    value: value.clone(),
                    sent_at: sent_at.into_std(),
                }));
            }
            Some(Outcome {
                result: Err(error),
                sent_at,
                ended_at,
            }) if (error.is_not_found() && *sent_at >= oldest)
                || (!error.is_not_found() && *ended_at >= requested) =>
            {
                return Some(Err(error.clone()));
            }
            _ => {}
        }
        entry.wanted_since = Some(entry.wanted_since.map_or(oldest, |old| old.max(oldest)));
        None
    }

    /// Notes that a caller needs the object `key`, or will soon.
    pub(crate) fn anticipate(&mut self, key: &K, requested: Instant) -> &mut Entry<V> {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry {
            requested_at: requested,
            tolerance: Duration::ZERO,
            wanted_since: None,
            outcome: None,
        });
        entry.requested_at = entry.requested_at.max(requested);
        entry
    }

    fn in_whole_list(&self, key: &K, oldest: Instant) -> Option<Outcome<V>> {
        let whole = self
            .whole
            .as_ref()
            .filter(|whole| whole.sent_at >= oldest)?;
        let value = whole.objects.get(key).cloned();
        Some(Outcome {
            result: Ok(value.or_else(|| self.absent.map(|absent| absent()))?),
            sent_at: whole.sent_at,
            ended_at: whole.sent_at,
        })
    }

    /// The objects that callers wait for, in order, and how to read them.
    pub(crate) fn due(&mut self, now: Instant) -> (Vec<K>, ReadPlan) {
        let waiting = || {
            let entries = self.entries.iter();
            entries.filter(|(_, entry)| entry.wanted_since.is_some())
        };
        let mut keys: Vec<K> = waiting().map(|(key, _)| key.clone()).collect();
        keys.sort();
        let tolerance = waiting().map(|(_, entry)| entry.tolerance).max();
        let tolerance = tolerance.unwrap_or_default();
        let gaining = self
            .entries
            .values()
            .filter(|entry| entry.gains_by_a_list(now, tolerance))
            .count();
        let requested_lately =
            |entry: &&Entry<V>| now.duration_since(entry.requested_at) <= RECENTLY;
        let awaited = self.entries.values().filter(requested_lately).count();
        self.awaited = u32::try_from(awaited).unwrap_or(u32::MAX);
        (keys, plan(gaining, self.size))
    }

    /// How many objects callers need at present.
    pub(crate) fn awaited(&self) -> u32 {
        self.awaited
    }

    /// Records the result of a read of one object.
    pub(crate) fn read(
        &mut self,
        key: &K,
        result: Result<V, Error>,
        sent_at: Instant,
        ended_at: Instant,
    ) {
        if let Some(entry) = self.entries.get_mut(key) {
            if entry.wanted_since.is_none_or(|since| sent_at >= since) {
                entry.wanted_since = None;
            }
            entry.outcome = Some(Outcome {
                result,
                sent_at,
                ended_at,
            });
        }
    }

    /// Records a list of all objects in the project. Returns those of `due` that must be read one by one, because the
    /// list lacks them without proving that they are absent.
    pub(crate) fn listed(
        &mut self,
        due: &[K],
        all: Vec<(K, V)>,
        sent_at: Instant,
        ended_at: Instant,
    ) -> Vec<K> {
        self.size = Some(all.len());
        let objects: HashMap<K, V> = all.into_iter().collect();
        let requested: Vec<K> = self.entries.keys().cloned().collect();
        for key in requested {
            let value = objects.get(&key).cloned();
            if let Some(value) = value.or_else(|| self.absent.map(|absent| absent())) {
                self.read(&key, Ok(value), sent_at, ended_at);
            }
        }
        let missing = |key: &&K| self.absent.is_none() && !objects.contains_key(*key);
        let missing = due.iter().filter(missing).cloned().collect();
        self.whole = (objects.len() <= PAGE).then_some(Whole { objects, sent_at });
        missing
    }

    /// Removes the objects that no caller has needed for a long time.
    pub(crate) fn forget_unused(&mut self, now: Instant) {
        self.entries
            .retain(|_, entry| now.duration_since(entry.requested_at) < FORGOTTEN_AFTER);
        self.whole
            .take_if(|whole| now.duration_since(whole.sent_at) >= RECENTLY);
    }
}

#[cfg(test)]
mod tests;

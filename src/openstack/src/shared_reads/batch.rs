//! Which reads serve the callers that wait, and what they have seen. Pure: moments are arguments.

use std::{collections::HashMap, hash::Hash, time::Duration};

use tokio::time::Instant;

use crate::error::Error;

/// Objects a page, as lists ask for them.
const PAGE: usize = 1000;

/// An object that no caller asked for in this time is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// How the objects that callers wait for are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPlan {
    /// Each by itself.
    OneByOne,
    /// All of the project in one list.
    List,
}

/// The cheaper way to read `wanted` objects in a project that had `size` of them in the last list.
pub(crate) fn plan(wanted: usize, size: Option<usize>) -> ReadPlan {
    // Without a list so far, one page is assumed: the list itself shows the size.
    let pages = size.map_or(1, |size| size / PAGE + 1);
    // An answer of one page is heavier than that of one object.
    if wanted > pages + 1 {
        ReadPlan::List
    } else {
        ReadPlan::OneByOne
    }
}

/// What was read of one object, and by when it was asked for.
#[derive(Debug)]
struct Entry<V> {
    asked_at: Instant,
    /// A caller waits for a read that began at this moment or later.
    wanted_since: Option<Instant>,
    outcome: Option<Outcome<V>>,
}

/// One read of an object.
#[derive(Debug, Clone)]
struct Outcome<V> {
    result: Result<V, Error>,
    sent_at: Instant,
    ended_at: Instant,
}

/// The objects of one kind that callers ask for.
#[derive(Debug)]
pub(crate) struct Batch<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// How many objects the last list had.
    size: Option<usize>,
}

impl<K, V> Default for Batch<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            size: None,
        }
    }
}

/// An object as a read that was sent at `sent_at` showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<V> {
    /// The object.
    pub value: V,
    /// When the read was sent.
    pub sent_at: std::time::Instant,
}

impl<K: Clone + Eq + Hash + Ord, V: Clone> Batch<K, V> {
    /// What is known of `key`: what a read showed that was sent at `oldest` or later, absence included, or a failure that
    /// came after the caller asked. `None` leaves the caller waiting for the next read.
    pub(crate) fn ask(
        &mut self,
        key: &K,
        oldest: Instant,
        asked: Instant,
    ) -> Option<Result<Read<V>, Error>> {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry {
            asked_at: asked,
            wanted_since: None,
            outcome: None,
        });
        entry.asked_at = entry.asked_at.max(asked);
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
                || (!error.is_not_found() && *ended_at >= asked) =>
            {
                return Some(Err(error.clone()));
            }
            _ => {}
        }
        entry.wanted_since = Some(entry.wanted_since.map_or(oldest, |old| old.max(oldest)));
        None
    }

    /// The objects that callers wait for, in order, and how to read them.
    pub(crate) fn due(&self) -> (Vec<K>, ReadPlan) {
        let mut keys: Vec<K> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.wanted_since.is_some())
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort();
        let plan = plan(keys.len(), self.size);
        (keys, plan)
    }

    /// Notes what a read of one object returned.
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

    /// Notes a list of everything in the project. Objects that no caller asks for are not kept. Returns those of `due`
    /// that the list lacks: one list is no proof that an object is gone, so they are read one by one.
    pub(crate) fn listed(
        &mut self,
        due: &[K],
        all: Vec<(K, V)>,
        sent_at: Instant,
        ended_at: Instant,
    ) -> Vec<K> {
        self.size = Some(all.len());
        let mut missing: Vec<K> = due.to_vec();
        for (key, value) in all {
            if let Ok(index) = missing.binary_search(&key) {
                missing.remove(index);
            }
            self.read(&key, Ok(value), sent_at, ended_at);
        }
        missing
    }

    /// Forgets what no caller asked for in a long time.
    pub(crate) fn forget_unused(&mut self, now: Instant) {
        self.entries
            .retain(|_, entry| now.duration_since(entry.asked_at) < FORGOTTEN_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use capo_core::FailureClass;

    use super::*;

    #[test]
    fn the_cheaper_way_is_taken() {
        for (wanted, size, expected) in [
            (1, None, ReadPlan::OneByOne),
            (2, None, ReadPlan::OneByOne),
            (3, None, ReadPlan::List),
            (100, Some(100), ReadPlan::List),
            (100, Some(5_000), ReadPlan::List),
            (5, Some(5_000), ReadPlan::OneByOne),
        ] {
            assert_eq!(plan(wanted, size), expected, "{wanted} of {size:?}");
        }
    }

    #[test]
    fn an_answer_serves_those_for_whom_it_is_new_enough() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut batch: Batch<u32, &str> = Batch::default();
        assert!(batch.ask(&1, at(0), at(0)).is_none());
        assert_eq!(batch.due().0, [1]);
        batch.read(&1, Ok("one"), at(1), at(1));
        assert_eq!(batch.due().0, [0; 0]);
        assert_eq!(batch.ask(&1, at(1), at(9)).unwrap().unwrap().value, "one");
        assert!(batch.ask(&1, at(2), at(9)).is_none(), "it is too old");
        // A read that was sent before the caller's oldest moment leaves it waiting.
        batch.read(&1, Ok("one"), at(1), at(1));
        assert_eq!(batch.due().0, [1]);
    }

    #[test]
    fn absence_is_as_old_as_its_read_and_a_failure_is_for_those_that_waited() {
        let error = |class| Error::new(crate::Service::Compute, "server_get", class, "x");
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (class, sent, ended, oldest, asked, known) in [
            (FailureClass::NotFound, 1, 3, 2, 2, false),
            (FailureClass::NotFound, 1, 3, 1, 9, true),
            (FailureClass::Transient, 1, 3, 2, 2, true),
            (FailureClass::Transient, 1, 3, 1, 9, false),
        ] {
            let mut batch: Batch<u32, &str> = Batch::default();
            assert!(batch.ask(&1, at(0), at(0)).is_none());
            batch.read(&1, Err(error(class)), at(sent), at(ended));
            let answer = batch.ask(&1, at(oldest), at(asked));
            assert_eq!(answer.is_some(), known, "{class:?} asked at {asked}");
        }
    }

    #[test]
    fn a_list_serves_all_that_are_due_and_names_what_it_lacks() {
        let now = Instant::now();
        let mut batch: Batch<u32, &str> = Batch::default();
        for key in 1..=4 {
            assert!(batch.ask(&key, now, now).is_none());
        }
        let (due, how) = batch.due();
        assert_eq!((due.as_slice(), how), (&[1, 2, 3, 4][..], ReadPlan::List));
        let all = vec![(1, "one"), (2, "two"), (4, "four"), (77, "a stranger's")];
        assert_eq!(batch.listed(&due, all, now, now), [3]);
        assert_eq!(batch.due(), (vec![3], ReadPlan::OneByOne));
        assert_eq!(batch.entries.len(), 4, "the stranger's is not kept");
        batch.forget_unused(now + FORGOTTEN_AFTER);
        assert!(batch.entries.is_empty());
    }
}

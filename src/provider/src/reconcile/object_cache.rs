//! The values that this process keeps for objects between passes. All of them can be read again: losing them costs
//! calls or makes a gate wait longer, and never opens a gate.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use capo_core::ObjectName;

/// One value per object. An object of the same name with another uid has no value at first. A clone is cheap; all
/// clones share one cache.
#[derive(Debug)]
pub struct ObjectCache<T>(Arc<Mutex<HashMap<ObjectName, CacheEntry<T>>>>);

#[derive(Debug)]
struct CacheEntry<T> {
    uid: Option<String>,
    value: T,
}

impl<T> Default for ObjectCache<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for ObjectCache<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> ObjectCache<T> {
    /// The value of the object with this name and uid.
    pub fn get(&self, name: &ObjectName, uid: Option<&str>) -> Option<T>
    where
        T: Clone,
    {
        let entries = self.0.lock();
        let entry = entries.get(name)?;
        (entry.uid.as_deref() == uid).then(|| entry.value.clone())
    }

    /// A part of the value of the object with this name and uid.
    pub fn read<R>(
        &self,
        name: &ObjectName,
        uid: Option<&str>,
        read: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let entries = self.0.lock();
        let entry = entries.get(name)?;
        (entry.uid.as_deref() == uid).then(|| read(&entry.value))
    }

    /// Replaces the value of the object.
    pub fn put(&self, name: &ObjectName, uid: Option<&str>, value: T) {
        let uid = uid.map(str::to_owned);
        self.0
            .lock()
            .insert(name.clone(), CacheEntry { uid, value });
    }

    /// Changes the value, starting from the default where the object has none.
    pub fn update<R>(
        &self,
        name: &ObjectName,
        uid: Option<&str>,
        change: impl FnOnce(&mut T) -> R,
    ) -> R
    where
        T: Default,
    {
        let mut entries = self.0.lock();
        let fresh = || CacheEntry {
            uid: uid.map(str::to_owned),
            value: T::default(),
        };
        let entry = entries.entry(name.clone()).or_insert_with(fresh);
        if entry.uid.as_deref() != uid {
            *entry = fresh();
        }
        change(&mut entry.value)
    }

    /// The number of objects for whose value `is_counted` returns true.
    pub fn count(&self, is_counted: impl Fn(&T) -> bool) -> usize {
        let entries = self.0.lock();
        entries.values().filter(|it| is_counted(&it.value)).count()
    }

    /// Removes an object that does not exist any more.
    pub fn forget(&self, name: &ObjectName) {
        self.0.lock().remove(name);
    }
}

/// A value, and the time at which its read began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadAt<T> {
    pub value: T,
    pub at: Instant,
}

impl<T> ReadAt<T> {
    pub(crate) fn new(value: T, at: Instant) -> Self {
        Self { value, at }
    }

    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_object_of_the_same_name_starts_with_nothing() {
        let cache = ObjectCache::default();
        let name = ObjectName::new("n", "a");
        cache.put(&name, Some("1"), 7);
        assert_eq!(cache.get(&name, Some("1")), Some(7));
        assert_eq!(cache.get(&name, Some("2")), None);
        assert_eq!(cache.get(&name, None), None);
        let increment = |value: &mut i32| {
            *value += 1;
            *value
        };
        assert_eq!(cache.update(&name, Some("1"), increment), 8);
        assert_eq!(cache.update(&name, Some("2"), increment), 1);
        assert_eq!(cache.get(&name, Some("1")), None);
        cache.forget(&name);
        assert_eq!(cache.get(&name, Some("2")), None);
    }
}

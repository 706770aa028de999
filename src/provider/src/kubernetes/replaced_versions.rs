//! The versions of objects that this process has replaced by its own writes. The cache of a watch goes on showing such
//! a version until the event about the write arrives.

use std::collections::HashMap;

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

/// The number of objects that are remembered at the same time. Beyond it everything is forgotten, which only means that
/// a write in these moments may be compared with an old object.
const OBJECTS: usize = 10_000;
/// The number of versions that are remembered for each object.
const VERSIONS: usize = 16;

/// The replaced versions of each object, by its uid.
#[derive(Debug, Default)]
pub struct ReplacedVersions(Mutex<HashMap<String, Vec<String>>>);

impl ReplacedVersions {
    /// Whether this process has written the object since it had this version. A version that was not replaced shows
    /// that the cache has caught up.
    pub fn contains<K: Resource>(&self, object: &K) -> bool {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else {
            return false;
        };
        let mut objects = self.0.lock();
        let is_replaced = objects
            .get(&uid)
            .is_some_and(|versions| versions.contains(&version));
        if !is_replaced {
            objects.remove(&uid);
        }
        is_replaced
    }

    /// Notes that a write has replaced this version of the object.
    pub fn add<K: Resource>(&self, object: &K) {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else {
            return;
        };
        let mut objects = self.0.lock();
        if objects.len() >= OBJECTS && !objects.contains_key(&uid) {
            objects.clear();
        }
        let versions = objects.entry(uid).or_default();
        if versions.contains(&version) {
            return;
        }
        if versions.len() >= VERSIONS {
            versions.remove(0);
        }
        versions.push(version);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kube::core::ObjectMeta;

    use super::*;

    fn object(uid: &str, version: usize) -> Secret {
        Secret {
            metadata: ObjectMeta {
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_string()),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        }
    }

    #[test]
    fn a_version_counts_as_replaced_until_the_cache_shows_another_one() {
        let replaced = ReplacedVersions::default();
        assert!(!replaced.contains(&object("a", 1)));
        replaced.add(&object("a", 1));
        replaced.add(&object("a", 2));
        assert!(replaced.contains(&object("a", 1)));
        assert!(replaced.contains(&object("a", 2)));
        assert!(!replaced.contains(&object("b", 1)));
        assert!(!replaced.contains(&object("a", 3)));
        assert!(replaced.0.lock().is_empty());
        // An object without a resource version is never taken for a replaced one.
        replaced.add(&Secret::default());
        assert!(!replaced.contains(&Secret::default()));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let replaced = ReplacedVersions::default();
        for version in 0..=VERSIONS {
            replaced.add(&object("a", version));
        }
        assert!(!replaced.0.lock()["a"].contains(&"0".to_owned()));
        assert!(replaced.contains(&object("a", VERSIONS)));
        for uid in 0..OBJECTS {
            replaced.add(&object(&uid.to_string(), 1));
        }
        assert!(replaced.0.lock().len() <= OBJECTS);
    }
}

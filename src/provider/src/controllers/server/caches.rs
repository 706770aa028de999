//! What the server controller keeps between passes. Losing it costs a read, never an object.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Progress, creations::Doubts, ownership::Holders, server_group::ServerGroups};
use crate::reconcile::{
    ObjectCache, image_objects::ImageObjects, server_observation::Observations,
};
use capo_core::ObjectName;

/// How old a look-up of servers and ports by name may be before something is created under the name.
const NAMES_AGE: Duration = Duration::from_secs(5);

/// The caches of the server controller, one of each per process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::controllers) struct ServerCaches {
    /// The last read of each server.
    pub observations: Observations,
    /// Creations whose outcome is unknown.
    pub(super) doubts: Doubts,
    /// What the last pass wrote of a server that is not ready yet: the watch may not have shown it yet.
    pub(super) progress: ObjectCache<Progress>,
    /// When something of a name was last created or deleted.
    pub(super) changes: Changes,
    /// The servers that wait for an Image object.
    pub(in crate::controllers) images: ImageObjects,
    /// The objects in whose status the id of a server was seen.
    pub(in crate::controllers) holders: Holders,
    /// The managed server groups.
    pub(super) groups: ServerGroups,
}

impl ServerCaches {
    /// Forgets a server whose object is gone.
    pub(super) fn forget(&self, name: &ObjectName) {
        self.changes.note(&name.name);
        self.holders.forget(name);
        self.progress.forget(name);
        self.observations.forget(name);
        self.doubts.forget(name);
    }
}

/// When something was last created or deleted for objects of one name, in any namespace. What was read by name before
/// that is not used any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(Arc<Mutex<HashMap<String, Instant>>>);

impl Changes {
    /// Notes that something was created or deleted for objects of this name.
    pub(super) fn note(&self, name: &str) {
        let now = Instant::now();
        let mut changes = self.0.lock();
        changes.retain(|_, at| now.duration_since(*at) <= NAMES_AGE);
        changes.insert(name.to_owned(), now);
    }

    /// The moment since when a look-up by this name must have been sent.
    pub(super) fn oldest_look_up(&self, name: &str) -> Instant {
        let now = Instant::now();
        let oldest = now.checked_sub(NAMES_AGE).unwrap_or(now);
        let changed = self.0.lock().get(name).copied();
        changed.map_or(oldest, |changed| oldest.max(changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_up_by_name_is_not_older_than_the_last_change_under_it() {
        let changes = Changes::default();
        let before = Instant::now();
        assert!(changes.oldest_look_up("m1") <= before);
        changes.note("m1");
        assert!(changes.oldest_look_up("m1") >= before);
        assert!(changes.oldest_look_up("m2") < Instant::now());
    }
}

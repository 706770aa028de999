//! The caches that the server controller keeps between passes. If they are lost, reads are repeated, but no object is
//! lost.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Progress, ownership::ObjectsByServerId, server_group::ServerGroups};
use crate::reconcile::{
    ObjectCache, creations::UncertainCreations, image_objects::ImageObjects,
    server_observation::Observations,
};
use capo_core::ObjectName;

/// The maximum age of a lookup of servers and ports by name on which a creation under that name may be based.
const NAMES_AGE: Duration = Duration::from_secs(5);

/// The caches of the server controller. A process has one of each. A clone is cheap and shares the caches.
#[derive(Debug, Clone, Default)]
pub(in crate::controllers) struct ServerCaches {
    /// The last read of each server.
    pub observations: Observations,
    /// The creations whose result is unknown.
    pub(super) uncertain: UncertainCreations,
    /// What the last pass has written to the status of a server that is not ready yet. The watch may not have shown it
    /// yet.
    pub(super) progress: ObjectCache<Progress>,
    /// When an object of a name was last created or deleted in OpenStack.
    pub(super) changes: LastChanges,
    /// The servers that wait for an Image object of the OpenStack Resource Controller.
    pub(in crate::controllers) images: ImageObjects,
    /// The objects whose status has shown the id of a server.
    pub(in crate::controllers) objects_by_server_id: ObjectsByServerId,
    /// The managed server groups.
    pub(super) groups: ServerGroups,
}

impl ServerCaches {
    /// Forgets a server whose object is gone.
    pub(super) fn forget(&self, name: &ObjectName) {
        self.changes.note(&name.name);
        self.objects_by_server_id.forget(name);
        self.progress.forget(name);
        self.observations.forget(name);
        self.uncertain.forget(name);
    }
}

/// When something was last created or deleted in OpenStack for objects of a name, in any namespace. A lookup by name
/// that was made before that is not used any more.
#[derive(Debug, Clone, Default)]
pub(super) struct LastChanges(Arc<Mutex<HashMap<String, Instant>>>);

impl LastChanges {
    /// Records that something was created or deleted for objects of this name.
    pub(super) fn note(&self, name: &str) {
        let now = Instant::now();
        let mut changes = self.0.lock();
        changes.retain(|_, at| now.duration_since(*at) <= NAMES_AGE);
        changes.insert(name.to_owned(), now);
    }

    /// The earliest time at which a lookup by this name must have been sent to be used.
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
        let changes = LastChanges::default();
        let before = Instant::now();
        assert!(changes.oldest_look_up("m1") <= before);
        changes.note("m1");
        assert!(changes.oldest_look_up("m1") >= before);
        assert!(changes.oldest_look_up("m2") < Instant::now());
    }
}

//! How the pass of every controller begins.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{capi, finalizer};

/// What a pass does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The object is being deleted and does not have the finalizer of capo-rs, so this process forgets it.
    Gone,
    /// clusterctl moves the object to another management cluster, whose manager reconciles it.
    Moved,
    /// The object or its Cluster is paused.
    Paused,
    /// The object is being deleted.
    Delete,
    /// The pass makes OpenStack match the object.
    Apply,
}

impl Start {
    /// Decides from the metadata of an object. `ours` is the finalizer of capo-rs for its kind, and `is_paused` says
    /// whether a related object pauses it.
    pub(crate) fn of(metadata: &ObjectMeta, ours: &str, is_paused: bool) -> Self {
        let is_deleting = metadata.deletion_timestamp.is_some();
        if is_deleting && !finalizer::is_on(metadata, ours) {
            Self::Gone
        } else if capi::has_annotation(metadata, capi::DELETE_FOR_MOVE_ANNOTATION) {
            Self::Moved
        } else if is_paused || capi::has_annotation(metadata, capi::PAUSED_ANNOTATION) {
            Self::Paused
        } else if is_deleting {
            Self::Delete
        } else {
            Self::Apply
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn what_nothing_of_ours_holds_goes_first_and_a_pause_before_a_deletion() {
        let moved = capi::DELETE_FOR_MOVE_ANNOTATION;
        let paused = capi::PAUSED_ANNOTATION;
        for (deleting, finalizer, annotation, is_paused, expected) in [
            (false, false, "", false, Start::Apply),
            (false, true, "", false, Start::Apply),
            (false, true, "", true, Start::Paused),
            (false, true, paused, false, Start::Paused),
            (false, true, moved, true, Start::Moved),
            (true, true, "", false, Start::Delete),
            (true, true, paused, false, Start::Paused),
            (true, true, "", true, Start::Paused),
            (true, true, moved, false, Start::Moved),
            (true, false, "", false, Start::Gone),
            (true, false, paused, true, Start::Gone),
            (true, false, moved, false, Start::Gone),
        ] {
            let mut metadata = json!({"annotations": {annotation: ""}, "finalizers": ["theirs"]});
            if deleting {
                metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            if finalizer {
                metadata["finalizers"] = json!(["theirs", "ours"]);
            }
            let text = format!("{metadata} {is_paused}");
            let metadata: ObjectMeta = from_value(metadata).unwrap();
            assert_eq!(Start::of(&metadata, "ours", is_paused), expected, "{text}");
        }
    }
}

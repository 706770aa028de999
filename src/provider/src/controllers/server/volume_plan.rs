//! Decides what a pass does about the volumes that have the names of an object's volumes. The functions are pure.
//!
//! Names of volumes are not unique, so a volume of the name can be a user's. The description tells them apart: capo-rs
//! and CAPO give each volume that they create a description with the name of its server.

use capo_core::ids::{ServerId, VolumeId};
use capo_openstack::volume::{NewVolume, Volume, VolumeStatus};

/// What to do about one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VolumePlan {
    /// No volume that could belong to the object has the name.
    Create,
    /// This volume is ready to be attached. As with CAPO, it can also be one that a user has prepared.
    Attach(Box<Volume>),
    /// This volume is being created.
    Wait(Box<Volume>),
    /// The creation of this volume failed. It is deleted, and then a new one is created.
    Replace(Box<Volume>),
    /// This volume is in ERROR, and it was not created for the object.
    Unusable(VolumeId),
    /// This volume has another size, which is given in GiB.
    WrongSize(u32),
    /// Several volumes have the name.
    Ambiguous,
}

/// Decides what to do about the volumes `found` by their name. A volume that is attached to a server does not belong to
/// a server that is still to be created.
pub(super) fn volume_plan(mut found: Vec<Volume>, new: &NewVolume) -> VolumePlan {
    found.retain(|volume| volume.attachments.is_empty() && volume.status != VolumeStatus::Deleting);
    let (Some(volume), is_only) = (found.pop(), found.is_empty()) else {
        return VolumePlan::Create;
    };
    match volume.status {
        _ if !is_only => VolumePlan::Ambiguous,
        _ if volume.size != new.size => VolumePlan::WrongSize(volume.size),
        VolumeStatus::Available | VolumeStatus::Reserved => VolumePlan::Attach(Box::new(volume)),
        VolumeStatus::Error | VolumeStatus::ErrorDeleting
            if volume.description != new.description =>
        {
            VolumePlan::Unusable(volume.id)
        }
        VolumeStatus::Error | VolumeStatus::ErrorDeleting => VolumePlan::Replace(Box::new(volume)),
        _ => VolumePlan::Wait(Box::new(volume)),
    }
}

/// A volume that the spec of an object asks for, as far as it shows whether a volume was created for the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpecVolume {
    /// The name.
    pub name: String,
    /// The description that capo-rs and CAPO give it.
    pub description: String,
    /// The size in GiB.
    pub size: i64,
}

impl SpecVolume {
    /// Whether the volume, which has the name, was created for the object. The creation refuses one of another size, so
    /// that one is not the object's either.
    pub(super) fn is(&self, volume: &Volume) -> bool {
        volume.description == self.description && i64::from(volume.size) == self.size
    }
}

/// What a deletion does about a volume with one of the object's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeDeletionPlan {
    /// Nova deletes the volume, or it is attached to another server.
    Leave,
    /// The volume is not attached, and nothing shows that it was created for the object. It stays, and an event names
    /// it.
    Keep,
    /// The volume is being created or deleted.
    Await,
    /// The volume was created for the object and is not attached.
    Delete,
    /// More than one volume looks like the object's, so none of them is deleted.
    Ambiguous,
}

/// Decides what a deletion does about the volumes `found` by their name. The result has a plan for each of them.
/// `server` is the id of the server that the object had, if it ever had one. Nova deletes the volumes that are still
/// attached to that server or being detached from it; on clouds with soft deletion this happens only after days.
pub(super) fn volume_deletion_plans(
    found: &[Volume],
    wanted: &SpecVolume,
    server: Option<&ServerId>,
) -> Vec<VolumeDeletionPlan> {
    use VolumeDeletionPlan::{Ambiguous, Await, Delete};
    let plan = |volume| volume_deletion_plan(volume, wanted, server);
    let mut plans: Vec<VolumeDeletionPlan> = found.iter().map(plan).collect();
    let is_candidate = |(volume, plan): &(&Volume, &VolumeDeletionPlan)| {
        matches!(plan, Delete | Await) && volume.status != VolumeStatus::Deleting
    };
    if found.iter().zip(&plans).filter(is_candidate).count() > 1 {
        for plan in plans.iter_mut().filter(|plan| **plan == Delete) {
            *plan = Ambiguous;
        }
    }
    plans
}

fn volume_deletion_plan(
    volume: &Volume,
    wanted: &SpecVolume,
    server: Option<&ServerId>,
) -> VolumeDeletionPlan {
    let elsewhere = volume
        .attachments
        .iter()
        .any(|attachment| Some(&attachment.server_id) != server);
    match volume.status {
        _ if elsewhere => VolumeDeletionPlan::Leave,
        _ if !wanted.is(volume) => {
            let is_going = volume.status == VolumeStatus::Deleting;
            if is_going || !volume.attachments.is_empty() {
                VolumeDeletionPlan::Leave
            } else {
                VolumeDeletionPlan::Keep
            }
        }
        VolumeStatus::Available | VolumeStatus::Error | VolumeStatus::ErrorDeleting => {
            VolumeDeletionPlan::Delete
        }
        _ if server.is_some() => VolumeDeletionPlan::Leave,
        _ => VolumeDeletionPlan::Await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OURS: &str = "Root volume for m1";

    fn volume(status: &str, size: u32, attached_to: Option<&str>) -> Volume {
        let attachments: Vec<_> = attached_to
            .iter()
            .map(|server| json!({"server_id": server}))
            .collect();
        serde_json::from_value(
            json!({"id": "v", "name": "m1-root", "description": OURS, "status": status,
            "size": size, "attachments": attachments}),
        )
        .unwrap()
    }

    /// A volume that a user has created under the name.
    fn foreign(status: &str, size: u32, attached_to: Option<&str>) -> Volume {
        Volume {
            description: String::new(),
            ..volume(status, size, attached_to)
        }
    }

    #[test]
    fn a_volume_is_attached_when_it_is_ready_and_replaced_when_it_failed() {
        let new = NewVolume {
            size: 5,
            description: OURS.to_owned(),
            ..NewVolume::default()
        };
        let one = |status| Box::new(volume(status, 5, None));
        for (found, expected) in [
            (vec![], VolumePlan::Create),
            (vec![volume("in-use", 5, Some("1"))], VolumePlan::Create),
            (vec![volume("deleting", 5, None)], VolumePlan::Create),
            (
                vec![*one("available")],
                VolumePlan::Attach(one("available")),
            ),
            (
                vec![foreign("available", 5, None)],
                VolumePlan::Attach(Box::new(foreign("available", 5, None))),
            ),
            (vec![*one("reserved")], VolumePlan::Attach(one("reserved"))),
            (vec![*one("creating")], VolumePlan::Wait(one("creating"))),
            (
                vec![*one("downloading")],
                VolumePlan::Wait(one("downloading")),
            ),
            (vec![*one("error")], VolumePlan::Replace(one("error"))),
            (
                vec![foreign("error", 5, None)],
                VolumePlan::Unusable("v".into()),
            ),
            (
                vec![foreign("error_deleting", 5, None)],
                VolumePlan::Unusable("v".into()),
            ),
            (vec![volume("available", 6, None)], VolumePlan::WrongSize(6)),
            (
                vec![*one("available"), *one("available")],
                VolumePlan::Ambiguous,
            ),
        ] {
            assert_eq!(volume_plan(found.clone(), &new), expected, "{found:?}");
        }
    }

    fn plans(found: &[Volume], server: Option<&str>) -> Vec<VolumeDeletionPlan> {
        let wanted = SpecVolume {
            name: "m1-root".to_owned(),
            description: OURS.to_owned(),
            size: 5,
        };
        volume_deletion_plans(found, &wanted, server.map(ServerId::from).as_ref())
    }

    #[test]
    fn a_volume_is_waited_for_only_where_nova_does_not_delete_it() {
        use VolumeDeletionPlan::{Await, Delete, Leave};
        for (status, attached_to, server, expected) in [
            ("available", None, None, Delete),
            ("available", None, Some("1"), Delete),
            ("error", None, Some("1"), Delete),
            ("error_deleting", None, None, Delete),
            ("creating", None, None, Await),
            ("deleting", None, None, Await),
            // The server is soft-deleted, or its attachment is stale.
            ("in-use", Some("1"), Some("1"), Leave),
            ("detaching", Some("1"), Some("1"), Leave),
            ("deleting", None, Some("1"), Leave),
            // The volume is attached to another server.
            ("in-use", Some("2"), Some("1"), Leave),
            ("in-use", Some("2"), None, Leave),
        ] {
            let plans = plans(&[volume(status, 5, attached_to)], server);
            assert_eq!(plans, [expected], "{status} {attached_to:?} {server:?}");
        }
    }

    #[test]
    fn a_volume_that_was_not_created_for_the_object_is_never_deleted() {
        use VolumeDeletionPlan::{Keep, Leave};
        for (volume, server, expected) in [
            (foreign("available", 5, None), None, Keep),
            (foreign("available", 5, None), Some("1"), Keep),
            (foreign("error", 5, None), None, Keep),
            // The deletion does not wait for it.
            (foreign("creating", 5, None), None, Keep),
            (foreign("deleting", 5, None), None, Leave),
            // The server used it, so Nova deletes it.
            (foreign("detaching", 5, Some("1")), Some("1"), Leave),
            (foreign("in-use", 5, Some("2")), None, Leave),
            // The creation refused it because of its size.
            (self::volume("available", 6, None), None, Keep),
            (foreign("available", 6, None), None, Keep),
        ] {
            let plans = plans(std::slice::from_ref(&volume), server);
            assert_eq!(plans, [expected], "{volume:?} {server:?}");
        }
    }

    #[test]
    fn of_several_volumes_one_is_deleted_only_if_it_alone_looks_like_the_objects() {
        use VolumeDeletionPlan::{Ambiguous, Await, Delete, Keep, Leave};
        let ours = |status| volume(status, 5, None);
        for (found, expected) in [
            (
                [ours("available"), foreign("available", 5, None)],
                [Delete, Keep],
            ),
            (
                [ours("available"), volume("available", 6, None)],
                [Delete, Keep],
            ),
            ([ours("available"), ours("available")], [Ambiguous; 2]),
            ([ours("available"), ours("error")], [Ambiguous; 2]),
            ([ours("available"), ours("creating")], [Ambiguous, Await]),
            // The user has deleted one of them.
            ([ours("available"), ours("deleting")], [Delete, Await]),
            (
                [ours("available"), volume("in-use", 5, Some("2"))],
                [Delete, Leave],
            ),
        ] {
            assert_eq!(plans(&found, None), expected, "{found:?}");
        }
    }
}

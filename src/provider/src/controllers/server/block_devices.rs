//! A server's block devices: the root volume and the additional ones. Creating a volume takes many passes, because no
//! pass waits for it.

use std::time::Duration;

use super::{
    CONDITION, Creations, StepError, StepResult, ambiguous, failed, failure,
    volume_plan::{VolumePlan, volume_plan},
    wait,
};
use crate::kubernetes::events::CloudObject;
use capo_core::{
    FailureClass, Priority, Reason,
    ids::{ImageId, VolumeId},
};
use capo_openstack::{
    Cloud,
    compute::BlockDevice,
    volume::{NewVolume, Volume, VolumeStatus},
};

/// A disk of a server, in the order in which Nova gets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disk {
    /// The image on the hypervisor's local disk.
    Image { image_id: ImageId },
    /// A volume that capo-rs creates.
    Volume {
        new: NewVolume,
        boot: bool,
        tag: Option<String>,
    },
    /// An empty disk on the hypervisor.
    Local { size: u32, tag: String },
}

/// The block devices in the form of Nova's API, and whether one of them may be attached more than once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Attached {
    pub(super) devices: Vec<BlockDevice>,
    pub(super) multiattach: bool,
}

/// Finds or creates every volume. Returns `Ok` when all of them can be attached.
pub(super) async fn ensure(
    cloud: &Cloud,
    disks: &[Disk],
    creations: &Creations,
) -> StepResult<Attached> {
    let mut attached = Attached::default();
    let mut waiting = None;
    for disk in disks {
        match disk {
            Disk::Image { image_id } => attached.devices.push(BlockDevice {
                source_type: "image",
                destination_type: "local",
                uuid: Some(image_id.clone().into()),
                boot_index: 0,
                delete_on_termination: true,
                volume_size: None,
                tag: None,
            }),
            Disk::Local { size, tag } => attached.devices.push(BlockDevice {
                source_type: "blank",
                destination_type: "local",
                uuid: None,
                boot_index: -1,
                delete_on_termination: true,
                volume_size: Some(*size),
                tag: Some(tag.clone()),
            }),
            Disk::Volume { new, boot, tag } => {
                let plan = volume(cloud, new).await?;
                if plan != VolumePlan::Create {
                    creations.found(CloudObject::Volume, &new.name);
                }
                let volume = match plan {
                    VolumePlan::Attach(volume) => *volume,
                    VolumePlan::Wait(volume) => {
                        waiting = waiting.or(Some(volume.name.clone()));
                        *volume
                    }
                    VolumePlan::Create => {
                        let volume = create(cloud, new, creations).await?;
                        if volume.status != VolumeStatus::Available {
                            waiting = waiting.or(Some(volume.name.clone()));
                        }
                        volume
                    }
                    VolumePlan::Replace(volume) => return Err(replace(cloud, &volume).await),
                    VolumePlan::Unusable(id) => return Err(unusable(new, &id)),
                    VolumePlan::WrongSize(size) => return Err(wrong_size(new, size)),
                    VolumePlan::Ambiguous => {
                        return Err(ambiguous(format!(
                            "more than one volume is named {}; delete the ones that are not used",
                            new.name
                        )));
                    }
                };
                attached.multiattach |= volume.multiattach;
                attached.devices.push(BlockDevice {
                    source_type: "volume",
                    destination_type: "volume",
                    uuid: Some(volume.id.into()),
                    boot_index: if *boot { 0 } else { -1 },
                    delete_on_termination: true,
                    volume_size: None,
                    tag: tag.clone(),
                });
            }
        }
    }
    match waiting {
        None => Ok(attached),
        Some(name) => Err(wait(
            Reason::DependencyFailed,
            format!("The volume {name} is being created"),
            Duration::from_secs(2),
        )),
    }
}

/// Looks a volume up by its name and decides what to do about it.
async fn volume(cloud: &Cloud, new: &NewVolume) -> StepResult<VolumePlan> {
    let found = cloud
        .volumes(&new.name, Priority::Settling)
        .await
        .map_err(|error| failed(&error, Reason::OpenStackError))?;
    Ok(volume_plan(found, new))
}

async fn create(cloud: &Cloud, new: &NewVolume, creations: &Creations) -> StepResult<Volume> {
    creations
        .begin(CONDITION, CloudObject::Volume, &new.name)
        .await?;
    let answer = cloud.create_volume(new, Priority::Gate).await;
    let refused = Reason::InstanceCreateFailed;
    creations
        .end(CloudObject::Volume, &new.name, answer, |it| it.id.as_str())
        .map_err(|error| failed(&error, refused))
}

/// The error if a volume that may belong to someone else can't be attached.
fn unusable(new: &NewVolume, id: &VolumeId) -> StepError {
    ambiguous(format!(
        "the volume {id} named {} is in ERROR, and its description is not \"{}\", so it is assumed to belong to someone \
         else: it is neither used nor deleted. Delete it, or rename it",
        new.name, new.description
    ))
}

fn wrong_size(new: &NewVolume, size: u32) -> StepError {
    failure(
        FailureClass::Invalid,
        Reason::InvalidSpec,
        format!(
            "the volume {} exists with {size} GiB, wanted are {}",
            new.name, new.size
        ),
    )
}

/// Deletes a volume whose creation failed. The next pass creates a new one.
async fn replace(cloud: &Cloud, volume: &Volume) -> StepError {
    match cloud.delete_volume(&volume.id, Priority::Gate).await {
        Ok(()) => failure(
            FailureClass::Transient,
            Reason::InstanceCreateFailed,
            format!(
                "The volume {} ended in error and is being recreated",
                volume.name
            ),
        ),
        Err(error) => failed(&error, Reason::InstanceCreateFailed),
    }
}

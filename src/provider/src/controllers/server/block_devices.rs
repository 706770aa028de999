//! A server's block devices: the root volume and the additional ones. Creating a volume takes many passes, because no
//! pass waits for it.

use std::time::Duration;

use super::{
    StepError, StepResult, ambiguous,
    creations::Creations,
    failed, failure,
    plan::{VolumePlan, volume_plan},
    wait,
};
use crate::{kubernetes::events::CloudObject, reconcile::server_names};
use capo_api::{
    v1alpha1::OpenStackServerSpec,
    v1beta2::{BlockDeviceType, VolumeAvailabilityZone, VolumeAvailabilityZoneSource},
};
use capo_core::{FailureClass, Priority, Reason, ids::ImageId};
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

/// The disks that a spec asks for. The list is empty if Nova's default is sufficient, which is the image on a local
/// disk.
pub(super) fn disks(
    name: &str,
    spec: &OpenStackServerSpec,
    image_id: &ImageId,
) -> StepResult<Vec<Disk>> {
    let mut disks = Vec::new();
    if let Some(root) = &spec.root_volume {
        disks.push(Disk::Volume {
            new: NewVolume {
                name: server_names::root_volume(name),
                description: server_names::root_volume_description(name),
                size: size(root.size_gib, "spec.rootVolume.sizeGiB")?,
                volume_type: root.type_.clone().filter(|kind| !kind.is_empty()),
                availability_zone: zone(root.availability_zone.as_ref(), spec),
                image_id: Some(image_id.clone()),
            },
            boot: true,
            tag: None,
        });
    } else if !spec.additional_block_devices.is_empty() {
        disks.push(Disk::Image {
            image_id: image_id.clone(),
        });
    }
    for (index, device) in spec.additional_block_devices.iter().enumerate() {
        let field = format!("spec.additionalBlockDevices[{index}]");
        let size = size(device.size_gib, &format!("{field}.sizeGiB"))?;
        disks.push(match &device.storage.type_ {
            BlockDeviceType::Local => Disk::Local {
                size,
                tag: device.name.clone(),
            },
            BlockDeviceType::Volume => {
                let volume = device.storage.volume.as_ref();
                Disk::Volume {
                    new: NewVolume {
                        name: server_names::device_volume(name, &device.name),
                        description: server_names::device_volume_description(name),
                        size,
                        volume_type: volume
                            .and_then(|volume| volume.type_.clone())
                            .filter(|kind| !kind.is_empty()),
                        availability_zone: zone(
                            volume.and_then(|volume| volume.availability_zone.as_ref()),
                            spec,
                        ),
                        image_id: None,
                    },
                    boot: false,
                    tag: Some(device.name.clone()),
                }
            }
            BlockDeviceType::Unknown(other) => {
                return Err(failure(
                    FailureClass::Invalid,
                    Reason::InvalidSpec,
                    format!("{field}.storage.type: \"{other}\" is not one of Local, Volume"),
                ));
            }
        });
    }
    Ok(disks)
}

fn size(gib: i64, field: &str) -> StepResult<u32> {
    u32::try_from(gib)
        .ok()
        .filter(|gib| *gib > 0)
        .ok_or_else(|| {
            failure(
                FailureClass::Invalid,
                Reason::InvalidSpec,
                format!("{field}: {gib} is not 1 or more"),
            )
        })
}

fn zone(zone: Option<&VolumeAvailabilityZone>, spec: &OpenStackServerSpec) -> Option<String> {
    let zone = zone?;
    match zone.from {
        VolumeAvailabilityZoneSource::Machine => spec.availability_zone.clone(),
        _ => zone.name.clone(),
    }
    .filter(|name| !name.is_empty())
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
    creations.begin(CloudObject::Volume, &new.name).await?;
    let answer = cloud.create_volume(new, Priority::Gate).await;
    let refused = Reason::InstanceCreateFailed;
    creations.end(
        CloudObject::Volume,
        &new.name,
        answer,
        |it| it.id.as_str(),
        refused,
    )
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(spec: &Value) -> Vec<Disk> {
        let mut whole = json!({"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "flavorID": "f",
            "ports": [], "sshKeyName": "", "availabilityZone": "az1"});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        disks(
            "m1",
            &serde_json::from_value(whole).unwrap(),
            &"image".into(),
        )
        .unwrap()
    }

    #[test]
    fn an_image_alone_needs_no_device() {
        assert_eq!(plan(&json!({})), []);
    }

    #[test]
    fn a_root_volume_is_filled_from_the_image() {
        let disks = plan(
            &json!({"rootVolume": {"sizeGiB": 20, "type": "fast", "availabilityZone": {"from": "Machine"}}}),
        );
        assert_eq!(
            disks,
            [Disk::Volume {
                new: NewVolume {
                    name: "m1-root".to_owned(),
                    description: "Root volume for m1".to_owned(),
                    size: 20,
                    volume_type: Some("fast".to_owned()),
                    availability_zone: Some("az1".to_owned()),
                    image_id: Some("image".into()),
                },
                boot: true,
                tag: None,
            }]
        );
    }

    #[test]
    fn further_devices_come_after_an_explicit_image() {
        let disks = plan(&json!({"additionalBlockDevices": [
            {"name": "scratch", "sizeGiB": 5, "storage": {"type": "Local"}},
            {"name": "etcd", "sizeGiB": 7, "storage": {"type": "Volume", "volume": {"availabilityZone": {"name": "az9"}}}},
        ]}));
        let [
            Disk::Image { image_id },
            Disk::Local { size, tag },
            Disk::Volume {
                new,
                boot,
                tag: name,
            },
        ] = disks.as_slice()
        else {
            panic!("{disks:?}")
        };
        assert_eq!(
            (image_id.as_str(), *size, tag.as_str()),
            ("image", 5, "scratch")
        );
        assert_eq!((new.name.as_str(), new.size, *boot), ("m1-etcd", 7, false));
        assert_eq!(new.availability_zone.as_deref(), Some("az9"));
        assert_eq!(name.as_deref(), Some("etcd"));
    }
}

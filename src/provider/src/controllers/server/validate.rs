//! Checks the values of a server's spec and parses them into what the requests to OpenStack contain. The functions are
//! pure. Values that OpenStack checks itself are passed on as they are.

use super::{StepError, StepResult, block_devices::Disk, failure, filters};
use crate::reconcile::server_names;
use capo_api::{
    v1alpha1::OpenStackServerSpec,
    v1beta2::{
        BlockDeviceType, ResolvedPortSpec, ServerGroupParam, VolumeAvailabilityZone,
        VolumeAvailabilityZoneSource,
    },
};
use capo_core::{FailureClass, Reason, ids::ImageId};
use capo_openstack::{network::FixedIp, volume::NewVolume};

/// The server group that the spec names, unless capo-rs manages one for the server.
pub(super) fn server_group(spec: &OpenStackServerSpec) -> StepResult<Option<&ServerGroupParam>> {
    if spec.server_group.is_some() && spec.managed_server_group.is_some() {
        return Err(invalid(
            "spec.serverGroup and spec.managedServerGroup can't both be set",
        ));
    }
    Ok(spec.server_group.as_ref())
}

/// The fixed IPs of a port.
pub(super) fn fixed_ips(wanted: &ResolvedPortSpec) -> StepResult<Vec<FixedIp>> {
    wanted
        .fixed_ips
        .iter()
        .map(|fixed_ip| {
            let field = format!("the port {}, fixedIPs.ipAddress", wanted.name);
            Ok(FixedIp {
                subnet_id: fixed_ip.subnet.clone().map(Into::into),
                ip_address: filters::parsed(fixed_ip.ip_address.as_ref(), &field, "an IP address")?,
            })
        })
        .collect()
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
                return Err(invalid(format!(
                    "{field}.storage.type: \"{other}\" is not one of Local, Volume"
                )));
            }
        });
    }
    Ok(disks)
}

fn size(gib: i64, field: &str) -> StepResult<u32> {
    u32::try_from(gib)
        .ok()
        .filter(|gib| *gib > 0)
        .ok_or_else(|| invalid(format!("{field}: {gib} is not 1 or more")))
}

fn zone(zone: Option<&VolumeAvailabilityZone>, spec: &OpenStackServerSpec) -> Option<String> {
    let zone = zone?;
    match zone.from {
        VolumeAvailabilityZoneSource::Machine => spec.availability_zone.clone(),
        _ => zone.name.clone(),
    }
    .filter(|name| !name.is_empty())
}

fn invalid(message: impl Into<String>) -> StepError {
    failure(FailureClass::Invalid, Reason::InvalidSpec, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(more: &Value) -> OpenStackServerSpec {
        let mut whole = json!({"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "flavorID": "f",
            "ports": [], "sshKeyName": "", "availabilityZone": "az1"});
        for (key, value) in more.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    fn disks_of(more: &Value) -> Vec<Disk> {
        disks("m1", &spec(more), &"image".into()).unwrap()
    }

    #[test]
    fn values_that_cannot_be_used_are_named() {
        let refused = |result: StepResult<()>| result.unwrap_err().state.message;
        let disks = |more| refused(disks("m1", &spec(&more), &"image".into()).map(drop));
        assert_eq!(
            disks(json!({"rootVolume": {"sizeGiB": 0}})),
            "spec.rootVolume.sizeGiB: 0 is not 1 or more"
        );
        assert_eq!(
            disks(json!({"additionalBlockDevices": [
                {"name": "tape", "sizeGiB": 1, "storage": {"type": "Tape"}},
            ]})),
            "spec.additionalBlockDevices[0].storage.type: \"Tape\" is not one of Local, Volume"
        );
        let both = json!({"serverGroup": {"id": "g"}, "managedServerGroup": {"name": "m", "policy": "anti-affinity"}});
        assert_eq!(
            refused(server_group(&spec(&both)).map(drop)),
            "spec.serverGroup and spec.managedServerGroup can't both be set"
        );
    }

    #[test]
    fn an_image_alone_needs_no_device() {
        assert_eq!(disks_of(&json!({})), []);
    }

    #[test]
    fn a_root_volume_is_filled_from_the_image() {
        let disks = disks_of(
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
        let disks = disks_of(&json!({"additionalBlockDevices": [
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

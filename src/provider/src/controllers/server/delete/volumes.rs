//! The volumes of a deletion. Nova deletes attached volumes with their server, but not those of a server that was never
//! created. A volume that only has the name of one of the object's volumes stays, and an event names it.

use std::time::Instant;

use kube::Resource;

use super::{
    super::{
        IdsOfOthers, StepError, StepResult, ambiguous,
        creations::described,
        failed, instance,
        volume_plan::{SpecVolume, VolumeDeletionPlan, volume_deletion_plans},
    },
    Deletion, READ, waiting,
};
use crate::{kubernetes::events::CloudObject, reconcile::server_names};
use capo_api::{v1alpha1::OpenStackServerSpec, v1beta2::BlockDeviceType};
use capo_core::{FailureClass, Priority, Reason, ids::PortId};
use capo_openstack::{network::PortFilter, volume::Volume};

impl Deletion<'_> {
    /// Deletes the volumes that were created for the object.
    pub(super) async fn volumes(&self) -> StepResult<()> {
        let held_by_another = self.ids_of_others.hold_volumes_of(self.progress)
            && self.others_here().await?.hold_volumes_of(self.progress);
        let mut left = false;
        let mut kept = Vec::new();
        for wanted in spec_volumes(&self.owner.name, &self.object.spec) {
            let found = match self.cloud.volumes(&wanted.name, READ).await {
                Ok(found) => found,
                // A cloud without block storage has no volumes.
                Err(error) if error.class() == FailureClass::NoService => Vec::new(),
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            };
            let what = described(CloudObject::Volume, &wanted.name);
            if found.iter().any(|volume| wanted.is(volume)) {
                self.found(&what);
            } else {
                self.ensure_certain(&what)?;
            }
            let plans = volume_deletion_plans(&found, &wanted, self.progress.instance_id.as_ref());
            if plans.contains(&VolumeDeletionPlan::Ambiguous) && !held_by_another {
                return Err(several(&wanted, &found, &plans));
            }
            for (volume, plan) in found.into_iter().zip(plans) {
                match plan {
                    VolumeDeletionPlan::Leave => {}
                    VolumeDeletionPlan::Await if held_by_another => {}
                    VolumeDeletionPlan::Keep => kept.push(volume),
                    _ if held_by_another => kept.push(volume),
                    VolumeDeletionPlan::Await | VolumeDeletionPlan::Ambiguous => left = true,
                    VolumeDeletionPlan::Delete => {
                        left = true;
                        let id = volume.id.as_str();
                        let answer = self.cloud.delete_volume(&volume.id, Priority::Gate).await;
                        self.deleted(CloudObject::Volume, &volume.name, id, answer)?;
                    }
                }
            }
        }
        if left {
            return Err(waiting("The server's volumes are being deleted"));
        }
        for volume in kept {
            self.report_kept(&volume);
        }
        Ok(())
    }

    /// The servers and ports of other objects of this name that are in this project. Objects in another project have
    /// other volumes.
    async fn others_here(&self) -> StepResult<IdsOfOthers> {
        let servers = instance::named(self.cloud, &self.owner.name, Instant::now()).await?;
        let ids: Vec<PortId> = self.ids_of_others.ports.keys().cloned().collect();
        let mut ports = Vec::new();
        if !ids.is_empty() {
            let filter = PortFilter {
                ids,
                project_id: Some(self.project.clone()),
                ..PortFilter::default()
            };
            ports = self
                .cloud
                .ports(&filter, READ)
                .await
                .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
        }
        let ports: Vec<PortId> = ports.into_iter().map(|port| port.id).collect();
        Ok(self.ids_of_others.among(&servers, &ports))
    }

    /// Publishes that a volume with the name of one of the object's volumes stays.
    fn report_kept(&self, volume: &Volume) {
        let (name, id) = (&volume.name, &volume.id);
        tracing::warn!(
            name,
            id = id.as_str(),
            "A volume of the server's name stays"
        );
        let note = format!(
            "The volume {name} with id {id} is not deleted: its description or its size shows that it was not created for \
             this object, or another object of this name has it. Delete it if nobody needs it",
        );
        let about = self.object.object_ref(&());
        let events = &self.context.events;
        events.warning(&about, Reason::AmbiguousMatch, "Delete", &note);
    }
}

/// The error if more than one volume looks like one that was created for the object.
fn several(wanted: &SpecVolume, found: &[Volume], plans: &[VolumeDeletionPlan]) -> StepError {
    let ids: Vec<&str> = found
        .iter()
        .zip(plans)
        .filter(|(_, plan)| {
            matches!(
                plan,
                VolumeDeletionPlan::Ambiguous | VolumeDeletionPlan::Await
            )
        })
        .map(|(volume, _)| volume.id.as_str())
        .take(5)
        .collect();
    ambiguous(format!(
        "more than one unused volume is named {} and described as \"{}\" ({}), so none is deleted; delete those that nobody \
         needs, and rename one that is to stay",
        wanted.name,
        wanted.description,
        ids.join(", ")
    ))
}

/// The volumes that the spec asks for.
fn spec_volumes(server: &str, spec: &OpenStackServerSpec) -> Vec<SpecVolume> {
    let root = spec.root_volume.iter().map(|root| SpecVolume {
        name: server_names::root_volume(server),
        description: server_names::root_volume_description(server),
        size: root.size_gib,
    });
    let devices = spec
        .additional_block_devices
        .iter()
        .filter(|device| device.storage.type_ == BlockDeviceType::Volume)
        .map(|device| SpecVolume {
            name: server_names::device_volume(server, &device.name),
            description: server_names::device_volume_description(server),
            size: device.size_gib,
        });
    root.chain(devices).collect()
}

//! The ports of a deletion, with their trunks and sub-ports.

use super::{
    super::{
        StepResult, ambiguous,
        creations::described,
        failed,
        plan::{PortName, ports_to_look_up},
    },
    Deletion, Leftover, READ, waiting,
};
use crate::{
    kubernetes::events::{CloudObject, Verb},
    reconcile::server_names,
};
use capo_core::{
    Priority, Reason,
    ids::{PortId, ServerId},
};
use capo_openstack::network::{Port, PortFilter};

impl Deletion<'_> {
    /// Deletes the ports with their trunks.
    pub(super) async fn ports(&self, leftover: &mut Leftover) -> StepResult<()> {
        let left = self.leftover_ports().await?;
        // The ports are recorded, so that the next pass finds them by their ids.
        let ids: Vec<PortId> = left.iter().map(|port| port.id.clone()).collect();
        leftover.ports.extend(self.unrecorded(ids.iter()));
        for port in &left {
            self.found(&described(CloudObject::Port, &port.name));
            self.delete_port(port, leftover).await?;
        }
        if !left.is_empty() && !self.ports_of_ids(ids).await?.is_empty() {
            return Err(waiting("The server's ports are being deleted"));
        }
        for (name, _) in self.port_names() {
            let what = described(CloudObject::Port, &name);
            self.ensure_certain(&what)?;
        }
        Ok(())
    }

    /// The ports that still exist. Those of the spec come first, because the other ones belong to their trunks.
    async fn leftover_ports(&self) -> StepResult<Vec<Port>> {
        let recorded = &self.progress.port_ids;
        let mut left = Vec::new();
        if !recorded.is_empty() {
            left = self.ports_of_ids(recorded.clone()).await?;
        }
        let names = self.port_names();
        let is_uncertain = |name: &str| {
            let what = described(CloudObject::Port, name);
            self.ensure_certain(&what).is_err()
        };
        for (name, network_id) in ports_to_look_up(&names, recorded.len(), &left, is_uncertain) {
            let filter = PortFilter {
                name: Some(name.clone()),
                project_id: Some(self.project.clone()),
                network_id: network_id.clone().map(Into::into),
                ..PortFilter::default()
            };
            let found = self.list_ports(&filter).await?;
            if found.len() > 1 {
                return Err(ambiguous(format!(
                    "more than one unused port is named {name}; delete the ones that are not used"
                )));
            }
            left.extend(found);
        }
        left.sort_by_key(|port| !names.iter().any(|(name, _)| *name == port.name));
        Ok(left)
    }

    /// The ports with these ids.
    async fn ports_of_ids(&self, ids: Vec<PortId>) -> StepResult<Vec<Port>> {
        self.list_ports(&PortFilter {
            ids,
            project_id: Some(self.project.clone()),
            ..PortFilter::default()
        })
        .await
    }

    /// The ids that the status does not contain yet.
    fn unrecorded<'a>(&self, ids: impl Iterator<Item = &'a PortId>) -> Vec<PortId> {
        let recorded = &self.progress.port_ids;
        ids.filter(|id| !recorded.contains(id)).cloned().collect()
    }

    /// The ports that no other server uses and no other object has.
    async fn list_ports(&self, filter: &PortFilter) -> StepResult<Vec<Port>> {
        let mut found = self
            .cloud
            .ports(filter, READ)
            .await
            .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
        let server = self.progress.instance_id.as_ref();
        let server = server.map(ServerId::as_str);
        found.retain(|port| {
            (port.device_id.is_empty() || Some(port.device_id.as_str()) == server)
                && self.ids_of_others.port(&port.id).is_none()
        });
        Ok(found)
    }

    fn port_names(&self) -> Vec<PortName> {
        if let Some(resolved) = &self.progress.resolved {
            return resolved
                .ports
                .iter()
                .map(|port| (port.name.clone(), Some(port.network_id.clone())))
                .collect();
        }
        self.object
            .spec
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| {
                let name = server_names::port(&self.owner.name, port.name_suffix.as_deref(), index);
                let network_id = port.network.as_ref().and_then(|network| network.id.clone());
                (name, network_id)
            })
            .collect()
    }

    async fn delete_port(&self, port: &Port, leftover: &mut Leftover) -> StepResult<()> {
        let trunks = match self.cloud.trunks(&port.id, READ).await {
            Ok(trunks) => trunks,
            // A cloud without the trunk extension has no trunks.
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
        };
        for trunk in trunks {
            let new = self.unrecorded(trunk.sub_ports.iter().map(|it| &it.port_id));
            if !new.is_empty() {
                leftover.ports.extend(new);
                // The sub-ports are recorded first, because nothing else shows that they belonged to the trunk once
                // they are removed from it.
                return Err(waiting(
                    "The trunk's sub-ports are recorded before they are deleted",
                ));
            }
            if !trunk.sub_ports.is_empty() {
                let removed = self
                    .cloud
                    .remove_sub_ports(&trunk.id, &trunk.sub_ports, Priority::Gate)
                    .await;
                let (verb, object) = (Verb::Update, CloudObject::Trunk);
                self.removed(verb, object, &trunk.name, trunk.id.as_str(), removed)?;
                for sub_port in &trunk.sub_ports {
                    let id = &sub_port.port_id;
                    let answer = self.cloud.delete_port(id, Priority::Gate).await;
                    self.deleted(CloudObject::Port, "", id.as_str(), answer)?;
                }
            }
            let answer = self.cloud.delete_trunk(&trunk.id, Priority::Gate).await;
            self.deleted(CloudObject::Trunk, &trunk.name, trunk.id.as_str(), answer)?;
        }
        let answer = self.cloud.delete_abandoned_port(port, Priority::Gate).await;
        self.deleted(CloudObject::Port, &port.name, port.id.as_str(), answer)
    }
}

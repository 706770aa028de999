//! Deletes a server and everything that was created for it: the server, then trunks and ports, then volumes. The
//! deletion is complete when a lookup of each of them found none.

use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

use super::{
    CONDITION, IdsOfOthers, Progress, StepError, StepResult, ambiguous,
    creations::described,
    failed, instance,
    ownership::can_be_its_server,
    plan::{
        ServerDeletionPlan, VolumeDeletionPlan, server_deletion_plan, several_servers,
        volume_deletion_plan,
    },
    server_state, wait,
};
use crate::{
    controllers::{Context, project_match::ProjectMatch},
    kubernetes::events::{CloudObject, Verb},
    reconcile::server_names,
};
use capo_api::{
    v1alpha1::{OpenStackServer, OpenStackServerSpec},
    v1beta2::BlockDeviceType,
};
use capo_core::ids::{PortId, ProjectId, ServerId};
use capo_core::{FailureClass, Priority};
use capo_core::{ObjectName, Reason};
use capo_gate::desired::ServerState;
use capo_openstack::{
    Cloud, Error,
    compute::{Server, ServerStatus, TaskState},
    network::{Port, PortFilter},
};

const READ: Priority = Priority::Settling;

/// One pass of a deletion.
pub(super) struct Deletion<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials. Objects of other projects are never deleted.
    pub project: &'a ProjectId,
    /// Whether that project is the cluster's.
    pub project_match: ProjectMatch,
    /// The object.
    pub object: &'a OpenStackServer,
    /// Its name.
    pub owner: &'a ObjectName,
    /// The ids of servers and ports that other objects have.
    pub ids_of_others: &'a IdsOfOthers,
    /// What is known of the object's OpenStack objects.
    pub progress: &'a Progress,
    /// The state that all passes share. Reads of servers are stored there, and it decides the gate of a machine's
    /// server.
    pub context: &'a Context,
}

/// The objects that a deletion has found.
#[derive(Debug, Default)]
pub(super) struct Leftover {
    /// The server, if it still exists.
    pub server: Option<Server>,
    /// Whether the machine controller waits for what was read.
    pub enqueue_machine: bool,
    /// The sub-ports of its trunks that the status does not contain yet.
    pub sub_ports: Vec<PortId>,
}

impl Deletion<'_> {
    /// Makes one step of the deletion. Returns `Ok` when nothing is left.
    pub(super) async fn step(&self, leftover: &mut Leftover) -> StepResult<()> {
        if self.project_match == ProjectMatch::Elsewhere {
            return Err(wait(
                Reason::Deleting,
                "The credentials belong to another project than the cluster's, so nothing is deleted",
                Duration::from_secs(10),
            ));
        }
        self.server(leftover).await?;
        self.ports(leftover).await?;
        self.volumes().await?;
        self.server_group().await
    }

    async fn server(&self, leftover: &mut Leftover) -> StepResult<()> {
        let read_at = Instant::now();
        let found = self.find_server().await?;
        let observations = &self.context.servers.observations;
        let before = observations.get(self.owner, None);
        let absent = match self.project_match {
            ProjectMatch::Own => ServerState::Absent,
            ProjectMatch::OwnCredentials | ProjectMatch::Elsewhere | ProjectMatch::Unknown => {
                ServerState::Other
            }
        };
        let state = found.as_ref().map_or(absent, server_state::state);
        let addresses = found.as_ref().map(server_state::addresses);
        leftover.enqueue_machine = observations.record(self.owner, state, addresses, read_at);
        let Some(server) = found else {
            if self.project_match == ProjectMatch::Unknown {
                return Err(wait(
                    Reason::Deleting,
                    "The server was not found, and it is not known yet whether the credentials lead to the cluster's project; \
                     its absence counts as soon as that is known",
                    Duration::from_secs(2),
                ));
            }
            let what = described(CloudObject::Server, &self.owner.name);
            self.ensure_certain(&what)?;
            // A second read has to confirm the absence, because a single 404 may come from a proxy in front of Nova.
            if self.was_begun() && before.is_none_or(|before| before.found) {
                return Err(waiting(
                    "Nova reported no server once; a second read has to confirm this",
                ));
            }
            return Ok(());
        };
        let under_way = matches!(
            server.task_state,
            Some(TaskState::Deleting | TaskState::SoftDeleting)
        );
        let id = server.id.clone();
        leftover.server = Some(server);
        self.found(&described(CloudObject::Server, &self.owner.name));
        if !under_way {
            self.ensure_server_may_be_deleted().await?;
            let answer = self.cloud.delete_server(&id, Priority::Gate).await;
            self.deleted(CloudObject::Server, &self.owner.name, id.as_str(), answer)?;
        }
        Err(waiting("The server is being deleted"))
    }

    /// Reports the result of a deletion. An object that did not exist counts as deleted.
    pub(super) fn deleted(
        &self,
        object: CloudObject,
        name: &str,
        id: &str,
        answer: Result<(), Error>,
    ) -> StepResult<()> {
        self.removed(Verb::Delete, object, name, id, answer)
    }

    fn removed(
        &self,
        verb: Verb,
        object: CloudObject,
        name: &str,
        id: &str,
        answer: Result<(), Error>,
    ) -> StepResult<()> {
        let about = self.object.object_ref(&());
        self.context
            .events
            .removed(&about, (verb, object), name, id, answer)
            .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))
    }

    /// Records that an object was found, so that its creation is not uncertain any more.
    pub(super) fn found(&self, what: &str) {
        self.context.servers.uncertain.end(self.owner, what);
    }

    /// Returns a wait while the creation of an object that was not found may still be carried out.
    pub(super) fn ensure_certain(&self, what: &str) -> StepResult<()> {
        let uncertain = &self.context.servers.uncertain;
        uncertain.check(CONDITION, self.owner, what)
    }

    /// Whether something may have been created for the object. Its names are resolved before any creation.
    fn was_begun(&self) -> bool {
        self.progress.resolved.is_some() || self.progress.instance_id.is_some()
    }

    /// Returns `Ok` if the server may be deleted. The server of a machine may be deleted only after its load balancer
    /// members.
    async fn ensure_server_may_be_deleted(&self) -> StepResult<()> {
        let owners = self.object.owner_references();
        if !owners.iter().any(|owner| owner.kind == "OpenStackMachine") {
            return Ok(());
        }
        (self.context.ensure_server_may_be_deleted)(self.owner, self.context).await
    }

    async fn find_server(&self) -> StepResult<Option<Server>> {
        // The deletion needs two separate reads that find no server, so this pass does not use the read of another
        // pass.
        let now = Instant::now();
        let id = if let Some(id) = &self.progress.instance_id {
            id.clone()
        } else {
            let found = instance::named(self.cloud, &self.owner.name, now).await?;
            match server_deletion_plan(found, self.ids_of_others, self.was_begun()) {
                ServerDeletionPlan::Nothing => return Ok(None),
                ServerDeletionPlan::Delete(id) => {
                    let project = self.project;
                    if !self.was_begun()
                        && !can_be_its_server(self.object, self.cloud, project, &id).await?
                    {
                        return Ok(None);
                    }
                    id
                }
                ServerDeletionPlan::Ambiguous => {
                    return Err(several_servers(&self.owner.name));
                }
            }
        };
        let found = match self.cloud.shared_reads().server(&id, now, READ).await {
            Ok(read) => Some(read.value),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
        };
        Ok(found.filter(|server| {
            !matches!(
                server.status,
                ServerStatus::Deleted | ServerStatus::SoftDeleted
            )
        }))
    }

    async fn ports(&self, leftover: &mut Leftover) -> StepResult<()> {
        let left = self.leftover_ports().await?;
        for port in &left {
            self.found(&described(CloudObject::Port, &port.name));
            self.delete_port(port, leftover).await?;
        }
        if !left.is_empty() && !self.leftover_ports().await?.is_empty() {
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
        let mut left = Vec::new();
        if !self.progress.port_ids.is_empty() {
            let filter = PortFilter {
                ids: self.progress.port_ids.clone(),
                ..PortFilter::default()
            };
            left = self.list_ports(&filter).await?;
        }
        for (name, network_id) in self.port_names() {
            if left.iter().any(|port| port.name == name) {
                continue;
            }
            let filter = PortFilter {
                name: Some(name.clone()),
                project_id: Some(self.project.clone()),
                network_id: network_id.map(Into::into),
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
        let names = self.port_names();
        left.sort_by_key(|port| !names.iter().any(|(name, _)| *name == port.name));
        Ok(left)
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

    fn port_names(&self) -> Vec<(String, Option<String>)> {
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
            let recorded = &self.progress.port_ids;
            let sub_ports = trunk.sub_ports.iter().map(|it| it.port_id.clone());
            leftover
                .sub_ports
                .extend(sub_ports.filter(|id| !recorded.contains(id)));
            if !leftover.sub_ports.is_empty() {
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

    /// Deletes the volumes. Nova deletes attached volumes with their server, but not those of a server that was never
    /// created.
    async fn volumes(&self) -> StepResult<()> {
        if self.progress.instance_id.is_none() && self.ids_of_others.has_servers() {
            // The volumes of these names belong to the object of the same name in another namespace.
            return Ok(());
        }
        let mut left = false;
        for name in volume_names(&self.owner.name, &self.object.spec) {
            let found = match self.cloud.volumes(&name, READ).await {
                Ok(found) => found,
                // A cloud without block storage has no volumes.
                Err(error) if error.class() == FailureClass::NoService => Vec::new(),
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            };
            let what = described(CloudObject::Volume, &name);
            if found.is_empty() {
                self.ensure_certain(&what)?;
            }
            for volume in found {
                self.found(&what);
                match volume_deletion_plan(&volume, self.progress.instance_id.as_ref()) {
                    VolumeDeletionPlan::Leave => {}
                    VolumeDeletionPlan::Await => left = true,
                    VolumeDeletionPlan::Delete => {
                        left = true;
                        let answer = self.cloud.delete_volume(&volume.id, Priority::Gate).await;
                        self.deleted(CloudObject::Volume, &name, volume.id.as_str(), answer)?;
                    }
                }
            }
        }
        if left {
            Err(waiting("The server's volumes are being deleted"))
        } else {
            Ok(())
        }
    }
}

fn volume_names(server: &str, spec: &OpenStackServerSpec) -> Vec<String> {
    let root = spec
        .root_volume
        .iter()
        .map(|_| server_names::root_volume(server));
    let devices = spec
        .additional_block_devices
        .iter()
        .filter(|device| device.storage.type_ == BlockDeviceType::Volume)
        .map(|device| server_names::device_volume(server, &device.name));
    root.chain(devices).collect()
}

fn waiting(message: &str) -> StepError {
    wait(Reason::Deleting, message, Duration::from_secs(1))
}

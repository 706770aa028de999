//! Deletes a server and everything that was created for it: the server, then trunks and ports, then volumes. The
//! deletion is complete when a lookup of each of them found none.

mod ports;
mod volumes;

use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

use super::{
    CONDITION, IdsOfOthers, Progress, StepError, StepResult,
    creations::described,
    failed, instance,
    ownership::can_be_its_server,
    plan::{ServerDeletionPlan, server_deletion_plan, several_servers},
    server_state, wait,
};
use crate::{
    controllers::{Context, project_match::ProjectMatch},
    kubernetes::events::{CloudObject, Verb},
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::Priority;
use capo_core::ids::{PortId, ProjectId};
use capo_core::{ObjectName, Reason};
use capo_gate::desired::ServerState;
use capo_openstack::{
    Cloud, Error,
    compute::{Server, ServerStatus, TaskState},
};

const READ: Priority = Priority::Settling;

/// One pass of a deletion.
pub(super) struct Deletion<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials. Ports, and whatever is found by its name, of other projects are never deleted. A
    /// server whose id is known, and the sub-ports of a trunk, are deleted by their ids without a look at their
    /// project.
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
    /// The ports that the status does not contain yet: those that were found by their names, and the sub-ports of the
    /// trunks.
    pub ports: Vec<PortId>,
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
}

fn waiting(message: &str) -> StepError {
    wait(Reason::Deleting, message, Duration::from_secs(1))
}

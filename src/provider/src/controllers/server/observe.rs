//! What a pass reads: the ids that other objects have, the credentials, the server and its ports.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    IdsOfOthers, StepError, StepResult, creations, failed, pass::Pass, server_state, wait,
};
use crate::controllers::{
    Outcome,
    identity::{self, Identity},
    project_match::is_verified,
};
use crate::{
    kubernetes::conditions::kind,
    reconcile::{name_of, server_names},
    subject::Subject,
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{
    ConditionState, ObjectName, Priority, Reason,
    ids::{ProjectId, ServerId},
};
use capo_gate::desired::ServerState;
use capo_openstack::{Cloud, Read, compute::Server, network::PortFilter};

impl Pass<'_> {
    /// The ids of servers and ports that other objects of the same name have.
    pub(super) fn ids_of_others(&self) -> IdsOfOthers {
        let others = self.context.stores.openstack_servers.state_filter(|other| {
            other.metadata.name.as_ref() == Some(&self.name.name)
                && other.metadata.namespace.as_ref() != Some(&self.name.namespace)
        });
        let named: Vec<(ObjectName, Arc<OpenStackServer>)> = others
            .into_iter()
            .map(|other| (name_of(&*other), other))
            .collect();
        IdsOfOthers::of(named.iter().map(|(name, other)| (name, other.as_ref())))
    }

    pub(super) async fn identity(&mut self) -> StepResult<Identity> {
        let subject = Subject::new("OpenStackServer", &self.name);
        let found =
            identity::identity(self.context, &subject, &self.object.spec.identity_ref).await;
        match found {
            Ok(identity) => {
                self.authentication = Some(ConditionState::met(Reason::Ready));
                Ok(identity)
            }
            Err(error) => {
                self.authentication = Some(error.state.clone());
                Err(error.shown_by(kind::INSTANCE_READY))
            }
        }
    }

    /// The earliest time at which a read of the server must have been sent to be used, and the priority of a new read.
    pub(super) fn freshness(&self, cloud: &Cloud) -> (Instant, Priority) {
        let observations = &self.context.servers.observations;
        if let Some(since) = observations.read_requested_at(&self.name) {
            return (since, Priority::Gate);
        }
        let is_ready = self.object.status.as_ref().is_some_and(|it| it.ready);
        let age = match observations.has_changed(&self.name, self.request_hash()) {
            // The server is read at once, because a user who changes the object expects that.
            Some(true) => Duration::ZERO,
            Some(false) if is_ready => self.context.settings.sync_period / 2,
            _ => server_state::waiting_age(cloud),
        };
        let priority = if is_ready {
            Priority::Steady
        } else {
            Priority::Settling
        };
        let now = Instant::now();
        (now.checked_sub(age).unwrap_or(now), priority)
    }

    /// Whether the server was created so recently that a read would show nothing new. Writing the status after the
    /// creation starts a pass at once.
    pub(super) fn was_just_created(&self, cloud: &Cloud) -> bool {
        let servers = &self.context.servers;
        let changed = servers.changes.oldest_look_up(&self.name.name);
        servers.observations.get(&self.name, None).is_none()
            && changed.elapsed() < server_state::first_read_after(cloud)
    }

    /// Reads the server by its known id.
    pub(super) async fn read_server(
        &mut self,
        identity: &Identity,
        id: &ServerId,
    ) -> StepResult<()> {
        let (oldest, priority) = self.freshness(&identity.cloud);
        let shared = identity.cloud.shared_reads();
        match shared.server(id, oldest, priority).await {
            Ok(read) => {
                self.record_server(read.value, read.sent_at);
                self.ended()
            }
            Err(error) if error.is_not_found() => {
                self.lost = true;
                self.enqueue_machine = self.context.servers.observations.record(
                    &self.name,
                    self.absent_in(&identity.project),
                    None,
                    oldest,
                );
                Err(StepError::of(kind::INSTANCE_READY, server_state::lost(id)))
            }
            Err(error) => Err(failed(&error, Reason::OpenStackError)),
        }
    }

    /// The state of a server that does not exist in a project. In another project than the cluster's, its absence says
    /// nothing.
    pub(super) fn absent_in(&self, project: &ProjectId) -> ServerState {
        let is_elsewhere = self
            .cluster()
            .is_some_and(|cluster| !is_verified(self.context, &cluster, project));
        if is_elsewhere {
            ServerState::Other
        } else {
            ServerState::Absent
        }
    }

    /// Reads a server that a lookup by name has found.
    pub(super) async fn read_found(
        &self,
        cloud: &Cloud,
        id: &ServerId,
        oldest: Instant,
    ) -> StepResult<Read<Server>> {
        let shared = cloud.shared_reads();
        match shared.server(id, oldest, Priority::Settling).await {
            Ok(read) => Ok(read),
            Err(error) if error.is_not_found() => Err(wait(
                Reason::InstanceNotReady,
                format!(
                    "The server {id} named {} is listed and can't be read; it is looked for once more",
                    self.name.name
                ),
                Duration::from_secs(2),
            )),
            Err(error) => Err(failed(&error, Reason::OpenStackError)),
        }
    }

    pub(super) fn record_server(&mut self, server: Server, read_at: Instant) {
        self.progress.instance_id = Some(server.id.clone());
        self.enqueue_machine = self.context.servers.observations.record(
            &self.name,
            server_state::state(&server),
            Some(server_state::addresses(&server)),
            read_at,
        );
        self.server = Some(server);
    }

    pub(super) fn ended(&self) -> StepResult<()> {
        match self.server.as_ref().map(server_state::outcome) {
            None | Some(Outcome::Done) => Ok(()),
            Some(outcome) => Err(StepError::of(kind::INSTANCE_READY, outcome)),
        }
    }

    /// Finds the ports of an existing server, in the order of the spec.
    pub(super) async fn find_ports(
        &mut self,
        identity: &Identity,
        server: &ServerId,
    ) -> StepResult<()> {
        let filter = PortFilter {
            device_id: Some(server.to_string()),
            project_id: Some(identity.project.clone()),
            ..PortFilter::default()
        };
        let found = identity
            .cloud
            .ports(&filter, Priority::Settling)
            .await
            .map_err(|error| failed(&error, Reason::OpenStackError))?;
        let ports = self.object.spec.ports.iter().enumerate();
        let names = ports.map(|(index, port)| {
            server_names::port(&self.name.name, port.name_suffix.as_deref(), index)
        });
        let port = |name: String| found.iter().find(|port| port.name == name);
        self.progress.port_ids = names.filter_map(port).map(|port| port.id.clone()).collect();
        Ok(())
    }

    /// A hash of everything in the object that a user can change.
    pub(super) fn request_hash(&self) -> u64 {
        let metadata = &self.object.metadata;
        let mut hasher = DefaultHasher::new();
        (metadata.generation, &metadata.labels).hash(&mut hasher);
        for annotation in metadata.annotations.iter().flatten() {
            // The controller writes this annotation itself.
            if annotation.0 != creations::ANNOTATION {
                annotation.hash(&mut hasher);
            }
        }
        metadata.deletion_timestamp.is_some().hash(&mut hasher);
        hasher.finish()
    }
}

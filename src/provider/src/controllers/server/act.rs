//! The changes that a pass makes: it adds the finalizer, records the ids of the objects that the spec names, and
//! creates ports, volumes and the server.

use super::{
    CONDITION, Creations, IdsOfOthers, StepResult, block_devices,
    creations::described,
    instance,
    pass::Pass,
    ports::{Extensions, Ports},
    resolve::Resolver,
    server_group,
    server_state::being_built,
    validate,
};
use crate::{
    controllers::{Outcome, identity::Identity},
    kubernetes::events::CloudObject,
    reconcile::server_observation::PortAddress,
};
use capo_core::Reason;
use capo_openstack::{Read, compute::Server};

impl Pass<'_> {
    /// Looks up the objects that the spec names, once, and records their ids in the status before anything is created.
    pub(super) async fn resolve(&mut self, identity: &Identity) -> StepResult<()> {
        if self.progress.resolved.is_some() {
            return Ok(());
        }
        let resolver = Resolver {
            cloud: &identity.cloud,
            project: &identity.project,
            client: &self.context.client,
            images: &self.context.servers.images,
            namespace: &self.name.namespace,
            name: &self.name.name,
            cluster: self.cluster_name(),
            spec: &self.object.spec,
        };
        self.progress.resolved = Some(resolver.resolve().await?);
        let outcome = Outcome::wait(
            Reason::InstanceNotReady,
            "The server is being created",
            std::time::Duration::from_secs(2),
        );
        self.write(false, &outcome).await
    }

    /// Adopts an existing server that has the object's name, with its ports. This is needed after an answer or the
    /// status was lost.
    pub(super) async fn adopt(
        &mut self,
        identity: &Identity,
        found: Read<Server>,
    ) -> StepResult<()> {
        if self.progress.port_ids.is_empty() {
            self.find_ports(identity, &found.value.id).await?;
        }
        let uncertain = &self.context.servers.uncertain;
        uncertain.end(&self.name, &described(CloudObject::Server, &self.name.name));
        tracing::info!(instance = %found.value.id, "Adopting the server of this name");
        self.record_server(found.value, found.sent_at);
        self.ended()
    }

    /// Creates ports, volumes and the server, as far as that is possible in this pass.
    pub(super) async fn create(
        &mut self,
        identity: &Identity,
        ids_of_others: &IdsOfOthers,
    ) -> StepResult<()> {
        let creations = self.creations();
        let ended = self.create_all(identity, ids_of_others, &creations).await;
        let recorded = creations.record(CONDITION).await;
        creations.take_written(&mut self.object, &self.context.replaced);
        ended?;
        recorded?;
        Err(being_built(&identity.cloud))
    }

    pub(super) fn creations(&self) -> Creations {
        let api = self.context.api(&self.name.namespace);
        let uncertain = &self.context.servers.uncertain;
        Creations::new(api, &self.object, uncertain, &self.context.events)
    }

    async fn create_all(
        &mut self,
        identity: &Identity,
        ids_of_others: &IdsOfOthers,
        creations: &Creations,
    ) -> StepResult<()> {
        let cloud = &identity.cloud;
        let mut resolved = self.progress.resolved.clone().unwrap_or_default();
        let changes = self.context.servers.changes.clone();
        let disks = validate::disks(
            &self.name.name,
            &self.object.spec,
            &resolved.image_id.clone().unwrap_or_default().into(),
        )?;
        let user_data = instance::user_data(
            &self.context.client,
            &self.name.namespace,
            &self.object.spec,
        )
        .await?;
        let extensions = Extensions::of(cloud).await?;
        let owner = self.name.clone();
        let ports = Ports {
            cloud,
            project: &identity.project,
            owner: &owner,
            ids_of_others,
            changes: &changes,
            server_id: None,
        };
        let mut port_ids = Vec::with_capacity(resolved.ports.len());
        let mut addresses = Vec::new();
        for port in &resolved.ports {
            let port = ports.ensure(port, extensions, creations).await?;
            addresses.extend(PortAddress::all_of(&port));
            port_ids.push(port.id);
            self.progress.port_ids.clone_from(&port_ids);
        }
        let attached = block_devices::ensure(cloud, &disks, creations).await?;
        if let Some(group) = &self.object.spec.managed_server_group {
            let id = server_group::ensure(self.context, identity, group, creations).await?;
            resolved.server_group_id = Some(id.into());
            self.progress.resolved = Some(resolved.clone());
        }
        let new = instance::request(
            &owner.name,
            &self.object.spec,
            &resolved,
            &port_ids,
            attached,
            user_data,
        );
        let made = instance::create(cloud, &new, creations).await;
        changes.note(&owner.name);
        if let (Err(_), Some(group)) = (&made, &self.object.spec.managed_server_group) {
            // The creation of the server may have failed because a user deleted the group, so the group is looked up
            // again.
            let key = server_group::GroupKey::new(cloud, &identity.project, &group.name);
            self.context.servers.groups.forget(&key);
        }
        let id = made?;
        cloud.shared_reads().expect_server(&id);
        self.progress.instance_id = Some(id);
        // The load balancer members of a control-plane machine are created while its server is being built, so the
        // addresses of its ports are noted already.
        let observations = &self.context.servers.observations;
        observations.expect(&self.name, addresses);
        self.enqueue_machine = true;
        Ok(())
    }
}

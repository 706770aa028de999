//! Carries out what a machine needs: its `OpenStackServer`, which is created once and kept owned and in credentials, its
//! finalizer, its provider id, and the deletion hooks of its Machine.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    FINALIZER, StepError, StepResult, kubernetes_failed, plan,
    reconcile::{Pass, WATCHED, waiting},
};
use crate::{
    controllers::capi::{self, CLUSTER_NAME_LABEL, Machine},
    kubernetes::{conditions::kind, patch::is_conflict},
    reconcile::{
        deletion_hooks::{self, HookChange},
        provider_id, server_spec,
    },
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine, OpenStackMachineSpec},
};
use capo_core::{Reason, ids::ServerId};

impl Pass<'_> {
    /// Creates what the machine needs, and carries out what the gates decided.
    pub(super) async fn make(&mut self) -> StepResult<()> {
        let Some(machine) = self.related.machine.clone() else {
            return Err(waiting(Reason::WaitingForOwner, &self.without_owner()));
        };
        self.keep_hook(&machine).await?;
        if !self.related.owned {
            return Err(waiting(
                Reason::WaitingForOwner,
                &format!(
                    "Waiting for Cluster API to make Machine {} the owner",
                    machine.name_any()
                ),
            ));
        }
        let Some(cluster) = self.cluster_with_infrastructure() else {
            return Err(waiting(
                Reason::WaitingForClusterInfrastructure,
                "Waiting for the Cluster's infrastructure",
            ));
        };
        let server = match self.related.server.clone() {
            Some(server) => {
                self.keep_finalizer().await?;
                server
            }
            None => self.make_server(&machine, &cluster).await?,
        };
        // Neither of the two steps depends on the other one.
        let identified = self.set_provider_id(&server).await;
        let updated = self.update_server_object(&server, &cluster).await;
        let passed_on = self.pass_on_address_pairs(&server).await;
        identified?;
        let admission = plan::admission(&self.gate_inputs());
        self.provisioned |= admission.is_ok();
        updated?;
        passed_on?;
        if server.metadata.deletion_timestamp.is_some() {
            return Err(waiting(
                Reason::InstanceDeleted,
                "The OpenStackServer of this machine is being deleted",
            ));
        }
        admission.map_err(|hold| {
            let pause = self
                .until_warning()
                .map_or(WATCHED, |left| left.min(WATCHED));
            StepError::wait(kind::READY, hold.reason, hold.message, pause)
        })
    }

    /// Puts our hooks on the Machine or removes them, as the release gate decided.
    pub(super) async fn keep_hook(&self, machine: &Machine) -> StepResult<()> {
        if !self.floating_ip_gates().is_known() && !self.related.is_cluster_deleting() {
            return Ok(());
        }
        let api = self.context.api::<Machine>(&self.name.namespace);
        let change = plan::hook(&self.gate_inputs());
        let may = || {
            let is_released = matches!(change, HookChange::Release(_));
            self.may_open_gates() && (!is_released || self.may_act_on(|gates| &gates.release))
        };
        match deletion_hooks::apply(&api, machine, change, may).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(StepError::wait(
                kind::READY,
                Reason::WaitingForOwner,
                "The Machine is changing; its deletion hooks are set in a moment",
                Duration::from_secs(1),
            )),
            Err(error) => Err(kubernetes_failed(
                "Changing the deletion hooks of the Machine",
                &error,
            )),
        }
    }

    /// Adds the finalizer. Not before the owner reference is there, which Cluster API writes last.
    pub(super) async fn keep_finalizer(&mut self) -> StepResult<()> {
        self.context
            .set_finalizer(&mut self.object, FINALIZER, true)
            .await
            .map_err(|error| kubernetes_failed("Adding the finalizer", &error))
    }

    /// The cluster, once machines may be made for it.
    fn cluster_with_infrastructure(&self) -> Option<Arc<OpenStackCluster>> {
        let provisioned = self
            .related
            .cluster
            .as_ref()?
            .status
            .initialization
            .infrastructure_provisioned;
        let cluster = self.related.openstack_cluster.clone()?;
        provisioned.then_some(cluster)
    }

    fn without_owner(&self) -> String {
        match capi::owner(self.object.meta(), "Machine") {
            None => "Waiting for Cluster API to set the owner reference".to_owned(),
            Some(owner) => format!(
                "Its owner in metadata.ownerReferences, Machine {} with the uid {}, does not exist",
                owner.name, owner.uid
            ),
        }
    }

    /// Makes the server's object.
    pub(super) async fn make_server(
        &mut self,
        machine: &Machine,
        cluster: &OpenStackCluster,
    ) -> StepResult<Arc<OpenStackServer>> {
        if machine.spec.bootstrap.data_secret_name.is_none() {
            return Err(waiting(
                Reason::WaitingForBootstrapData,
                "Waiting for the bootstrap data secret",
            ));
        }
        let network = cluster
            .status
            .as_ref()
            .and_then(|status| status.network.as_ref());
        if needs_cluster_network(&self.object.spec)
            && network.and_then(|network| network.id.as_ref()).is_none()
        {
            return Err(waiting(
                Reason::WaitingForClusterInfrastructure,
                "Waiting for the cluster's network to be known",
            ));
        }
        self.keep_finalizer().await?;
        let wanted = self.server_object(machine, cluster);
        let servers = self.context.api::<OpenStackServer>(&self.name.namespace);
        match servers.create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                tracing::info!("Creating the OpenStackServer");
                Ok(Arc::new(made))
            }
            // The watch has not shown it yet.
            Err(error) if is_conflict(&error) => match servers.get_opt(&self.name.name).await {
                Ok(Some(found)) => Ok(Arc::new(found)),
                Ok(None) => Err(waiting(
                    Reason::InstanceNotReady,
                    "Waiting for the OpenStackServer",
                )),
                Err(error) => Err(kubernetes_failed("Reading the OpenStackServer", &error)),
            },
            Err(error) => Err(kubernetes_failed("Creating the OpenStackServer", &error)),
        }
    }

    fn server_object(&self, machine: &Machine, cluster: &OpenStackCluster) -> OpenStackServer {
        let inputs = server_spec::ServerInputs::of_machine(
            &self.object.spec,
            cluster,
            machine,
            self.related.control_plane,
        );
        let spec = server_spec::server_spec(&self.object.spec, inputs);
        let mut server = OpenStackServer::new(&self.name.name, spec);
        server.metadata.namespace = Some(self.name.namespace.clone());
        let labels = server.metadata.labels.get_or_insert_default();
        labels.insert(
            CLUSTER_NAME_LABEL.to_owned(),
            machine.spec.cluster_name.clone(),
        );
        // A manager that reconciles only a part of all objects must see this one too.
        if let Some(filter) = self.object.labels().get(capi::WATCH_FILTER_LABEL) {
            labels.insert(capi::WATCH_FILTER_LABEL.to_owned(), filter.clone());
        }
        server.metadata.owner_references = Some(vec![self.owner_reference()]);
        server
    }

    fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: OpenStackMachine::api_version(&()).into_owned(),
            kind: OpenStackMachine::kind(&()).into_owned(),
            name: self.name.name.clone(),
            uid: self.object.uid().unwrap_or_default(),
            block_owner_deletion: None,
            controller: None,
        }
    }

    /// Updates what may change in a server's object after its creation: its owner and its credentials.
    pub(super) async fn update_server_object(
        &self,
        server: &OpenStackServer,
        cluster: &OpenStackCluster,
    ) -> StepResult<()> {
        let mut patch = serde_json::Map::new();
        let uid = self.object.uid().unwrap_or_default();
        let mut owners = server.metadata.owner_references.clone().unwrap_or_default();
        if !owners.iter().any(|owner| owner.uid == uid) {
            owners.retain(|owner| owner.kind != "OpenStackMachine");
            owners.push(self.owner_reference());
            patch.insert(
                "metadata".to_owned(),
                json!({
                    "resourceVersion": server.resource_version(),
                    "ownerReferences": owners,
                }),
            );
        }
        let identity = server_spec::identity(&self.object.spec, cluster);
        if let Some(identity) = server_spec::identity_to_set(&server.spec.identity_ref, identity) {
            patch.insert("spec".to_owned(), json!({ "identityRef": identity }));
        }
        if patch.is_empty() || server.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        let patch = Patch::Merge(serde_json::Value::Object(patch));
        match api
            .patch(&self.name.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => Err(kubernetes_failed("Updating the OpenStackServer", &error)),
        }
    }

    /// Sets `spec.providerID` as soon as the server exists: a deletion finds its Node by it. One that names
    /// this server already is never rewritten, whatever its region.
    pub(super) async fn set_provider_id(&mut self, server: &OpenStackServer) -> StepResult<()> {
        let status = server.status.as_ref();
        let Some(id) = status.and_then(|status| status.instance_id.clone()) else {
            return Ok(());
        };
        let Some(wanted) = provider_id_to_set(&self.object.spec, &id.into()) else {
            return Ok(());
        };
        let api = self.context.api::<OpenStackMachine>(&self.name.namespace);
        let patch = Patch::Merge(json!({
            "metadata": { "uid": self.object.uid() },
            "spec": { "providerID": wanted },
        }));
        match api
            .patch(&self.name.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(written) => {
                self.object = written;
                Ok(())
            }
            Err(error) => Err(kubernetes_failed("Setting spec.providerID", &error)),
        }
    }
}

/// The provider id that a machine with the server `id` lacks.
fn provider_id_to_set(spec: &OpenStackMachineSpec, id: &ServerId) -> Option<String> {
    let present = spec.provider_id.as_deref();
    if present.and_then(provider_id::server_id).as_ref() == Some(id) {
        return None;
    }
    let identity = spec.identity_ref.as_ref();
    let region = identity.and_then(|identity| identity.region.as_deref());
    Some(provider_id::provider_id(region, id))
}

/// Whether a machine needs the cluster's network: for ports that name none.
fn needs_cluster_network(spec: &OpenStackMachineSpec) -> bool {
    spec.ports.is_empty() || spec.ports.iter().any(|port| port.network.is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(more: &Value) -> OpenStackMachineSpec {
        let mut spec = json!({"image": {"id": "i"}, "flavor": {"id": "f"}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_provider_id_that_names_the_server_is_never_rewritten() {
        let own = json!({"name": "n", "cloudName": "c", "region": "R2"});
        for (more, expected) in [
            (json!({}), Some("openstack:///42")),
            (
                json!({"identityRef": own.clone()}),
                Some("openstack://R2/42"),
            ),
            (json!({"providerID": "openstack:///42"}), None),
            (json!({"providerID": "openstack://R1/42"}), None),
            (
                json!({"providerID": "openstack:///42", "identityRef": own}),
                None,
            ),
            (
                json!({"providerID": "openstack:///41"}),
                Some("openstack:///42"),
            ),
            (json!({"providerID": ""}), Some("openstack:///42")),
        ] {
            assert_eq!(
                provider_id_to_set(&spec(&more), &"42".into()).as_deref(),
                expected,
                "{more}"
            );
        }
    }

    #[test]
    fn only_ports_without_a_network_need_the_clusters() {
        let port = json!({"network": {"id": "n"}});
        for (ports, expected) in [
            (json!([]), true),
            (json!([{}]), true),
            (json!([port.clone(), {}]), true),
            (json!([port]), false),
        ] {
            let spec = spec(&json!({"ports": ports}));
            assert_eq!(needs_cluster_network(&spec), expected, "{ports}");
        }
    }
}

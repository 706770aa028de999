//! The `OpenStackServer` of a machine. It is created once; after that its owner reference and its credentials are kept
//! up to date.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    StepResult, kubernetes_failed,
    pass::{Pass, waiting},
};
use crate::{
    controllers::capi::{self, CLUSTER_NAME_LABEL, Machine},
    kubernetes::patch::is_conflict,
    reconcile::server_spec,
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{IdentityRef, OpenStackCluster, OpenStackMachine, OpenStackMachineSpec},
};
use capo_core::Reason;

/// What to do about the `OpenStackServer` of a machine.
#[derive(Debug, Clone)]
enum ServerObjectPlan {
    /// The object exists.
    Use(Arc<OpenStackServer>),
    /// The Machine does not name its bootstrap data yet.
    AwaitBootstrapData,
    /// A port should be in the cluster's network, whose id is not known yet.
    AwaitNetwork,
    /// The object does not exist, and everything that it needs is known.
    Create,
}

/// Decides what to do about the `OpenStackServer` that the watch shows.
fn plan(
    found: Option<&Arc<OpenStackServer>>,
    machine: &Machine,
    spec: &OpenStackMachineSpec,
    cluster: &OpenStackCluster,
) -> ServerObjectPlan {
    if let Some(server) = found {
        return ServerObjectPlan::Use(Arc::clone(server));
    }
    if machine.spec.bootstrap.data_secret_name.is_none() {
        return ServerObjectPlan::AwaitBootstrapData;
    }
    let status = cluster.status.as_ref();
    let network = status.and_then(|status| status.network.as_ref()?.id.as_ref());
    if needs_cluster_network(spec) && network.is_none() {
        return ServerObjectPlan::AwaitNetwork;
    }
    ServerObjectPlan::Create
}

/// Whether a machine needs the cluster's network, which is the case if a port names no network.
fn needs_cluster_network(spec: &OpenStackMachineSpec) -> bool {
    spec.ports.is_empty() || spec.ports.iter().any(|port| port.network.is_none())
}

/// Returns the merge patch that makes this machine an owner of an `OpenStackServer` and gives it this identity. `None`
/// means that nothing has to be changed, or that the object is being deleted.
fn update(
    server: &OpenStackServer,
    owner: &OwnerReference,
    identity: &IdentityRef,
) -> Option<Value> {
    let mut patch = serde_json::Map::new();
    let mut owners = server.metadata.owner_references.clone().unwrap_or_default();
    if !owners.iter().any(|present| present.uid == owner.uid) {
        owners.retain(|present| present.kind != "OpenStackMachine");
        owners.push(owner.clone());
        patch.insert(
            "metadata".to_owned(),
            json!({
                "resourceVersion": server.resource_version(),
                "ownerReferences": owners,
            }),
        );
    }
    if let Some(identity) = server_spec::identity_to_set(&server.spec.identity_ref, identity) {
        patch.insert("spec".to_owned(), json!({ "identityRef": identity }));
    }
    let is_left_alone = patch.is_empty() || server.metadata.deletion_timestamp.is_some();
    (!is_left_alone).then_some(Value::Object(patch))
}

impl Pass<'_> {
    /// Returns the `OpenStackServer` of the machine, after creating it if necessary.
    pub(super) async fn ensure_server_object(
        &mut self,
        machine: &Machine,
        cluster: &OpenStackCluster,
    ) -> StepResult<Arc<OpenStackServer>> {
        let found = self.related.server.as_ref();
        match plan(found, machine, &self.object.spec, cluster) {
            ServerObjectPlan::Use(server) => {
                self.keep_finalizer().await?;
                Ok(server)
            }
            ServerObjectPlan::AwaitBootstrapData => Err(waiting(
                Reason::WaitingForBootstrapData,
                "Waiting for the bootstrap data secret",
            )),
            ServerObjectPlan::AwaitNetwork => Err(waiting(
                Reason::WaitingForClusterInfrastructure,
                "Waiting for the cluster's network to be known",
            )),
            ServerObjectPlan::Create => {
                self.keep_finalizer().await?;
                self.create_server_object(machine, cluster).await
            }
        }
    }

    async fn create_server_object(
        &self,
        machine: &Machine,
        cluster: &OpenStackCluster,
    ) -> StepResult<Arc<OpenStackServer>> {
        let wanted = self.server_object(machine, cluster);
        let servers = self.context.api::<OpenStackServer>(&self.name.namespace);
        match servers.create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                tracing::info!("Creating the OpenStackServer");
                Ok(Arc::new(made))
            }
            // The object exists already, but the watch has not shown it yet.
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
        // The label is copied, because a manager with `--watch-filter` must see this object too.
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

    /// Updates what may change in an `OpenStackServer` after its creation: its owner reference and its credentials.
    pub(super) async fn update_server_object(
        &self,
        server: &OpenStackServer,
        cluster: &OpenStackCluster,
    ) -> StepResult<()> {
        let identity = server_spec::identity(&self.object.spec, cluster);
        let Some(patch) = update(server, &self.owner_reference(), identity) else {
            return Ok(());
        };
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        api.patch(
            &self.name.name,
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .map(drop)
        .map_err(|error| kubernetes_failed("Updating the OpenStackServer", &error))
    }
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use super::*;

    fn spec(ports: &Value) -> OpenStackMachineSpec {
        let spec = json!({"image": {"id": "i"}, "flavor": {"id": "f"}, "ports": ports});
        serde_json::from_value(spec).unwrap()
    }

    fn server(metadata: &Value) -> OpenStackServer {
        let identity = json!({"name": "c", "cloudName": "c", "region": "R1"});
        let spec =
            json!({"identityRef": identity, "image": {"id": "i"}, "ports": [], "sshKeyName": ""});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_server_is_made_once_with_bootstrap_data_and_a_network_for_its_ports() {
        use ServerObjectPlan::{AwaitBootstrapData, AwaitNetwork, Create, Use};
        let found = Arc::new(server(&json!({"name": "m1"})));
        let (without, own) = (json!([]), json!([{"network": {"id": "n"}}]));
        for (found, data, network, ports, expected) in [
            (Some(&found), None, None, &without, Use(found.clone())),
            (None, None, Some("n"), &without, AwaitBootstrapData),
            (None, Some("d"), None, &without, AwaitNetwork),
            (None, Some("d"), None, &own, Create),
            (None, Some("d"), Some("n"), &without, Create),
        ] {
            let mut machine = Machine::default();
            machine.spec.bootstrap.data_secret_name = data.map(str::to_owned);
            let cluster: OpenStackCluster = serde_json::from_value(json!({
                "metadata": {"name": "c"},
                "spec": {"identityRef": {"name": "c", "cloudName": "c"}},
                "status": {"network": {"id": network}},
            }))
            .unwrap();
            let plan = plan(found, &machine, &spec(ports), &cluster);
            assert_eq!(discriminant(&plan), discriminant(&expected), "{plan:?}");
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
            assert_eq!(needs_cluster_network(&spec(&ports)), expected, "{ports}");
        }
    }

    #[test]
    fn a_server_changes_its_owner_and_its_credentials_and_nothing_else() {
        let owner = |kind: &str, uid: &str| json!({"apiVersion": "v", "kind": kind, "name": "m1", "uid": uid});
        let (ours, other) = (owner("OpenStackMachine", "1"), owner("Other", "2"));
        let stale = owner("OpenStackMachine", "0");
        let ours_alone = json!({"name": "m1", "ownerReferences": [ours]});
        let lost = json!({"name": "m1", "resourceVersion": "7", "ownerReferences": [stale, other]});
        let mut deleted = lost.clone();
        deleted["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let found_again =
            json!({"metadata": {"resourceVersion": "7", "ownerReferences": [other, ours]}});
        let identity = json!({"type": "Secret", "name": "c2", "cloudName": "c", "region": "R1"});
        let new_credentials = json!({"spec": {"identityRef": identity}});
        for (metadata, credentials, region, expected) in [
            (&ours_alone, "c", "R1", None),
            // The region never changes, because what exists in one region is not found in another.
            (&ours_alone, "c", "R2", None),
            (&ours_alone, "c2", "R2", Some(new_credentials)),
            (&lost, "c", "R1", Some(found_again)),
            (&deleted, "c2", "R1", None),
        ] {
            let identity = json!({"name": credentials, "cloudName": "c", "region": region});
            let identity: IdentityRef = serde_json::from_value(identity).unwrap();
            let owner: OwnerReference = serde_json::from_value(ours.clone()).unwrap();
            let patch = update(&server(metadata), &owner, &identity);
            assert_eq!(patch, expected, "{metadata} {identity:?}");
        }
    }
}

//! Creates and deletes the bastion's `OpenStackServer`, and keeps its owner reference and its credentials up to date.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use super::Bastion;
use crate::kubernetes::conditions::kind::BASTION_READY;
use crate::{
    controllers::{
        capi::{CLUSTER_NAME_LABEL, WATCH_FILTER_LABEL},
        cluster::pass::Pass,
    },
    kubernetes::patch::{is_conflict, is_not_found},
    reconcile::{StepError, StepResult, server_spec::identity_to_set},
};
use capo_api::{
    v1alpha1::{OpenStackServer, OpenStackServerSpec},
    v1beta2::OpenStackCluster,
};

impl Bastion {
    /// Creates the server object.
    pub(super) async fn create(
        &self,
        pass: &Pass<'_>,
        spec: OpenStackServerSpec,
    ) -> StepResult<()> {
        let mut server = OpenStackServer::new(&self.name, spec);
        server.metadata.namespace = Some(pass.name.namespace.clone());
        let labels = server.metadata.labels.get_or_insert_default();
        let cluster = pass.related.cluster_name.clone();
        labels.insert(CLUSTER_NAME_LABEL.to_owned(), cluster);
        // The label is copied, because a manager with `--watch-filter` must see this object too.
        if let Some(filter) = pass.object.labels().get(WATCH_FILTER_LABEL) {
            labels.insert(WATCH_FILTER_LABEL.to_owned(), filter.clone());
        }
        server.metadata.owner_references = Some(vec![owner_reference(pass)]);
        let servers = pass.context.api::<OpenStackServer>(&pass.name.namespace);
        match servers.create(&PostParams::default(), &server).await {
            Ok(_) => Ok(()),
            // The object exists already. The next pass sees it.
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error) => {
                let doing = format!("Creating OpenStackServer {}", self.name);
                Err(StepError::kubernetes(BASTION_READY, &doing, &error))
            }
        }
    }

    /// Deletes the `OpenStackServer` that was read, and not a later one of the same name.
    pub(super) async fn delete(&self, pass: &Pass<'_>) -> StepResult<()> {
        let servers = pass.context.api::<OpenStackServer>(&pass.name.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: self.found.as_ref().and_then(ResourceExt::uid),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match servers.delete(&self.name, &params).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
            Err(error) => {
                let doing = format!("Deleting OpenStackServer {}", self.name);
                Err(StepError::kubernetes(BASTION_READY, &doing, &error))
            }
        }
    }

    /// Updates what may change in the server object: its owner, and the credentials.
    pub(super) async fn update_server_object(
        &self,
        pass: &Pass<'_>,
        server: &OpenStackServer,
    ) -> StepResult<()> {
        let mut patch = serde_json::Map::new();
        let owner = owner_reference(pass);
        let mut owners = server.owner_references().to_vec();
        if !owners.iter().any(|known| known.uid == owner.uid) {
            owners.retain(|known| known.kind != owner.kind);
            owners.push(owner);
            let metadata = json!({
                "resourceVersion": server.resource_version(),
                "ownerReferences": owners,
            });
            patch.insert("metadata".to_owned(), metadata);
        }
        let identity = &pass.object.spec.identity_ref;
        if let Some(identity) = identity_to_set(&server.spec.identity_ref, identity) {
            patch.insert("spec".to_owned(), json!({ "identityRef": identity }));
        }
        if patch.is_empty() {
            return Ok(());
        }
        let servers = pass.context.api::<OpenStackServer>(&pass.name.namespace);
        let patch = Patch::Merge(serde_json::Value::Object(patch));
        match servers
            .patch(&self.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => {
                let doing = format!("Updating OpenStackServer {}", self.name);
                Err(StepError::kubernetes(BASTION_READY, &doing, &error))
            }
        }
    }
}

fn owner_reference(pass: &Pass<'_>) -> OwnerReference {
    OwnerReference {
        api_version: OpenStackCluster::api_version(&()).into_owned(),
        kind: OpenStackCluster::kind(&()).into_owned(),
        name: pass.name.name.clone(),
        uid: pass.object.uid().unwrap_or_default(),
        block_owner_deletion: None,
        controller: None,
    }
}

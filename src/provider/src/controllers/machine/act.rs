//! Carries out what a machine needs: its `OpenStackServer` ([`server_object`](super::server_object)), its finalizer,
//! its provider id, and the deletion hooks of its Machine.

use std::{sync::Arc, time::Duration};

use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    FINALIZER, StepError, StepResult, kubernetes_failed,
    pass::{Pass, WATCHED, waiting},
    plan,
};
use crate::{
    controllers::capi::{self, Machine},
    kubernetes::conditions::kind,
    reconcile::{
        deletion_hooks::{self, HookChange},
        provider_id,
    },
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine, OpenStackMachineSpec},
};
use capo_core::{Reason, ids::ServerId};

impl Pass<'_> {
    /// Creates what the machine needs, and carries out what the gates decided.
    pub(super) async fn apply(&mut self) -> StepResult<()> {
        let Some(machine) = self.related.machine.clone() else {
            return Err(waiting(Reason::WaitingForOwner, &self.without_owner()));
        };
        self.update_hooks(&machine).await?;
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
        let server = self.ensure_server_object(&machine, &cluster).await?;
        // None of these three steps depends on another one, so a failure of one does not keep the others from being
        // tried.
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

    /// Adds the deletion hooks to the Machine or removes them, as the release gate decided.
    pub(super) async fn update_hooks(&self, machine: &Machine) -> StepResult<()> {
        if !self.floating_ip_gates().is_known() && !self.related.is_cluster_deleting_or_absent() {
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
                "The Machine is changing; its deletion hooks are set in the next pass",
                Duration::from_secs(1),
            )),
            Err(error) => Err(kubernetes_failed(
                "Changing the deletion hooks of the Machine",
                &error,
            )),
        }
    }

    /// Adds the finalizer. The caller waits for the owner reference first, which Cluster API writes last.
    pub(super) async fn keep_finalizer(&mut self) -> StepResult<()> {
        self.context
            .set_finalizer(&mut self.object, FINALIZER, true)
            .await
            .map_err(|error| kubernetes_failed("Adding the finalizer", &error))
    }

    /// The `OpenStackCluster`, if Cluster API has noted that its infrastructure is provisioned, so that machines may be
    /// created.
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
                "Machine {} with UID {}, the owner in metadata.ownerReferences, does not exist",
                owner.name, owner.uid
            ),
        }
    }

    /// Sets `spec.providerID` as soon as the server exists, because Cluster API finds the Node by it during a deletion.
    /// A provider id that names this server already is never rewritten, whatever its region is.
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

/// The provider id that has to be set for the server `id`; `None` if the spec has a provider id of this server already.
fn provider_id_to_set(spec: &OpenStackMachineSpec, id: &ServerId) -> Option<String> {
    let present = spec.provider_id.as_deref();
    if present.and_then(provider_id::server_id).as_ref() == Some(id) {
        return None;
    }
    let identity = spec.identity_ref.as_ref();
    let region = identity.and_then(|identity| identity.region.as_deref());
    Some(provider_id::provider_id(region, id))
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
}

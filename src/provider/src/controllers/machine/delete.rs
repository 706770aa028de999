//! Deletes a machine: first its load balancer members, then its server, then its finalizer.

use kube::{
    ResourceExt,
    api::{DeleteParams, Preconditions},
};

use super::{
    FINALIZER, StepResult, kubernetes_failed,
    pass::{Pass, waiting},
    plan,
};
use crate::{
    kubernetes::patch::{is_conflict, is_not_found},
    reconcile::read_uncached,
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::Reason;

impl Pass<'_> {
    /// Takes the next step of the deletion, and returns `Ok` when nothing is left.
    pub(super) async fn delete(&mut self) -> StepResult<()> {
        if let Some(machine) = self.related.machine.clone() {
            self.update_hooks(&machine).await?;
        }
        self.delete_server().await?;
        self.context
            .set_finalizer(&mut self.object, FINALIZER, false)
            .await
            .map_err(|error| kubernetes_failed("Removing the finalizer", &error))?;
        self.forget();
        Ok(())
    }

    /// Deletes the server's object once its members are gone or need not be waited for. It returns `Ok` when an
    /// uncached read shows that the object is gone.
    async fn delete_server(&self) -> StepResult<()> {
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        let server = match read_uncached(&api, &self.name.name).await {
            Ok(Some(server)) => server,
            Ok(None) => return Ok(()),
            Err(error) => {
                return Err(kubernetes_failed("Reading the OpenStackServer", &error));
            }
        };
        // If the `OpenStackServer` is being deleted already, its own controller checks the gate before it deletes the
        // server in Nova.
        if server.metadata.deletion_timestamp.is_none() {
            plan::may_delete_server(&self.gate_inputs())
                .map_err(|hold| waiting(hold.reason, &hold.message))?;
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: server.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match api.delete(&self.name.name, &parameters).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) || is_conflict(&error) => {}
                Err(error) => {
                    return Err(kubernetes_failed("Deleting the OpenStackServer", &error));
                }
            }
        }
        Err(waiting(Reason::Deleting, "The server is being deleted"))
    }
}

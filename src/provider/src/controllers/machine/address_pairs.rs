//! Passes a machine's `allowedAddressPairs` on to its server.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{StepResult, kubernetes_failed, pass::Pass};
use crate::controllers::address_pairs::{
    OF_MACHINE, PortPairs, from_annotation, of_machine, of_ports, of_server, text,
};
use capo_api::{v1alpha1::OpenStackServer, v1beta2::OpenStackMachine};

impl Pass<'_> {
    /// Writes the pairs into the annotation of the `OpenStackServer` if they differ from those that it has.
    pub(super) async fn pass_on_address_pairs(&self, server: &OpenStackServer) -> StepResult<()> {
        let wanted = of_machine(&self.object, server);
        if of_server(server) == wanted || server.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": {OF_MACHINE: text(&wanted)}}}));
        self.context
            .api::<OpenStackServer>(&self.name.namespace)
            .patch(&self.name.name, &PatchParams::default(), &patch)
            .await
            .map(drop)
            .map_err(|error| kubernetes_failed("Updating the OpenStackServer", &error))
    }
}

/// Whether the ports have the pairs that the machine wants. The function is pure.
pub(super) fn are_applied(machine: &OpenStackMachine, server: &OpenStackServer) -> bool {
    let wanted = of_machine(machine, server);
    let was_changed = from_annotation(&server.metadata, OF_MACHINE).is_some()
        || wanted != of_ports(&server.spec.ports);
    let resolved = server
        .status
        .as_ref()
        .and_then(|status| status.resolved.as_ref());
    let has: Option<PortPairs> = resolved.map(|resolved| {
        let ports = resolved.ports.iter();
        ports
            .map(|port| port.allowed_address_pairs.clone())
            .collect()
    });
    !was_changed || has.is_none_or(|has| has == wanted)
}

//! Writes the template's `allowedAddressPairs` into an annotation of the machines that were cloned from it, including
//! those of the control plane.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    controllers::{
        Context,
        address_pairs::{OF_TEMPLATE, annotation_for_machine, of_ports},
    },
    kubernetes::{conditions::kind::READY, patch::is_not_found},
    reconcile::{StepError, StepResult},
};
use capo_api::v1beta2::{OpenStackMachine, OpenStackMachineTemplate};

/// The annotations that Cluster API sets on objects cloned from a template.
const CLONED_FROM: (&str, &str) = (
    "cluster.x-k8s.io/cloned-from-name",
    "cluster.x-k8s.io/cloned-from-groupkind",
);
const GROUP_KIND: &str = "OpenStackMachineTemplate.infrastructure.cluster.x-k8s.io";

/// Writes the annotation of every machine whose annotation differs from the template.
pub(super) async fn note(template: &OpenStackMachineTemplate, context: &Context) -> StepResult<()> {
    let (namespace, name) = (
        template.namespace().unwrap_or_default(),
        template.name_any(),
    );
    let pairs = of_ports(&template.spec.template.spec.ports);
    let cloned = |machine: &OpenStackMachine| {
        let annotations = machine.annotations();
        machine.namespace().as_ref() == Some(&namespace)
            && machine.metadata.deletion_timestamp.is_none()
            && annotations.get(CLONED_FROM.0) == Some(&name)
            && annotations
                .get(CLONED_FROM.1)
                .is_some_and(|kind| kind == GROUP_KIND)
    };
    let machines = context.api::<OpenStackMachine>(&namespace);
    for machine in context.stores.openstack_machines.state_filter(cloned) {
        let Some(text) = annotation_for_machine(&pairs, &machine) else {
            continue;
        };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {OF_TEMPLATE: text}}}));
        let machine = machine.name_any();
        match machines
            .patch(&machine, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => {}
            Err(error) => {
                let doing = format!("Noting allowedAddressPairs on OpenStackMachine {machine}");
                return Err(StepError::kubernetes(READY, &doing, &error));
            }
        }
    }
    Ok(())
}

//! Our pre-terminate hook on the Machine.

use std::time::Duration;

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    Step,
    gate::{self, HookChange},
    pass::Pass,
};
use crate::{
    controllers::{
        Outcome,
        capi::{HOOK_ANNOTATION, HOOK_VALUE, Machine},
        server::kubernetes_failed,
    },
    status::{
        Reason,
        patch::{is_conflict, is_not_found},
    },
};

impl Pass<'_> {
    /// Puts our hook on the Machine or takes it off, as the release gate says.
    pub(super) async fn keep_hook(&self, machine: &Machine) -> Step<()> {
        let change = gate::hook(&self.question());
        let metadata = match change {
            HookChange::Keep => return Ok(()),
            // Only while nothing else changed: it must not land on a Machine that is being deleted.
            HookChange::Put => json!({
                "uid": machine.uid(),
                "resourceVersion": machine.resource_version(),
                "annotations": { HOOK_ANNOTATION: HOOK_VALUE },
            }),
            HookChange::Remove => json!({
                "uid": machine.uid(),
                "annotations": { HOOK_ANNOTATION: null },
            }),
        };
        let api: Api<Machine> = self.context.api(&self.name.namespace);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let name = machine.name_any();
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                tracing::info!(machine = name, ?change, "changed the pre-terminate hook");
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => Err(Outcome::wait(
                Reason::WaitingForOwner,
                "The Machine is changing; its pre-terminate hook is set in a moment",
                Duration::from_secs(1),
            )),
            Err(error) => Err(kubernetes_failed(
                "Changing the pre-terminate hook of the Machine",
                &error,
            )),
        }
    }
}

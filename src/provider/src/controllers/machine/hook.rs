//! Our deletion hooks on the Machine.

use std::time::Duration;

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{
    Step,
    gate::{self, HookChange},
    pass::Pass,
};
use crate::{
    controllers::{Outcome, capi::Machine, hooks::Hooks, server::kubernetes_failed},
    status::patch::{is_conflict, is_not_found},
};
use capo_core::{ObjectName, Reason};

/// How often a changed Machine is read again at once.
const TRIES: u32 = 3;

impl Pass<'_> {
    /// Puts our hooks on the Machine or takes them off, as the release gate says.
    pub(super) async fn keep_hook(&self, machine: &Machine) -> Step<()> {
        let change = gate::hook(&self.question());
        let carried = Hooks::on(&machine.metadata);
        let api: Api<Machine> = self.context.api(&self.name.namespace);
        let name = machine.name_any();
        let mut version = machine.resource_version();
        for _ in 0..TRIES {
            let metadata = match change {
                HookChange::Keep => return Ok(()),
                // Only while nothing else changed: it must not land on a Machine that is being deleted.
                HookChange::Put(wanted) => json!({
                    "uid": machine.uid(),
                    "resourceVersion": version,
                    "annotations": wanted.patch(carried),
                }),
                HookChange::Remove => json!({
                    "uid": machine.uid(),
                    "annotations": Hooks::default().patch(carried),
                }),
            };
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            let conflict = match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => {
                    tracing::info!(Machine = %ObjectName::new(&self.name.namespace, &name), ?change, "Changing the deletion hooks");
                    return Ok(());
                }
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) if is_conflict(&error) => error,
                Err(error) => return Err(failed(&error)),
            };
            // Cluster API writes a new Machine often, and most of that wakes nobody here. What says that it is
            // to be left alone is an annotation too.
            let same = |newest: &Machine| {
                newest.uid() == machine.uid()
                    && !newest.is_deleting()
                    && newest.annotations() == machine.annotations()
            };
            match newest(&api, &name).await?.filter(same) {
                Some(newest) => version = newest.resource_version(),
                None => break,
            }
            tracing::debug!(error = %conflict, "Trying again: the Machine has changed meanwhile");
        }
        Err(Outcome::wait(
            Reason::WaitingForOwner,
            "The Machine is changing; its deletion hooks are set in a moment",
            Duration::from_secs(1),
        ))
    }
}

/// The Machine as it is now.
async fn newest(api: &Api<Machine>, name: &str) -> Step<Option<Machine>> {
    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = api.list(&by_name).await.map_err(|error| failed(&error))?;
    Ok(found.items.into_iter().next())
}

fn failed(error: &kube::Error) -> Outcome {
    kubernetes_failed("Changing the deletion hooks of the Machine", error)
}

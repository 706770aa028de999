//! Puts our deletion hooks on a Machine and takes them off.

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::Hooks;
use crate::{
    kubernetes::patch::{is_conflict, is_not_found},
    reconcile::capi::Machine,
};
use capo_core::ObjectName;

/// How often a changed Machine is read again at once.
const TRIES: u32 = 3;

/// What is to be done about our hooks on a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookChange {
    /// Nothing.
    Keep,
    /// The Machine must carry these.
    Put(Hooks),
    /// The Machine must carry none.
    Remove,
}

/// Carries out `change`. `Ok(false)` means that the Machine is changing at the moment and the next pass has
/// to try again.
pub(crate) async fn apply(
    api: &Api<Machine>,
    machine: &Machine,
    change: HookChange,
) -> Result<bool, kube::Error> {
    let carried = Hooks::on(&machine.metadata);
    let name = machine.name_any();
    let mut version = machine.resource_version();
    for _ in 0..TRIES {
        let metadata = match change {
            HookChange::Keep => return Ok(true),
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
                let namespace = machine.namespace().unwrap_or_default();
                let machine = ObjectName::new(namespace, name);
                tracing::info!(Machine = %machine, ?change, "Changing the deletion hooks");
                return Ok(true);
            }
            Err(error) if is_not_found(&error) => return Ok(true),
            Err(error) if is_conflict(&error) => error,
            Err(error) => return Err(error),
        };
        // Cluster API writes a new Machine often, and most of these writes start no pass here. The request to
        // leave a Machine alone is an annotation too.
        let same = |newest: &Machine| {
            newest.uid() == machine.uid()
                && !newest.is_deleting()
                && newest.annotations() == machine.annotations()
        };
        match newest(api, &name).await?.filter(same) {
            Some(newest) => version = newest.resource_version(),
            None => break,
        }
        tracing::debug!(error = %conflict, "Trying again: the Machine has changed meanwhile");
    }
    Ok(false)
}

/// The Machine as it is now.
async fn newest(api: &Api<Machine>, name: &str) -> Result<Option<Machine>, kube::Error> {
    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = api.list(&by_name).await?;
    Ok(found.items.into_iter().next())
}

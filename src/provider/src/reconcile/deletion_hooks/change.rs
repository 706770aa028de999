//! Adds the deletion hooks of capo-rs to a Machine and removes them.

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::Hooks;
use crate::{
    kubernetes::patch::{is_conflict, is_not_found},
    reconcile::{capi::Machine, name_of},
};

/// The maximum number of attempts without a pause in between if the Machine changes meanwhile.
const TRIES: u32 = 3;

/// The change of the hooks on a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookChange {
    /// No change.
    Keep,
    /// The Machine must carry these.
    Put(Hooks),
    /// The release gate is open. Of the hooks that the Machine carries, only these stay.
    Release(Hooks),
    /// All hooks are removed from the Machine, whatever the release gate decided.
    Remove,
}

/// Carries out `change`. Every attempt contains the resource version of a Machine that has not changed in any relevant
/// part since the decision, and is made only if `may` says that this process may still make the change. `Ok(false)`
/// means that the process may not, or that the Machine keeps changing, so the next pass has to try again.
pub(crate) async fn apply(
    api: &Api<Machine>,
    machine: &Machine,
    change: HookChange,
    may: impl Fn() -> bool,
) -> Result<bool, kube::Error> {
    let carried = Hooks::on(&machine.metadata);
    let name = machine.name_any();
    let mut version = machine.resource_version();
    for _ in 0..TRIES {
        let wanted = match change {
            HookChange::Keep => return Ok(true),
            HookChange::Put(wanted) | HookChange::Release(wanted) => wanted,
            HookChange::Remove => Hooks::default(),
        };
        if !may() {
            return Ok(false);
        }
        let metadata = json!({
            "uid": machine.uid(),
            "resourceVersion": version,
            "annotations": wanted.patch(carried),
        });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let conflict = match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                tracing::info!(Machine = %name_of(machine), ?change, "Changed the deletion hooks");
                return Ok(true);
            }
            Err(error) if is_not_found(&error) => return Ok(true),
            Err(error) if is_conflict(&error) => error,
            Err(error) => return Err(error),
        };
        // Cluster API writes a new Machine often, and most of these writes start no pass of capo-rs, so the Machine is
        // read again here. An annotation that pauses the Machine is checked too.
        let same = |newest: &Machine| {
            newest.uid() == machine.uid()
                && newest.is_deleting() == machine.is_deleting()
                && newest.held_at() == machine.held_at()
                && newest.annotations() == machine.annotations()
        };
        match newest(api, &name).await?.filter(same) {
            Some(newest) => version = newest.resource_version(),
            None => break,
        }
        tracing::debug!(error = %conflict, "Trying again, because the Machine has changed in the meantime");
    }
    Ok(false)
}

async fn newest(api: &Api<Machine>, name: &str) -> Result<Option<Machine>, kube::Error> {
    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = api.list(&by_name).await?;
    Ok(found.items.into_iter().next())
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        time::{Duration, Instant},
    };

    use serde_json::Value;

    use super::*;
    use crate::{
        kubernetes::conflict_once::ConflictOnce, reconcile::deletion_hooks::PRE_TERMINATE,
    };
    use capo_openstack::LeaseToken;

    fn machine(version: &str, paused: bool) -> Value {
        let mut value = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "m", "namespace": "n", "uid": "u", "resourceVersion": version,
                "deletionTimestamp": "2026-11-21T10:00:00Z", "annotations": {PRE_TERMINATE: "capo-rs"}},
        });
        if paused {
            value["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("");
        }
        value
    }

    /// Releases a Machine that has changed to `newest` before the first patch arrives. Returns whether the hook was
    /// removed, and the resource version of each patch.
    async fn release(newest: Value, may: impl Fn() -> bool) -> (bool, Vec<Value>) {
        let list = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineList",
            "metadata": {}, "items": [newest]});
        let server = ConflictOnce::new(list, newest);
        let api: Api<Machine> = Api::namespaced(server.client(), "n");
        let judged: Machine = serde_json::from_value(machine("1", false)).unwrap();
        let change = HookChange::Release(Hooks::default());
        let done = apply(&api, &judged, change, may).await.unwrap();
        let versions = server
            .patches
            .lock()
            .iter()
            .map(|patch| patch["metadata"]["resourceVersion"].clone())
            .collect();
        (done, versions)
    }

    #[tokio::test]
    async fn a_hook_goes_only_as_long_as_this_process_is_the_leader() {
        let lease = LeaseToken::not_held();
        let same = || machine("2", false);
        assert_eq!(
            release(same(), || lease.may_open_gates()).await,
            (false, vec![])
        );
        // The leadership ends between two attempts.
        let attempts = Cell::new(0);
        let may = || attempts.replace(attempts.get() + 1) == 0;
        assert_eq!(release(same(), may).await, (false, vec![json!("1")]));
        lease.extend_until(Instant::now() + Duration::from_mins(1));
        let done = release(same(), || lease.may_open_gates()).await;
        assert_eq!(done, (true, vec![json!("1"), json!("2")]));
    }

    #[tokio::test]
    async fn a_hook_goes_only_from_a_machine_that_is_as_it_was_judged() {
        let paused = release(machine("2", true), || true).await;
        assert_eq!(paused, (false, vec![json!("1")]));
    }
}

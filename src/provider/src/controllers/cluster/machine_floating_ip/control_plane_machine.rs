//! The control-plane machines on which the API server's floating IP may be.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use crate::{
    controllers::{
        capi::{Machine, condition},
        cluster::pass::Pass,
    },
    reconcile::{deletion_hooks, is_paused_or_moved},
};
use capo_core::{ConditionStatus, ObjectName, gate_override};
use capo_gate::{
    desired::{Deletion, ObservedServer, ServerState},
    floating_ip::{ApiServer, ControlPlaneMachine, MachineDeletion},
};

/// The control-plane machines.
#[derive(Debug, Default)]
pub(crate) struct ControlPlaneMachines {
    /// All control-plane machines.
    pub all: Vec<ControlPlaneMachine>,
    /// The machines whose deletion waits for their release, with their servers as last read.
    pub awaiting_release: BTreeMap<ObjectName, Option<ObservedServer>>,
}

/// Collects the control-plane machines with these names.
pub(crate) fn control_plane_machines(
    pass: &Pass<'_>,
    names: &[ObjectName],
) -> ControlPlaneMachines {
    let mut machines = ControlPlaneMachines::default();
    for name in names {
        let Some(observed) = control_plane_machine(pass, name) else {
            continue;
        };
        if observed.awaits_release {
            machines
                .awaiting_release
                .insert(name.clone(), observed.server);
        }
        machines.all.push(observed.machine);
    }
    machines
}

/// A control-plane machine with what is known besides of its release.
struct ObservedMachine {
    machine: ControlPlaneMachine,
    /// Whether the deletion of the machine waits for its release.
    awaits_release: bool,
    /// The server of the machine as last read.
    server: Option<ObservedServer>,
}

/// The control-plane machine of this name, if it exists.
fn control_plane_machine(pass: &Pass<'_>, name: &ObjectName) -> Option<ObservedMachine> {
    let stores = &pass.context.stores;
    let within = &name.namespace;
    let object = stores
        .openstack_machines
        .get(&ObjectRef::new(&name.name).within(within))?;
    let server = stores
        .openstack_servers
        .get(&ObjectRef::new(&name.name).within(within));
    let owner = pass.related.machine_on(&name.name);
    let uid = server.as_ref().and_then(|it| it.metadata.uid.as_deref());
    let observation = pass.context.servers.observations.get(name, uid);
    let status = server.as_ref().and_then(|server| server.status.as_ref());
    let annotation = object.annotations().get(gate_override::KEY);
    let deletion =
        deletion_hooks::deletion(object.meta(), server.as_deref().map(Resource::meta), owner);
    let machine = ControlPlaneMachine {
        name: name.clone(),
        server: status.and_then(|status| Some(status.instance_id.clone()?.into())),
        addresses: observation
            .iter()
            .flat_map(|observation| &observation.addresses)
            .filter(|address| !address.floating)
            .map(|address| address.address)
            .collect(),
        created: object.creation_timestamp().map(|time| time.0),
        deletion: machine_deletion(deletion),
        is_active: match &observation {
            Some(observation) => observation.server.state == ServerState::Active,
            None => status.is_some_and(|status| status.ready),
        },
        is_down: observation
            .as_ref()
            .is_some_and(|observation| observation.server.is_down_for_good()),
        api_server: owner.map_or(ApiServer::Unknown, api_server),
        gate_override: gate_override::parse_optional(
            annotation.map(String::as_str),
            Timestamp::now(),
        ),
    };
    Some(ObservedMachine {
        machine,
        awaits_release: awaits_release(deletion) && !is_paused_or_moved(object.meta()),
        server: observation.map(|observation| observation.server),
    })
}

fn machine_deletion(deletion: Deletion) -> MachineDeletion {
    match deletion {
        Deletion::No => MachineDeletion::No,
        Deletion::BeforeHook { since }
        | Deletion::AtHook { since }
        | Deletion::OutOfBand { since } => MachineDeletion::Since(since),
        Deletion::AfterHook { .. } | Deletion::Unhooked { .. } => MachineDeletion::WithoutHook,
    }
}

/// Whether the deletion waits for the release at this moment. Before the hook is reached, it does not, because a drain
/// may take hours.
fn awaits_release(deletion: Deletion) -> bool {
    matches!(
        deletion,
        Deletion::AtHook { .. } | Deletion::OutOfBand { .. }
    )
}

/// The state of the API server on a machine. Only `KubeadmControlPlane` sets `APIServerPodHealthy`; for other control
/// planes the state of the Node decides.
fn api_server(machine: &Machine) -> ApiServer {
    let status = |kind: &str| machine.condition(kind).map(|found| found.status);
    let has_node = machine.status.node_ref.is_some();
    match (
        status(condition::API_SERVER_POD_HEALTHY),
        status(condition::NODE_HEALTHY),
    ) {
        (Some(ConditionStatus::False), _) => ApiServer::Down,
        (Some(ConditionStatus::True), _) if has_node => ApiServer::Serving,
        (None, node) if has_node && node != Some(ConditionStatus::False) => ApiServer::Serving,
        _ => ApiServer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn an_api_server_serves_once_its_node_has_joined() {
        let of = |node: bool, conditions: Value| {
            let mut machine =
                json!({"metadata": {"name": "m"}, "status": {"conditions": conditions}});
            if node {
                machine["status"]["nodeRef"] = json!({"name": "m"});
            }
            api_server(&from_value(machine).unwrap())
        };
        let pod = |status: &str| json!([{"type": "APIServerPodHealthy", "status": status, "reason": "", "message": ""}]);
        let node = |status: &str| json!([{"type": "NodeHealthy", "status": status, "reason": "", "message": ""}]);
        assert_eq!(of(true, pod("True")), ApiServer::Serving);
        assert_eq!(of(false, pod("True")), ApiServer::Unknown);
        assert_eq!(of(true, pod("False")), ApiServer::Down);
        assert_eq!(of(true, pod("Unknown")), ApiServer::Unknown);
        assert_eq!(of(true, json!([])), ApiServer::Serving);
        assert_eq!(of(true, node("False")), ApiServer::Unknown);
        assert_eq!(of(false, json!([])), ApiServer::Unknown);
    }

    #[test]
    fn a_release_is_asked_for_at_the_hook_and_not_during_the_drain() {
        let since = Timestamp::UNIX_EPOCH;
        let leaving = MachineDeletion::Since(since);
        for (deletion, expected, asked) in [
            (Deletion::No, MachineDeletion::No, false),
            (Deletion::BeforeHook { since }, leaving, false),
            (Deletion::AtHook { since }, leaving, true),
            (Deletion::OutOfBand { since }, leaving, true),
            (
                Deletion::AfterHook { since },
                MachineDeletion::WithoutHook,
                false,
            ),
            (
                Deletion::Unhooked { since },
                MachineDeletion::WithoutHook,
                false,
            ),
        ] {
            assert_eq!(machine_deletion(deletion), expected, "{deletion:?}");
            assert_eq!(awaits_release(deletion), asked, "{deletion:?}");
        }
    }
}

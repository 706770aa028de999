//! The control-plane machines, as far as the API server's floating IP depends on them.

use jiff::Timestamp;
use kube::{Resource, ResourceExt, core::ObjectMeta, runtime::reflector::ObjectRef};

use crate::controllers::cluster::reconcile::Reconcile;
use crate::reconcile::{capi::Machine, deletion_hooks::Hooks};
use capo_core::{ConditionStatus, ObjectName, gate_override};
use capo_gate::{
    desired::ServerState,
    floating_ip::{ApiServer, Carrier, CarrierDeletion},
};

/// The control-plane machines with these names.
pub(crate) fn carriers(pass: &Reconcile<'_>, machines: &[ObjectName]) -> Vec<Carrier> {
    machines
        .iter()
        .filter_map(|name| carrier(pass, name))
        .collect()
}

fn carrier(pass: &Reconcile<'_>, name: &ObjectName) -> Option<Carrier> {
    let stores = &pass.context.stores;
    let within = &name.namespace;
    let object = stores
        .openstack_machines
        .get(&ObjectRef::new(&name.name).within(within))?;
    let server = stores
        .openstack_servers
        .get(&ObjectRef::new(&name.name).within(within));
    let machine = pass.related.machine_on(&name.name);
    let seen = pass.context.servers.observations.get(name);
    let status = server.as_ref().and_then(|server| server.status.as_ref());
    let annotation = object.annotations().get(gate_override::KEY);
    Some(Carrier {
        machine: name.clone(),
        server: status.and_then(|status| Some(status.instance_id.clone()?.into())),
        addresses: seen
            .iter()
            .flat_map(|seen| &seen.addresses)
            .filter(|address| !address.floating)
            .map(|address| address.address)
            .collect(),
        created: object.creation_timestamp().map(|time| time.0),
        deletion: deletion(
            object.meta(),
            server.as_deref().map(Resource::meta),
            machine,
        ),
        is_active: match &seen {
            Some(seen) => seen.server.state == ServerState::Active,
            None => status.is_some_and(|status| status.ready),
        },
        is_down: seen.is_some_and(|seen| seen.server.is_down_for_good()),
        api_server: machine.map_or(ApiServer::Unknown, api_server),
        operator: gate_override::parse_optional(annotation.map(String::as_str), Timestamp::now()),
    })
}

fn deletion(
    object: &ObjectMeta,
    server: Option<&ObjectMeta>,
    machine: Option<&Machine>,
) -> CarrierDeletion {
    let since = |meta: &ObjectMeta| meta.deletion_timestamp.as_ref().map(|time| time.0);
    let of_machine = machine.and_then(|machine| since(&machine.metadata));
    if of_machine.is_some() && machine.is_some_and(|machine| !Hooks::on(&machine.metadata).any()) {
        return CarrierDeletion::WithoutHook;
    }
    of_machine
        .or_else(|| since(object))
        .or_else(|| server.and_then(since))
        .map_or(CarrierDeletion::No, CarrierDeletion::Since)
}

/// `APIServerPodHealthy` is set by `KubeadmControlPlane`; of other control planes only the Node is known.
fn api_server(machine: &Machine) -> ApiServer {
    let status = |kind: &str| machine.condition(kind).map(|found| found.status);
    let has_node = machine.status.node_ref.is_some();
    match (status("APIServerPodHealthy"), status("NodeHealthy")) {
        (Some(ConditionStatus::False), _) => ApiServer::Down,
        (Some(ConditionStatus::True), _) if has_node => ApiServer::Serving,
        (None, node) if has_node && node != Some(ConditionStatus::False) => ApiServer::Serving,
        _ => ApiServer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::deletion_hooks::PRE_TERMINATE;
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
    fn a_machine_whose_hook_a_user_removed_is_not_held() {
        let meta = |deleting: bool, hooked: bool| {
            let mut meta = json!({"annotations": {}});
            if deleting {
                meta["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
            }
            if hooked {
                meta["annotations"][PRE_TERMINATE] = json!("capo-rs");
            }
            meta
        };
        let machine = |deleting, hooked| -> Machine {
            from_value(json!({"metadata": meta(deleting, hooked)})).unwrap()
        };
        let object = |deleting| -> ObjectMeta { from_value(meta(deleting, false)).unwrap() };
        let since = CarrierDeletion::Since("2026-11-21T10:00:00Z".parse().unwrap());
        for (object, machine, expected) in [
            (
                object(false),
                Some(machine(false, true)),
                CarrierDeletion::No,
            ),
            (object(false), None, CarrierDeletion::No),
            (object(false), Some(machine(true, true)), since),
            (
                object(true),
                Some(machine(true, false)),
                CarrierDeletion::WithoutHook,
            ),
            (object(true), Some(machine(false, true)), since),
            (object(true), None, since),
        ] {
            assert_eq!(deletion(&object, None, machine.as_ref()), expected);
        }
        assert_eq!(deletion(&object(false), Some(&object(true)), None), since);
    }
}

//! Determines which server belongs to an object, and whether another object has that server already.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;

use super::{FINALIZER, Progress, StepResult, failed};
use crate::{
    controllers::Context,
    reconcile::{capi::WATCH_FILTER_LABEL, finalizer, name_of, provider_id, server_names},
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{
    ObjectName, Priority, Reason,
    ids::{ProjectId, ServerId},
};
use capo_openstack::{Cloud, network::PortFilter};

/// What is known of the OpenStack objects of `object`. If another object had the same server first, also that server's
/// id and that object's name. Then the server and the ports of the other object are left out of the result, so that
/// this object's passes never change or delete them.
pub(super) fn progress(
    object: &OpenStackServer,
    name: &ObjectName,
    context: &Context,
) -> (Progress, Option<(ServerId, ObjectName)>) {
    let mut progress = Progress::of(object);
    if let Some(written) = context.servers.progress.get(name, object.uid().as_deref()) {
        progress.completed_by(written);
    }
    if progress.instance_id.is_none() {
        progress.instance_id = server_of_machine(object, context);
    }
    let Some(id) = progress.instance_id.clone() else {
        return (progress, None);
    };
    let others = context.servers.objects_by_server_id.of(&id);
    let holder = others.into_iter().find_map(|other| {
        let key = ObjectRef::new(&other.name).within(&other.namespace);
        let found = context.stores.openstack_servers.get(&key)?;
        (other != *name && is_first_holder(&found, object, &id)).then_some((other, found))
    });
    let Some((holder, found)) = holder else {
        return (progress, None);
    };
    progress.instance_id = None;
    let theirs = Progress::of(&found).port_ids;
    progress.port_ids.retain(|port| !theirs.contains(port));
    (progress, Some((id, holder)))
}

/// The objects whose status has shown a server's id, by that id, so that no pass has to search all objects. An object
/// in this map may be gone or may show another id by now. A clone is cheap and shares the data.
#[derive(Debug, Clone, Default)]
pub(in crate::controllers) struct ObjectsByServerId(
    Arc<Mutex<HashMap<ServerId, BTreeSet<ObjectName>>>>,
);

impl ObjectsByServerId {
    /// Records the server id in the status of an object that the watch shows.
    pub(in crate::controllers) fn note(&self, object: &OpenStackServer) {
        let is_deleted = object.meta().deletion_timestamp.is_some()
            && !finalizer::is_on(object.meta(), FINALIZER);
        let status = object.status.as_ref().filter(|_| !is_deleted);
        if let Some(id) = status.and_then(|status| status.instance_id.as_ref()) {
            let mut objects_by_server_id = self.0.lock();
            objects_by_server_id
                .entry(id.as_str().into())
                .or_default()
                .insert(name_of(object));
        }
    }

    /// The objects whose status has shown the id.
    fn of(&self, id: &ServerId) -> BTreeSet<ObjectName> {
        self.0.lock().get(id).cloned().unwrap_or_default()
    }

    /// Forgets an object that does not exist any more.
    pub(super) fn forget(&self, name: &ObjectName) {
        self.0.lock().retain(|_, names| {
            names.remove(name);
            !names.is_empty()
        });
    }
}

/// Whether `other` had the server before `object`. An object whose status contains the id comes first; if both contain
/// it, the older one does.
fn is_first_holder(other: &OpenStackServer, object: &OpenStackServer, id: &ServerId) -> bool {
    let says_so = |one: &OpenStackServer| {
        let status = one.status.as_ref();
        status.and_then(|status| status.instance_id.as_deref()) == Some(id.as_str())
    };
    let age = |one: &OpenStackServer| {
        let created = one.meta().creation_timestamp.as_ref().map(|time| time.0);
        (created, name_of(one))
    };
    says_so(other) && (!says_so(object) || age(other) < age(object))
}

/// The server that the provider id of the owning machine names. A machine that had a server never gets another one,
/// even if the `OpenStackServer` or its status was lost.
fn server_of_machine(object: &OpenStackServer, context: &Context) -> Option<ServerId> {
    let owners = object.owner_references();
    let owner = owners
        .iter()
        .find(|owner| owner.kind == "OpenStackMachine")?;
    let key = ObjectRef::new(&owner.name).within(&object.namespace()?);
    let machine = context.stores.openstack_machines.get(&key)?;
    provider_id::server_id(machine.spec.provider_id.as_deref()?)
}

/// Whether this manager reconciles the object. With `--watch-filter`, the object or its owner must have the label. The
/// owner's label counts because CAPO puts the label on no `OpenStackServer`; capo-rs does.
pub(super) fn is_watched(object: &OpenStackServer, context: &Context) -> bool {
    let Some(filter) = &context.settings.watch_filter else {
        return true;
    };
    let namespace = object.namespace().unwrap_or_default();
    let stores = &context.stores;
    // These stores contain only objects with the label.
    let owned = object.owner_references().iter().any(|owner| {
        let (machine, cluster) = (ObjectRef::new(&owner.name), ObjectRef::new(&owner.name));
        match owner.kind.as_str() {
            "OpenStackMachine" => stores
                .openstack_machines
                .get(&machine.within(&namespace))
                .is_some(),
            "OpenStackCluster" => stores
                .openstack_clusters
                .get(&cluster.within(&namespace))
                .is_some(),
            _ => false,
        }
    });
    owned || object.labels().get(WATCH_FILTER_LABEL) == Some(filter)
}

/// Whether a server of the object's name can belong to the object. It does if it has a port of the object, or if a port
/// of the object exists and is on no server, as after Nova found no host for the server. Otherwise the server may be
/// another owner's. If the object has no ports, nothing can show that the server belongs to it.
pub(super) async fn can_be_its_server(
    object: &OpenStackServer,
    cloud: &Cloud,
    project: &ProjectId,
    server: &ServerId,
) -> StepResult<bool> {
    let name = object.name_any();
    let ports = object.spec.ports.iter().enumerate();
    let names: Vec<String> = ports
        .map(|(index, port)| server_names::port(&name, port.name_suffix.as_deref(), index))
        .collect();
    if names.is_empty() {
        return Ok(true);
    }
    let read = async |filter: PortFilter| {
        let found = cloud.ports(&filter, Priority::Settling).await;
        found.map_err(|error| failed(&error, Reason::OpenStackError))
    };
    let of_server = read(PortFilter {
        device_id: Some(server.to_string()),
        project_id: Some(project.clone()),
        ..PortFilter::default()
    });
    if of_server
        .await?
        .iter()
        .any(|port| names.contains(&port.name))
    {
        return Ok(true);
    }
    for name in names {
        let of_name = read(PortFilter {
            name: Some(name),
            project_id: Some(project.clone()),
            ..PortFilter::default()
        });
        if of_name.await?.iter().any(|port| port.device_id.is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(name: &str, created: &str, instance: Option<&str>) -> OpenStackServer {
        let mut server = json!({
            "metadata": {"name": name, "namespace": "n", "creationTimestamp": created},
            "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "ports": [], "sshKeyName": ""},
        });
        if let Some(id) = instance {
            server["status"] = json!({"instanceID": id, "ready": true});
        }
        serde_json::from_value(server).unwrap()
    }

    #[test]
    fn the_holders_of_an_id_are_known_until_they_are_gone() {
        let objects_by_server_id = ObjectsByServerId::default();
        let names = |id: &str| -> Vec<String> {
            let found = objects_by_server_id.of(&id.into());
            found.into_iter().map(|name| name.to_string()).collect()
        };
        objects_by_server_id.note(&server("b", "2026-11-21T10:00:00Z", Some("1")));
        objects_by_server_id.note(&server("a", "2026-11-21T10:00:00Z", Some("1")));
        objects_by_server_id.note(&server("c", "2026-11-21T10:00:00Z", None));
        assert_eq!(names("1"), ["n/a", "n/b"]);
        assert_eq!(names("2"), Vec::<String>::new());
        objects_by_server_id.forget(&ObjectName::new("n", "b"));
        assert_eq!(names("1"), ["n/a"]);
    }

    #[test]
    fn a_server_belongs_to_whoever_had_it_first() {
        let (early, late) = ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z");
        let holder = server("holder", early, Some("1"));
        for (object, expected) in [
            (server("copy", late, None), true),
            (server("copy", late, Some("1")), true),
            // Both objects were created in the same second, so their names decide.
            (server("older", early, Some("1")), true),
            (server("earlier", early, Some("1")), false),
        ] {
            assert_eq!(
                is_first_holder(&holder, &object, &"1".into()),
                expected,
                "{object:?}"
            );
        }
        let (mute, other) = (server("a", early, None), server("a", early, Some("2")));
        let object = server("b", late, Some("1"));
        assert!(
            !is_first_holder(&mute, &object, &"1".into())
                && !is_first_holder(&other, &object, &"1".into())
        );
    }
}

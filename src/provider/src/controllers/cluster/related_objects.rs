//! The Kubernetes objects around an `OpenStackCluster`: Cluster, control plane, Machines.

use std::sync::Arc;

use crate::controllers::{
    Context,
    capi::{Cluster, ContractReference, Machine},
};
use crate::reconcile::{provider_id, read_uncached};
use capo_core::{Lookup, ids::ServerId};

/// The objects around an `OpenStackCluster`.
#[derive(Debug, Clone)]
pub(crate) struct ClusterRelatedObjects {
    /// The owning Cluster; `None` once an uncached read found it absent.
    pub cluster: Option<Arc<Cluster>>,
    /// The Cluster's name, even if the Cluster is absent.
    pub cluster_name: String,
    /// Every Machine of the cluster.
    pub machines: Vec<Arc<Machine>>,
    /// The control-plane object.
    pub control_plane: ControlPlane,
}

/// What is read from a control-plane object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each named where it is read"
)]
pub(crate) struct ControlPlane {
    /// Whether its status shows that it was ever initialised. Also true if the object can't be read, because then it
    /// may have been.
    pub initialised: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the Cluster names it and an uncached read found it absent.
    pub absent: bool,
    /// Whether it is a `KubeadmControlPlane`.
    pub kubeadm: bool,
}

impl ControlPlane {
    /// Reads the fields of a control-plane object that Cluster API's contract defines.
    pub(crate) fn read(kind: &str, object: &serde_json::Value) -> Self {
        let is =
            |path: &str| object.pointer(path).and_then(serde_json::Value::as_bool) == Some(true);
        Self {
            initialised: is("/status/initialization/controlPlaneInitialized")
                || is("/status/initialized"),
            deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
            absent: false,
            kubeadm: kind == "KubeadmControlPlane",
        }
    }

    /// The value for a control-plane object that can't be read. It opens no gate.
    fn unreadable(kind: &str) -> Self {
        Self {
            initialised: true,
            deleting: false,
            absent: false,
            kubeadm: kind == "KubeadmControlPlane",
        }
    }
}

impl ClusterRelatedObjects {
    /// Whether the control plane was ever initialised.
    pub(crate) fn initialised(&self) -> bool {
        self.control_plane.initialised
            || self
                .cluster
                .as_ref()
                .is_some_and(|cluster| cluster.status.initialization.control_plane_initialized)
            || self
                .control_plane_machines()
                .any(|machine| machine.status.node_ref.is_some())
    }

    /// Whether a control-plane Machine has a providerID. Machines that are being deleted count too.
    pub(crate) fn machine_admitted(&self) -> bool {
        self.control_plane_machines().any(Machine::is_admitted)
    }

    /// The server ids of at most ten admitted control-plane Machines.
    pub(crate) fn admitted_servers(&self) -> impl Iterator<Item = ServerId> {
        self.control_plane_machines()
            .filter_map(|machine| machine.spec.provider_id.as_deref())
            .filter_map(provider_id::server_id)
            .take(10)
    }

    /// Whether the Cluster or its control plane is being deleted, or was deleted. An absent control-plane object
    /// without any Machine does not count as deleted, because it may not have been created yet.
    pub(crate) fn is_being_deleted(&self) -> bool {
        let was_deleted =
            self.control_plane.absent && self.control_plane_machines().next().is_some();
        was_deleted
            || self.control_plane.deleting
            || Cluster::is_deleting_or_absent(self.cluster.as_deref())
    }

    /// The control-plane Machine whose infrastructure is the `OpenStackMachine` of this name.
    pub(crate) fn machine_on(&self, openstack_machine: &str) -> Option<&Machine> {
        self.control_plane_machines()
            .find(|machine| machine.is_on(openstack_machine))
    }

    /// Whether a control-plane Machine is being deleted.
    pub(crate) fn is_machine_leaving(&self) -> bool {
        self.control_plane_machines().any(Machine::is_deleting)
    }

    /// The Machines of the control plane.
    pub(super) fn control_plane_machines(&self) -> impl Iterator<Item = &Machine> {
        self.machines
            .iter()
            .map(AsRef::as_ref)
            .filter(|machine| machine.is_control_plane(self.cluster.as_deref()))
    }
}

/// Reads the related objects from the stores. An object whose absence would open a gate is read without a cache if the
/// store lacks it.
pub(crate) async fn related(
    context: &Context,
    namespace: &str,
    cluster_name: &str,
) -> Result<ClusterRelatedObjects, kube::Error> {
    let reference = kube::runtime::reflector::ObjectRef::new(cluster_name).within(namespace);
    let cluster = match context.stores.clusters.get(&reference) {
        Some(cluster) => Some(cluster),
        None => read_uncached(&context.api::<Cluster>(namespace), cluster_name)
            .await?
            .map(Arc::new),
    };
    let machines = context.stores.machines.state_filter(|machine| {
        machine.metadata.namespace.as_deref() == Some(namespace)
            && machine.spec.cluster_name == cluster_name
    });
    let control_plane = match cluster
        .as_ref()
        .and_then(|cluster| cluster.spec.control_plane_ref.as_ref())
    {
        Some(reference) => control_plane(context, namespace, reference).await,
        None => ControlPlane::default(),
    };
    Ok(ClusterRelatedObjects {
        cluster,
        cluster_name: cluster_name.to_owned(),
        machines,
        control_plane,
    })
}

async fn control_plane(
    context: &Context,
    namespace: &str,
    reference: &ContractReference,
) -> ControlPlane {
    let kind = &reference.kind;
    let kinds = &context.contract_kinds;
    match kinds.read(&context.client, namespace, reference).await {
        Ok(Lookup::Found(object)) => ControlPlane::read(kind, &object),
        Ok(Lookup::Absent) => ControlPlane {
            absent: true,
            kubeadm: kind == "KubeadmControlPlane",
            ..ControlPlane::default()
        },
        Ok(Lookup::Unknown) => ControlPlane::unreadable(kind),
        Err(error) => {
            tracing::debug!(kind, name = reference.name, %error, "Reading the control-plane object failed");
            ControlPlane::unreadable(kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::capi;

    #[test]
    fn control_planes_of_both_contracts_are_read() {
        let read = |object| ControlPlane::read("KubeadmControlPlane", &object);
        assert!(!read(json!({})).initialised);
        assert!(read(json!({"status": {"initialized": true}})).initialised);
        assert!(
            read(json!({"status": {"initialization": {"controlPlaneInitialized": true}}}))
                .initialised
        );
        assert!(read(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})).deleting);
        assert!(!ControlPlane::read("RKE2ControlPlane", &json!({})).kubeadm);
    }

    #[test]
    fn what_cannot_be_read_opens_nothing() {
        let unreadable = ControlPlane::unreadable("X");
        assert!(unreadable.initialised && !unreadable.deleting && !unreadable.absent);
    }

    #[test]
    fn a_control_plane_that_is_absent_was_deleted_if_it_has_machines() {
        let cluster: Cluster =
            serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {}})).unwrap();
        let machine = |label: &str| -> Arc<Machine> {
            let value = json!({"metadata": {"name": "m", "labels": {label: ""}}, "spec": {"clusterName": "c"}});
            Arc::new(serde_json::from_value(value).unwrap())
        };
        let absent = ControlPlane {
            absent: true,
            ..ControlPlane::default()
        };
        for (control_plane, machines, expected) in [
            (absent, vec![machine(capi::CONTROL_PLANE_LABEL)], true),
            (absent, vec![machine("worker")], false),
            (absent, vec![], false),
            (
                ControlPlane::default(),
                vec![machine(capi::CONTROL_PLANE_LABEL)],
                false,
            ),
        ] {
            let related = ClusterRelatedObjects {
                cluster: Some(Arc::new(cluster.clone())),
                cluster_name: "c".to_owned(),
                machines,
                control_plane,
            };
            assert_eq!(related.is_being_deleted(), expected, "{related:?}");
        }
    }
}

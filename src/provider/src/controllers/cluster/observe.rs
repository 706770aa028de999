//! The facts about the cluster around a load balancer that the gates need: Cluster, control plane, Machines, CA.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt, api::ListParams};

use super::cache::CachedCluster;
use crate::controllers::{
    Context,
    capi::{self, Cluster, ContractReference, Machine, condition},
};
use crate::reconcile::{ReadAt, finalizer, provider_id, read_uncached};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::{Endpoint, GateOverride, Lookup, ObjectName, gate_override, ids::ServerId};
use capo_gate::desired::ClusterFacts;

/// How long a CA is used without a new read.
const AUTHORITY_AGE: Duration = Duration::from_mins(10);
/// The maximum size of a CA in bytes. Real CAs have a few kB.
const LARGEST_AUTHORITY: usize = 64 * 1024;

/// The objects around an `OpenStackCluster`.
#[derive(Debug, Clone)]
pub(crate) struct RelatedObjects {
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

impl RelatedObjects {
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

    fn control_plane_machines(&self) -> impl Iterator<Item = &Machine> {
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
) -> Result<RelatedObjects, kube::Error> {
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
    Ok(RelatedObjects {
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

/// Collects the facts for the tracker. The CA and the time since which the remote connection has held are kept in
/// `cached`.
pub(crate) async fn facts(
    context: &Context,
    name: &ObjectName,
    operator: Option<&str>,
    paused: bool,
    endpoint: Option<Endpoint>,
    related: &RelatedObjects,
    cached: &mut CachedCluster,
) -> ClusterFacts {
    let connection = related
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.condition(condition::REMOTE_CONNECTION_PROBE));
    let now = Instant::now();
    let remote_connection = cached.remote_connection.observe(connection, now);
    read_authority(context, &name.namespace, &related.cluster_name, cached, now).await;
    ClusterFacts {
        paused,
        cluster_deleting: related.is_being_deleted(),
        initialised: related.initialised(),
        operator: gate_override_of(operator),
        remote_connection,
        endpoint,
        ca_pem: cached.authority.clone().map(|read| read.value),
        kubeadm_control_plane: related.control_plane.kubeadm,
        machines: openstack_machines(context, &name.namespace, related),
    }
}

/// The `OpenStackMachine`s of the control plane that exist. Objects that are being deleted and have no finalizer of
/// capo-rs any more are left out. The machine controller publishes each of the others to the tracker in its first pass.
fn openstack_machines(
    context: &Context,
    namespace: &str,
    related: &RelatedObjects,
) -> Vec<ObjectName> {
    let is_of_control_plane = |machine: &OpenStackMachine| {
        let labelled = capi::has_label(machine.meta(), capi::CONTROL_PLANE_LABEL)
            && machine.labels().get(capi::CLUSTER_NAME_LABEL) == Some(&related.cluster_name);
        labelled
            || capi::owner(machine.meta(), "Machine").is_some_and(|owner| {
                let mut machines = related.control_plane_machines();
                machines.any(|machine| machine.uid().as_ref() == Some(&owner.uid))
            })
    };
    let is_ours = |machine: &OpenStackMachine| {
        machine.meta().deletion_timestamp.is_none()
            || finalizer::is_on(machine.meta(), finalizer::OPENSTACK_MACHINE)
    };
    let machines = context.stores.openstack_machines.state_filter(|machine| {
        machine.metadata.namespace.as_deref() == Some(namespace)
            && is_of_control_plane(machine)
            && is_ours(machine)
    });
    let mut names: Vec<ObjectName> = machines
        .iter()
        .map(|machine| ObjectName::new(namespace, machine.name_any()))
        .collect();
    names.sort();
    names
}

fn gate_override_of(annotation: Option<&str>) -> GateOverride {
    gate_override::parse_optional(annotation, Timestamp::now())
}

async fn read_authority(
    context: &Context,
    namespace: &str,
    cluster: &str,
    cached: &mut CachedCluster,
    now: Instant,
) {
    let known = cached.authority.found();
    if known.is_some_and(|read| read.age(now) < AUTHORITY_AGE) {
        return;
    }
    let secret = format!("{cluster}-ca");
    match context.api::<Secret>(namespace).get_opt(&secret).await {
        Ok(Some(secret)) => {
            let pem = secret
                .data
                .as_ref()
                .and_then(|data| data.get("tls.crt"))
                .filter(|pem| pem.0.len() <= LARGEST_AUTHORITY)
                .and_then(|pem| String::from_utf8(pem.0.clone()).ok());
            cached.authority =
                pem.map_or(Lookup::Unknown, |pem| Lookup::Found(ReadAt::new(pem, now)));
        }
        Ok(None) => cached.authority = Lookup::Absent,
        Err(error) => tracing::debug!(secret, %error, "Reading the cluster's CA failed"),
    }
}

/// Whether nothing is lost by deleting the load balancer, from reads without a cache.
pub(crate) async fn is_safe_to_delete(
    context: &Context,
    namespace: &str,
    cluster_name: &str,
) -> Result<bool, kube::Error> {
    let cluster = read_uncached(&context.api::<Cluster>(namespace), cluster_name).await?;
    let initialised = cluster
        .as_ref()
        .is_some_and(|cluster| cluster.status.initialization.control_plane_initialized);
    let machines = machines_uncached(context, namespace, cluster_name, None).await?;
    Ok(!initialised
        && !machines.iter().any(|m| {
            m.is_control_plane(cluster.as_ref()) && (m.is_admitted() || m.status.node_ref.is_some())
        }))
}

/// The Machines of a cluster, read without a cache.
pub(crate) async fn machines_uncached(
    context: &Context,
    namespace: &str,
    cluster_name: &str,
    limit: Option<u32>,
) -> Result<Vec<Machine>, kube::Error> {
    let params = ListParams {
        label_selector: Some(format!("{}={cluster_name}", capi::CLUSTER_NAME_LABEL)),
        limit,
        ..ListParams::default()
    };
    let list = context.api::<Machine>(namespace).list(&params).await?;
    Ok(list.items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            let related = RelatedObjects {
                cluster: Some(Arc::new(cluster.clone())),
                cluster_name: "c".to_owned(),
                machines,
                control_plane,
            };
            assert_eq!(related.is_being_deleted(), expected, "{related:?}");
        }
    }
}

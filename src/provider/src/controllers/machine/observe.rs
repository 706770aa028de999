//! The objects related to a machine. They are read from the watches' stores, and from the API server if the store lacks
//! the object, because the absence of an object opens gates.

use std::sync::Arc;

use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use super::{StepResult, kubernetes_failed};
use crate::controllers::{
    Context,
    capi::{self, CLUSTER_NAME_LABEL, Cluster, Machine},
};
use crate::reconcile::{name_of, related_objects::cached_or_read};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine},
};
use capo_core::ObjectName;

/// The objects around a machine.
#[derive(Debug, Clone, Default)]
pub(super) struct MachineRelatedObjects {
    /// The Machine that owns the object. If the object has no owner yet, the Machine whose infrastructure it is.
    pub machine: Option<Arc<Machine>>,
    /// Whether the owner reference to the Machine exists.
    pub owned: bool,
    /// The names of other Machines that refer to the object as their infrastructure.
    pub rivals: Vec<String>,
    /// The Cluster. `None` if an uncached read found it absent, or if no object names a Cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// The `OpenStackCluster` of the Cluster.
    pub openstack_cluster: Option<Arc<OpenStackCluster>>,
    /// The machine's server.
    pub server: Option<Arc<OpenStackServer>>,
    /// Whether the machine belongs to the control plane.
    pub control_plane: bool,
}

impl MachineRelatedObjects {
    /// Reads the objects around `object`.
    pub(super) async fn of(object: &OpenStackMachine, context: &Context) -> StepResult<Self> {
        let namespace = object.namespace().unwrap_or_default();
        let machine = machine(object, &namespace, context).await?;
        let claims = claims(object, &namespace, context);
        let owned = machine.is_some();
        let machine = machine.or_else(|| {
            let unowned = capi::owner(object.meta(), "Machine").is_none();
            claims.first().filter(|_| unowned).cloned()
        });
        let rivals = claims
            .iter()
            .filter(|claim| {
                machine
                    .as_ref()
                    .is_none_or(|machine| machine.uid() != claim.uid())
            })
            .map(|claim| claim.name_any())
            .collect();
        let cluster_name = object
            .labels()
            .get(CLUSTER_NAME_LABEL)
            .cloned()
            .or_else(|| Some(machine.as_ref()?.spec.cluster_name.clone()))
            .filter(|name| !name.is_empty());
        let cluster = match &cluster_name {
            Some(name) => cached(&context.stores.clusters, context, &namespace, name).await?,
            None => None,
        };
        let openstack_cluster = openstack_cluster(
            cluster.as_deref(),
            cluster_name.as_deref(),
            &namespace,
            context,
        )
        .await?;
        let name = object.name_any();
        let servers = &context.stores.openstack_servers;
        let server = if object.meta().deletion_timestamp.is_some() {
            // If the machine is being deleted, an absent `OpenStackServer` shows that its controller has seen the
            // server vanish, so the absence is verified at the API server.
            cached(servers, context, &namespace, &name).await?
        } else {
            servers.get(&ObjectRef::new(&name).within(&namespace))
        };
        Ok(Self {
            control_plane: capi::has_label(object.meta(), capi::CONTROL_PLANE_LABEL)
                || machine
                    .as_ref()
                    .is_some_and(|machine| machine.is_control_plane(cluster.as_deref())),
            machine,
            owned,
            rivals,
            cluster,
            openstack_cluster,
            server,
        })
    }

    /// The name under which the tracker knows the cluster.
    pub(super) fn cluster_key(&self) -> Option<ObjectName> {
        self.openstack_cluster.as_deref().map(name_of)
    }

    /// The uid of the machine's server object, if there is one.
    pub(super) fn server_uid(&self) -> Option<&str> {
        self.server.as_ref()?.metadata.uid.as_deref()
    }

    /// Whether this is a control-plane machine of a cluster with a managed load balancer.
    pub(super) fn is_gated(&self) -> bool {
        self.control_plane
            && self
                .openstack_cluster
                .as_ref()
                .is_some_and(|cluster| has_load_balancer_of_ours(cluster))
    }

    /// Whether the API server's floating IP should be on a control-plane machine, because the cluster has no managed
    /// load balancer for it.
    pub(super) fn wants_floating_ip(&self) -> bool {
        let Some(cluster) = self
            .openstack_cluster
            .as_deref()
            .filter(|_| self.control_plane)
        else {
            return false;
        };
        let api_server = cluster.spec.api_server.as_ref();
        cluster.spec.enabled_load_balancer().is_none()
            && !capi::has_annotation(cluster.meta(), capi::MANAGED_BY_ANNOTATION)
            && api_server.and_then(|api_server| api_server.enable_floating_ip) != Some(false)
            && cluster
                .status
                .as_ref()
                .is_some_and(|status| status.external_network.is_some())
    }

    /// Whether the Cluster is being deleted or absent.
    pub(super) fn is_cluster_deleting_or_absent(&self) -> bool {
        Cluster::is_deleting_or_absent(self.cluster.as_deref())
    }

    /// Whether the Cluster is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.cluster
            .as_ref()
            .is_some_and(|cluster| cluster.spec.paused)
    }
}

fn has_load_balancer_of_ours(cluster: &OpenStackCluster) -> bool {
    cluster.spec.enabled_load_balancer().is_some()
        && !capi::has_annotation(cluster.meta(), capi::MANAGED_BY_ANNOTATION)
}

async fn machine(
    object: &OpenStackMachine,
    namespace: &str,
    context: &Context,
) -> StepResult<Option<Arc<Machine>>> {
    let Some(owner) = capi::owner(object.meta(), "Machine") else {
        return Ok(None);
    };
    let found = cached(&context.stores.machines, context, namespace, &owner.name).await?;
    // A Machine of the same name with another UID is not the owner.
    Ok(found.filter(|machine| machine.metadata.uid.as_deref() == Some(owner.uid.as_str())))
}

/// The Machines whose spec names the object as their infrastructure, in order of their names.
fn claims(object: &OpenStackMachine, namespace: &str, context: &Context) -> Vec<Arc<Machine>> {
    let name = object.name_any();
    let mut claims = context.stores.machines.state_filter(|machine| {
        machine.is_on(&name) && machine.metadata.namespace.as_deref() == Some(namespace)
    });
    claims.sort_by_key(|machine| machine.name_any());
    claims
}

async fn openstack_cluster(
    cluster: Option<&Cluster>,
    cluster_name: Option<&str>,
    namespace: &str,
    context: &Context,
) -> StepResult<Option<Arc<OpenStackCluster>>> {
    let store = &context.stores.openstack_clusters;
    let reference = cluster
        .and_then(|cluster| cluster.spec.infrastructure_ref.as_ref())
        .filter(|reference| reference.kind == "OpenStackCluster");
    if let Some(reference) = reference {
        return cached(store, context, namespace, &reference.name).await;
    }
    // The Cluster is gone, so the `OpenStackCluster` is found by the label with the Cluster's name.
    Ok(store.find(|candidate| {
        candidate.namespace().as_deref() == Some(namespace)
            && candidate
                .labels()
                .get(CLUSTER_NAME_LABEL)
                .map(String::as_str)
                == cluster_name
            && cluster_name.is_some()
    }))
}

/// The object from the watch's store, or from the API server if the store lacks it.
async fn cached<K>(
    store: &kube::runtime::reflector::Store<K>,
    context: &Context,
    namespace: &str,
    name: &str,
) -> StepResult<Option<Arc<K>>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + 'static,
{
    cached_or_read(store, &context.client, namespace, name)
        .await
        .map_err(|error| kubernetes_failed("Reading the objects around it", &error))
}

//! The parts of each watched object on which other controllers depend, and the passes that a change of the object
//! starts.

use std::hash::{DefaultHasher, Hash};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::capi::{self, Cluster, Machine, condition};
use crate::reconcile::{
    name_of,
    watches::{Route, Target, hash_annotations},
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine},
};
use capo_core::ObjectName;

/// Hashes the parts of a Cluster on which decisions depend.
pub(super) fn hash_cluster(cluster: &Cluster, hasher: &mut DefaultHasher) {
    hash_meta(&cluster.metadata, hasher);
    (cluster.status.initialization.infrastructure_provisioned).hash(hasher);
    (cluster.status.initialization.control_plane_initialized).hash(hasher);
    hash_conditions(
        &cluster.status.conditions,
        &[condition::REMOTE_CONNECTION_PROBE],
        hasher,
    );
}

/// Hashes the parts of a Machine on which decisions depend.
pub(super) fn hash_machine(machine: &Machine, hasher: &mut DefaultHasher) {
    hash_meta(&machine.metadata, hasher);
    machine.status.node_ref.is_some().hash(hasher);
    machine.held_at().hash(hasher);
    let kinds = [
        condition::API_SERVER_POD_HEALTHY,
        condition::NODE_HEALTHY,
        condition::DELETING,
    ];
    hash_conditions(&machine.status.conditions, &kinds, hasher);
}

/// Hashes the parts of an `OpenStackCluster` on which its machines depend.
pub(super) fn hash_openstack_cluster(cluster: &OpenStackCluster, hasher: &mut DefaultHasher) {
    hash_meta(&cluster.metadata, hasher);
    if let Some(status) = &cluster.status {
        let id = |id: Option<&String>| id.cloned();
        let balancer = status.api_server_managed_load_balancer.as_ref();
        (
            id(status.network.as_ref().and_then(|n| n.id.as_ref())),
            id(balancer.and_then(|lb| lb.id.as_ref())),
            id(status.control_plane_security_group.as_ref().map(|g| &g.id)),
            id(status.worker_security_group.as_ref().map(|g| &g.id)),
            status.initialization.as_ref().and_then(|i| i.provisioned),
        )
            .hash(hasher);
    }
}

/// Hashes the parts of an `OpenStackServer` on which its machine depends: its whole status except for times.
pub(super) fn hash_openstack_server(server: &OpenStackServer, hasher: &mut DefaultHasher) {
    hash_meta(&server.metadata, hasher);
    if let Some(status) = &server.status {
        for condition in &status.conditions {
            (
                &condition.type_,
                &condition.status,
                &condition.reason,
                &condition.message,
            )
                .hash(hasher);
        }
        let mut rest = status.clone();
        rest.conditions.clear();
        serde_json::to_string(&rest)
            .unwrap_or_default()
            .hash(hasher);
    }
}

/// Hashes the metadata with the owners, because a control plane finds its Machines by them.
fn hash_meta(meta: &ObjectMeta, hasher: &mut DefaultHasher) {
    (&meta.uid, meta.generation, &meta.labels).hash(hasher);
    hash_annotations(meta, hasher);
    meta.deletion_timestamp.is_some().hash(hasher);
    for owner in meta.owner_references.iter().flatten() {
        (&owner.kind, &owner.name, &owner.uid).hash(hasher);
    }
}

fn hash_conditions(conditions: &[capi::SeenCondition], kinds: &[&str], hasher: &mut DefaultHasher) {
    for kind in kinds {
        let found = conditions.iter().find(|condition| condition.kind == *kind);
        found.map(|c| (&c.status, &c.reason)).hash(hasher);
    }
}

pub(super) fn cluster_route(cluster: &Cluster) -> Route {
    let mut related = vec![Target::MachinesOf(name_of(cluster))];
    if let Some(infrastructure) = &cluster.spec.infrastructure_ref {
        let namespace = cluster.namespace().unwrap_or_default();
        related.push(Target::Cluster(ObjectName::new(
            namespace,
            &infrastructure.name,
        )));
    }
    Route {
        own: Vec::new(),
        related,
    }
}

pub(super) fn machine_route(machine: &Machine) -> Route {
    let namespace = machine.namespace().unwrap_or_default();
    let mut related = Vec::new();
    if let Some(infrastructure) = &machine.spec.infrastructure_ref {
        related.push(Target::Machine(ObjectName::new(
            &namespace,
            &infrastructure.name,
        )));
    }
    related.push(Target::ClusterOf(ObjectName::new(
        &namespace,
        &machine.spec.cluster_name,
    )));
    Route {
        own: Vec::new(),
        related,
    }
}

pub(super) fn our_cluster_route(cluster: &OpenStackCluster) -> Route {
    let namespace = cluster.namespace().unwrap_or_default();
    let owner = capi::owner(&cluster.metadata, "Cluster");
    Route {
        own: vec![Target::Cluster(name_of(cluster))],
        related: owner
            .map(|owner| Target::MachinesOf(ObjectName::new(namespace, &owner.name)))
            .into_iter()
            .chain([Target::VanishedCluster(name_of(cluster))])
            .collect(),
    }
}

pub(super) fn our_machine_route(machine: &OpenStackMachine) -> Route {
    Route {
        own: vec![Target::Machine(name_of(machine))],
        related: vec![Target::Machine(name_of(machine))],
    }
}

pub(super) fn our_server_route(server: &OpenStackServer) -> Route {
    let name = name_of(server);
    let owners = server.metadata.owner_references.iter().flatten();
    let owner = owners
        .into_iter()
        .find(|owner| owner.kind == "OpenStackCluster");
    let related = match owner {
        // The server is the bastion of this cluster.
        Some(owner) => Target::Cluster(ObjectName::new(&name.namespace, &owner.name)),
        None => Target::Machine(name.clone()),
    };
    Route {
        own: vec![Target::Server(name)],
        related: vec![related],
    }
}

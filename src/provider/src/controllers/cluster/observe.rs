//! What a pass reads besides the related objects: the facts that the gates need (Cluster, control plane, Machines, CA),
//! the version of Octavia's API, and the Machines without a cache.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt, api::ListParams};

use super::{pass::Pass, related_objects::ClusterRelatedObjects, step_context::StepContext};
use crate::controllers::{
    Context,
    capi::{self, Cluster, Machine, condition},
};
use crate::reconcile::{ReadAt, finalizer, read_uncached};
use capo_api::v1beta2::{ApiEndpoint, OpenStackMachine};
use capo_core::{Endpoint, Lookup, ObjectName, Priority, gate_override};
use capo_gate::desired::ClusterFacts;

/// How long a CA is used without a new read.
const AUTHORITY_AGE: Duration = Duration::from_mins(10);
/// The maximum size of a CA in bytes. Real CAs have a few kB.
const LARGEST_AUTHORITY: usize = 64 * 1024;

impl Pass<'_> {
    /// Collects the facts that the gates need, as of now. The CA and the time since which the remote connection has
    /// held are kept for later passes.
    pub(super) async fn gather_facts(&mut self) -> ClusterFacts {
        let (context, related) = (self.context, &self.related);
        let connection = related
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.condition(condition::REMOTE_CONNECTION_PROBE));
        let now = Instant::now();
        let remote_connection = self.cached.remote_connection.observe(connection, now);
        let namespace = &self.name.namespace;
        let authority = &mut self.cached.authority;
        read_authority(context, namespace, &related.cluster_name, authority, now).await;
        ClusterFacts {
            paused: self.is_paused_or_moved(),
            cluster_deleting: related.is_being_deleted(),
            initialised: related.initialised(),
            gate_override: gate_override::parse_optional(
                self.annotation(gate_override::KEY),
                Timestamp::now(),
            ),
            remote_connection,
            endpoint: known_endpoint(self.object.spec.control_plane_endpoint.as_ref()),
            ca_pem: self.cached.authority.clone().map(|read| read.value),
            kubeadm_control_plane: related.control_plane.kubeadm,
            machines: openstack_machines(context, namespace, related),
        }
    }

    /// Reads which version of its API Octavia offers, if the spec restricts which addresses may connect. If the read
    /// fails, the last known version stays.
    pub(super) async fn read_octavia_version(&mut self, context: &StepContext<'_>) {
        let desired = context.desired.load_balancer.as_ref();
        if desired.is_none_or(|desired| desired.allowed_cidrs.is_none()) {
            return;
        }
        let version = context
            .cloud
            .load_balancer_api_version(Priority::Settling)
            .await;
        match version {
            Ok(version) => self.cached.octavia_version = Some(version),
            Err(error) => tracing::debug!(%error, "Reading the version of Octavia's API failed"),
        }
    }
}

/// Where clients reach the control plane, once both host and port are known.
fn known_endpoint(given: Option<&ApiEndpoint>) -> Option<Endpoint> {
    let given = given?;
    Some(Endpoint {
        host: given.host.clone().filter(|host| !host.is_empty())?,
        port: u16::try_from(given.port?).ok()?,
    })
}

/// The `OpenStackMachine`s of the control plane that exist. Objects that are being deleted and have no finalizer of
/// capo-rs any more are left out. The machine controller publishes each of the others to the tracker in its first pass.
fn openstack_machines(
    context: &Context,
    namespace: &str,
    related: &ClusterRelatedObjects,
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

async fn read_authority(
    context: &Context,
    namespace: &str,
    cluster: &str,
    authority: &mut Lookup<ReadAt<String>>,
    now: Instant,
) {
    let known = authority.found();
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
            *authority = pem.map_or(Lookup::Unknown, |pem| Lookup::Found(ReadAt::new(pem, now)));
        }
        Ok(None) => *authority = Lookup::Absent,
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

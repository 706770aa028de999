//! Reads the objects of one cluster from the Kubernetes API.

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde::Serialize;

use crate::{
    cli::connection::api_error,
    reconcile::capi::{CLUSTER_NAME_LABEL, Cluster, GROUP, Machine},
};
use capo_api::v1beta2::{OpenStackCluster, OpenStackMachine};
use capo_core::ObjectName;

/// The field selector for events that capo-rs reported.
pub(super) const OUR_EVENTS: &str = "reportingController=capo-rs";
/// The number of events that are read at most. Events live for one hour, and capo-rs limits the rate of its own.
const MOST_EVENTS: u32 = 1_000;

/// Everything that is shown of one cluster.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) cluster: Cluster,
    pub(super) openstack_cluster: Option<OpenStackCluster>,
    pub(super) machines: Vec<Machine>,
    pub(super) openstack_machines: Vec<OpenStackMachine>,
    /// Events about any object of this provider in the namespace.
    pub(super) events: Vec<Event>,
    /// What Octavia itself reports, if `--direct` was given.
    pub(super) direct: Option<Direct>,
}

/// The load balancer as Octavia reports it. The members of the cluster's status are then those of Octavia.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Direct {
    pub(super) provisioning_status: String,
    pub(super) operating_status: String,
    /// The time of the read.
    pub(super) time: Timestamp,
}

/// Access to the objects of one cluster.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) clusters: Api<Cluster>,
    pub(super) openstack_clusters: Api<OpenStackCluster>,
    pub(super) machines: Api<Machine>,
    pub(super) openstack_machines: Api<OpenStackMachine>,
    pub(super) events: Api<Event>,
    /// The name of the Cluster.
    pub(super) name: ObjectName,
    /// The selector of the cluster's machines.
    pub(super) label: String,
}

impl Objects {
    pub(super) fn new(client: &Client, namespace: &str, cluster: &str) -> Self {
        Self {
            clusters: Api::namespaced(client.clone(), namespace),
            openstack_clusters: Api::namespaced(client.clone(), namespace),
            machines: Api::namespaced(client.clone(), namespace),
            openstack_machines: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
            name: ObjectName::new(namespace, cluster),
            label: format!("{CLUSTER_NAME_LABEL}={cluster}"),
        }
    }

    /// Reads everything once.
    ///
    /// # Errors
    /// The object that could not be read, or that the Cluster does not exist or is not this provider's.
    pub(super) async fn read(&self) -> Result<Snapshot, String> {
        let cluster = self.cluster().await?;
        let infrastructure = infrastructure_of(&cluster, &self.name)?;
        let labelled = ListParams::default().labels(&self.label);
        let ours = ListParams::default().fields(OUR_EVENTS).limit(MOST_EVENTS);
        let (openstack_cluster, machines, openstack_machines, events) = futures::try_join!(
            async {
                let read = self.openstack_clusters.get_opt(&infrastructure).await;
                read.map_err(|error| api_error("reading the OpenStackCluster", &error))
            },
            async {
                let read = self.machines.list(&labelled).await;
                read.map_err(|error| api_error("listing Machines", &error))
            },
            async {
                let read = self.openstack_machines.list(&labelled).await;
                read.map_err(|error| api_error("listing OpenStackMachines", &error))
            },
            async {
                let read = self.events.list(&ours).await;
                read.map_err(|error| api_error("listing Events", &error))
            },
        )?;
        Ok(Snapshot {
            cluster,
            openstack_cluster,
            machines: machines.items,
            openstack_machines: openstack_machines.items,
            events: events.items,
            direct: None,
        })
    }

    /// Reads the Cluster.
    pub(super) async fn cluster(&self) -> Result<Cluster, String> {
        let ObjectName { namespace, name } = &self.name;
        let read = self.clusters.get_opt(name).await;
        read.map_err(|error| api_error("reading the Cluster", &error))?
            .ok_or_else(|| {
                format!(
                    "there is no Cluster {name:?} in namespace {namespace}; -n names another namespace"
                )
            })
    }
}

/// The name of the Cluster's OpenStackCluster.
pub(super) fn infrastructure_of(cluster: &Cluster, name: &ObjectName) -> Result<String, String> {
    match &cluster.spec.infrastructure_ref {
        Some(reference) if reference.kind == "OpenStackCluster" => Ok(reference.name.clone()),
        Some(reference) => Err(format!(
            "the infrastructure of Cluster {name} is {} {}, not an OpenStackCluster",
            reference.kind, reference.name
        )),
        None => Err(format!(
            "Cluster {name} has no infrastructureRef: it has no OpenStackCluster ({GROUP}) to show"
        )),
    }
}

/// Whether an event is about one of these objects.
pub(super) fn is_about(
    event: &Event,
    cluster: Option<&OpenStackCluster>,
    machines: &[OpenStackMachine],
) -> bool {
    let Some(about) = &event.regarding else {
        return false;
    };
    let name = about.name.as_deref().unwrap_or_default();
    match about.kind.as_deref() {
        Some("OpenStackCluster") => cluster.is_some_and(|cluster| cluster.name_any() == name),
        // A server has the name of its machine.
        Some("OpenStackMachine" | "OpenStackServer") => {
            machines.iter().any(|machine| machine.name_any() == name)
        }
        _ => false,
    }
}

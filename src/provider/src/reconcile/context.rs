//! The state that all passes of all controllers share.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client, runtime::reflector::Store};

use super::{
    PassObserver,
    capi::{Cluster, Machine, WATCH_FILTER_LABEL},
    health_check::MachineHealthCheck,
    identity::SecretVersions,
};
use crate::{
    kubernetes::{events::Events, replaced_versions::ReplacedVersions},
    tracker::Tracker,
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine},
};
use capo_openstack::Clouds;

/// The state that all passes of all controllers share. A process has one context.
pub struct SharedContext {
    /// The Kubernetes API of the management cluster.
    pub client: Client,
    /// The OpenStack sessions and request budgets, one per distinct identity.
    pub clouds: Clouds,
    /// The versions of the Secrets with credentials that are in use.
    pub secret_versions: SecretVersions,
    /// The workers of the load balancers. Its settings hold the mode of the gate.
    pub tracker: Tracker,
    /// The options of this manager.
    pub settings: Settings,
    /// Events, deduplicated and bounded.
    pub events: Events,
    /// The objects as last read.
    pub stores: Stores,
    /// The versions of objects that `stores` may still show although this process has replaced them.
    pub replaced: ReplacedVersions,
    /// Metrics.
    pub observer: Arc<dyn PassObserver>,
}

/// The options of this manager that controllers depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The only namespace that is reconciled (`--namespace`); `None` means all namespaces.
    pub namespace: Option<String>,
    /// The value of the label `cluster.x-k8s.io/watch-filter` that objects must have; `None` means all objects.
    pub watch_filter: Option<String>,
    /// The number of passes over `OpenStackCluster`s at the same time.
    pub cluster_concurrency: u16,
    /// The number of passes over `OpenStackMachine`s at the same time, and over `OpenStackServer`s.
    pub machine_concurrency: u16,
    /// The number of passes over `OpenStackMachineTemplate`s at the same time.
    pub machine_template_concurrency: u16,
    /// The time between two passes over an object that has not changed (`--sync-period`).
    pub sync_period: Duration,
    /// The name of this process in events.
    pub instance: String,
    /// The period in which the version of every Secret with credentials is read.
    pub secret_check_period: Duration,
    /// The namespaces that may use an `OpenStackClusterIdentity` without a `namespaceSelector`.
    pub cluster_identity_default: ClusterIdentityDefault,
}

/// Who may use an `OpenStackClusterIdentity` without a `namespaceSelector` (`--cluster-identity-default`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ClusterIdentityDefault {
    /// Every namespace, as in CAPO
    #[default]
    Allow,
    /// No namespace
    Deny,
}

impl Settings {
    /// The label selector of `--watch-filter`.
    pub(crate) fn label_selector(&self) -> Option<String> {
        let value = self.watch_filter.as_ref()?;
        Some(format!("{WATCH_FILTER_LABEL}={value}"))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            watch_filter: None,
            cluster_concurrency: 10,
            machine_concurrency: 10,
            machine_template_concurrency: 10,
            sync_period: Duration::from_mins(10),
            instance: "capo-rs".to_owned(),
            secret_check_period: Duration::from_secs(40),
            cluster_identity_default: ClusterIdentityDefault::default(),
        }
    }
}

/// The objects as last read by one watch per kind. They are complete once [`Stores::wait_until_ready`] returned.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Cluster API's Clusters.
    pub clusters: Store<Cluster>,
    /// Cluster API's Machines.
    pub machines: Store<Machine>,
    /// Cluster API's MachineHealthChecks. No pass waits for their first list, because only messages use them.
    pub health_checks: Store<MachineHealthCheck>,
    /// The OpenStackClusters.
    pub openstack_clusters: Store<OpenStackCluster>,
    /// The OpenStackMachines.
    pub openstack_machines: Store<OpenStackMachine>,
    /// The OpenStackServers.
    pub openstack_servers: Store<OpenStackServer>,
}

impl Stores {
    /// Returns when every kind except MachineHealthCheck was listed completely, or `false` when a watch ended before
    /// that.
    pub async fn wait_until_ready(&self) -> bool {
        let ready = futures::join!(
            self.clusters.wait_until_ready(),
            self.machines.wait_until_ready(),
            self.openstack_clusters.wait_until_ready(),
            self.openstack_machines.wait_until_ready(),
            self.openstack_servers.wait_until_ready(),
        );
        matches!(ready, (Ok(()), Ok(()), Ok(()), Ok(()), Ok(())))
    }
}

impl SharedContext {
    /// An API for `K` in all namespaces, or in that of `--namespace`.
    pub(crate) fn watched<K>(client: &Client, settings: &Settings) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        api_in(client, settings.namespace.as_deref())
    }

    /// An API for `K` in `namespace`.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// An API for `K` in this namespace, or in all of them.
pub(crate) fn api_in<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    namespace.map_or_else(
        || Api::all(client.clone()),
        |namespace| Api::namespaced(client.clone(), namespace),
    )
}

//! What every pass of every controller has at hand.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client, runtime::reflector::Store};

use super::{
    Observer,
    capi::{Cluster, Machine, WATCH_FILTER_LABEL},
    health_check::MachineHealthCheck,
};
use crate::{kubernetes::events::Events, tracker::Membership};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine},
};
use capo_openstack::Clouds;

/// What every pass of every controller has at hand. One per process.
pub struct SharedContext {
    /// The Kubernetes API of the management cluster.
    pub client: Client,
    /// Sign-ins and budgets, one per distinct identity.
    pub clouds: Clouds,
    /// The load balancers' workers; its settings hold the mode of the gate.
    pub membership: Membership,
    /// The options of this manager.
    pub settings: Settings,
    /// Events, deduplicated and bounded.
    pub events: Events,
    /// Objects as last seen.
    pub stores: Stores,
    /// Metrics.
    pub observer: Arc<dyn Observer>,
}

/// The options of this manager that controllers depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Look at this namespace only (`--namespace`); `None` is all.
    pub namespace: Option<String>,
    /// Look only at objects whose label `cluster.x-k8s.io/watch-filter` has this value.
    pub watch_filter: Option<String>,
    /// Passes over `OpenStackCluster`s at once.
    pub cluster_concurrency: u16,
    /// Passes over `OpenStackMachine`s at once, and over `OpenStackServer`s.
    pub machine_concurrency: u16,
    /// Passes over `OpenStackMachineTemplate`s at once.
    pub machine_template_concurrency: u16,
    /// The pause after a pass that found nothing to do (`--sync-period`).
    pub sync_period: Duration,
    /// Name of this process in events.
    pub instance: String,
}

impl Settings {
    /// The label selector that `--watch-filter` means.
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
        }
    }
}

/// Objects as last seen, by one watch per kind. Complete once [`Stores::wait_until_ready`] came back.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Cluster API's Clusters.
    pub clusters: Store<Cluster>,
    /// Cluster API's Machines.
    pub machines: Store<Machine>,
    /// Cluster API's MachineHealthChecks. Nothing waits for them: they make messages longer.
    pub health_checks: Store<MachineHealthCheck>,
    /// Our clusters.
    pub openstack_clusters: Store<OpenStackCluster>,
    /// Our machines.
    pub openstack_machines: Store<OpenStackMachine>,
    /// Our servers.
    pub openstack_servers: Store<OpenStackServer>,
}

impl Stores {
    /// Comes back once every kind that decides something was listed completely; never when a watch ended before.
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
        settings.namespace.as_deref().map_or_else(
            || Api::all(client.clone()),
            |namespace| Api::namespaced(client.clone(), namespace),
        )
    }

    /// An API for `K` in `namespace`.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}

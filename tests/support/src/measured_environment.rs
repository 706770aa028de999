//! One kube-apiserver, one manager process, and clusters on clouds that record every call.

use std::{
    ops::{Deref, DerefMut},
    time::{Duration, Instant},
};

use fake_cloud::{Durations, FakeCloud, Options};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::env::{
    Manager, ScriptedCluster,
    cluster_api::api,
    manager::counted,
    scripted_cluster::{identity, machine_spec, open_stack_cluster},
};
use crate::waiting::{PATIENCE, Wait};

pub use crate::env::{cluster_api::is_provisioned, scripted_cluster::NAMESPACE};

/// A cluster to create.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The name of the cluster and of its OpenStackCluster.
    pub name: &'a str,
    /// The name of the Secret with its clouds.yaml.
    pub credentials: &'a str,
    /// Octavia's provider.
    pub provider: &'a str,
    /// API ports besides that of the API server.
    pub additional_ports: &'a [u16],
}

/// The state in which figures are measured.
pub struct MeasuredEnvironment {
    // The fields are dropped in this order.
    /// The manager, while it runs.
    pub manager: Option<Manager>,
    cluster: ScriptedCluster,
}

impl Deref for MeasuredEnvironment {
    type Target = ScriptedCluster;

    fn deref(&self) -> &ScriptedCluster {
        &self.cluster
    }
}

impl DerefMut for MeasuredEnvironment {
    fn deref_mut(&mut self) -> &mut ScriptedCluster {
        &mut self.cluster
    }
}

impl MeasuredEnvironment {
    /// Installs everything except the manager.
    pub async fn without_manager() -> Self {
        Self {
            manager: None,
            cluster: ScriptedCluster::start().await.unwrap(),
        }
    }

    /// Starts the manager.
    pub async fn start(&mut self, arguments: &[&str]) {
        let logs = self.cluster.kubernetes.folder();
        let manager = self.installation.ready_manager(logs, arguments).await;
        self.manager = Some(manager.unwrap());
    }

    /// Stops the manager as the kubelet does. Returns how long that took.
    pub async fn stop(&mut self) -> Duration {
        let mut manager = self.manager.take().unwrap();
        let begun = Instant::now();
        manager.process.signal("TERM").unwrap();
        let wait = move || manager.process.wait(PATIENCE);
        let status = tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
        begun.elapsed()
    }

    /// Creates a cluster.
    pub async fn cluster(&self, plan: Plan<'_>) {
        let change = json!({"apiServer": {"managedLoadBalancer": {
            "provider": plan.provider, "additionalPorts": plan.additional_ports,
        }}});
        let identity = identity(plan.credentials, "demo");
        let infrastructure = open_stack_cluster(NAMESPACE, plan.name, &identity, &change);
        self.cluster_api
            .create_cluster(plan.name, infrastructure)
            .await;
    }

    /// Creates a control-plane machine of a cluster.
    pub async fn machine(&self, plan: Plan<'_>, name: &str) {
        let spec = machine_spec(&identity(plan.credentials, "demo"), "ubuntu-kube");
        self.cluster_api
            .create_machine(plan.name, name, true, spec)
            .await;
    }

    /// Waits until this number of objects of a kind are as they should be.
    pub async fn until_all(
        &self,
        kind: &str,
        wanted: usize,
        at_most: Duration,
        is_good: impl Fn(&Value) -> bool,
    ) {
        let objects = api(&self.admin, NAMESPACE, kind);
        // A list of thousands of objects costs as much as what a benchmark measures.
        let wait = Wait::default()
            .at_most(at_most)
            .between(Duration::from_secs(2));
        let seen = wait.ok(async || {
            let list = objects.list(&ListParams::default()).await.unwrap();
            let good = list.iter().filter(|object| is_good(&object.data)).count();
            if good == wanted { Ok(()) } else { Err(good) }
        });
        if let Err(good) = seen.await {
            panic!("{good} of {wanted} {kind}");
        }
    }

    /// How many passes of each of these controllers of the running manager have succeeded.
    pub async fn passes<const N: usize>(&self, controllers: [&str; N]) -> [usize; N] {
        let metrics = self.manager.as_ref().unwrap().metrics().await;
        controllers.map(|controller| {
        let line = format!(
            "controller_runtime_reconcile_total{{controller=\"{controller}\",result=\"success\"}} "
        );
        counted(&metrics, &line)
        })
    }
}

/// A cloud for many machines, whose operations take no time and which carries no traffic.
pub async fn quick_cloud() -> FakeCloud {
    FakeCloud::start(Options {
        durations: Durations::instant(),
        data_path: false,
        floating_range: Some("172.24.0.0/20".parse().unwrap()),
        ..Options::default()
    })
    .await
    .unwrap()
}

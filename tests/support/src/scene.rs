//! One kube-apiserver, one manager process, and clusters on clouds that record every call.

use std::time::{Duration, Instant};

use fake_cloud::{Durations, FakeCloud, Options};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::env::{
    ClusterApi, Installation, Kubernetes,
    apply::{apply, credentials},
    cluster_api::api,
    manager::{self, Manager},
};
use crate::waiting::{PATIENCE, Wait};

pub use crate::env::cluster_api::is_provisioned;

/// The namespace of all objects.
pub const NAMESPACE: &str = "default";

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
pub struct Scene {
    // The fields are dropped in this order.
    /// The manager, while it runs.
    pub manager: Option<Manager>,
    /// Cluster API, as a script.
    pub cluster_api: ClusterApi,
    /// The Kubernetes API, as cluster-admin.
    pub admin: kube::Client,
    installation: Installation,
    kubernetes: Kubernetes,
}

impl Scene {
    /// Installs everything except the manager, which is not started.
    pub async fn set() -> Self {
        let (kubernetes, installation) = Installation::in_new_cluster().await.unwrap();
        let admin = kubernetes.admin().await.unwrap();
        Self {
            manager: None,
            cluster_api: ClusterApi::play(admin.clone(), NAMESPACE),
            admin,
            installation,
            kubernetes,
        }
    }

    /// Starts the manager.
    pub async fn start(&mut self, arguments: &[&str]) {
        let logs = self.kubernetes.folder();
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

    /// Creates the Secret with the credentials of a cloud.
    pub async fn credentials(&self, name: &str, cloud: &FakeCloud) {
        let secret = credentials(NAMESPACE, name, &cloud.clouds_yaml());
        apply(&self.admin, &[secret]).await.unwrap();
    }

    /// Creates a cluster.
    pub async fn cluster(&self, plan: Plan<'_>) {
        let infrastructure = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": plan.name, "namespace": NAMESPACE},
            "spec": {
                "identityRef": {"name": plan.credentials, "cloudName": "demo"},
                "managedSubnets": [{"cidr": "10.6.0.0/24"}],
                "managedSecurityGroups": {"allowAllInClusterTraffic": true},
                "apiServer": {"managedLoadBalancer": {
                    "provider": plan.provider, "additionalPorts": plan.additional_ports,
                }},
            },
        });
        self.cluster_api
            .create_cluster(plan.name, infrastructure)
            .await;
    }

    /// Creates a control-plane machine of a cluster.
    pub async fn machine(&self, plan: Plan<'_>, name: &str) {
        let spec = json!({
            "identityRef": {"name": plan.credentials, "cloudName": "demo"},
            "flavor": {"filter": {"name": "m1.small"}},
            "image": {"filter": {"name": "ubuntu-kube"}},
        });
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
        let url = self.manager.as_ref().unwrap().metrics_url();
        let (_, metrics) = manager::get(&url).await.unwrap();
        controllers.map(|controller| {
            let line = format!(
                "controller_runtime_reconcile_total{{controller=\"{controller}\",result=\"success\"}} "
            );
            let count = metrics.lines().find_map(|text| text.strip_prefix(&line));
            count
                .and_then(|count| count.parse().ok())
                .unwrap_or_default()
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

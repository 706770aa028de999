//! One manager, one real Prometheus that scrapes it every two seconds, and clusters on clouds that each go wrong in
//! their own way.

use std::time::Duration;

use fake_cloud::{Durations, FakeCloud, Options};
use serde_json::{Value, json};
use test_support::waiting::Wait;

use super::quick;
use crate::{
    env::{
        Kubernetes, Manager, Prometheus, ScriptedCluster,
        cluster_api::is_provisioned,
        scripted_cluster::{NAMESPACE, identity, machine_spec, open_stack_cluster},
    },
    metrics::serving::reader,
};

/// More than an alert takes to fire, or a rollout, on a busy machine.
pub(super) const WAIT: Wait = Wait {
    at_most: Duration::from_mins(10),
    between: Duration::from_secs(1),
};

const FLAGS: [&str; 9] = [
    "--insecure-diagnostics=false",
    "--leader-elect",
    // A busy machine is no reason to lose the lease.
    "--leader-elect-lease-duration=5m",
    "--leader-elect-renew-deadline=4m",
    "--sync-period=5s",
    "--member-warn-after=4s",
    "--member-alert-after=15s",
    "--member-stuck-after=60s",
    // A held member is not removed before the alerts have reported it.
    "--member-orphan-after=10m",
];

pub(super) struct MonitoredClusters {
    // Dropped in this order.
    pub(super) prometheus: Prometheus,
    manager: Manager,
    cluster: ScriptedCluster,
    token: String,
}

/// A cloud, by the name of its credentials in Kubernetes and in clouds.yaml.
pub(super) async fn cloud() -> FakeCloud {
    FakeCloud::start(Options {
        durations: Durations {
            server_build: 1.0,
            load_balancer_create: 1.0,
            operation: 0.5,
            heartbeat: 0.5,
            ..Durations::instant()
        },
        data_path: false,
        ..Options::default()
    })
    .await
    .unwrap()
}

impl MonitoredClusters {
    pub(super) async fn start() -> Self {
        let cluster = ScriptedCluster::start().await.unwrap();
        let kubernetes = &cluster.kubernetes;
        let logs = kubernetes.folder();
        let manager = cluster.installation.ready_manager(logs, &FLAGS).await;
        let mut manager = manager.unwrap();
        manager.until_logged("Leading").await.unwrap();
        let token = reader(kubernetes).await;
        Self {
            prometheus: prometheus(kubernetes, &manager, &token).await,
            manager,
            cluster,
            token,
        }
    }

    /// Hands out the credentials of a cloud, which is called `name` in its clouds.yaml.
    pub(super) async fn credentials(&self, name: &str, cloud: &FakeCloud) {
        let named = cloud
            .clouds_yaml()
            .replace("  demo:\n", &format!("  {name}:\n"));
        self.cluster.credentials(name, &named).await;
    }

    /// Creates a cluster with a control-plane machine and waits until that has joined.
    pub(super) async fn cluster(&self, name: &str, cloud: &str) {
        // Members count as healthy after 15 s instead of 45.
        let change = json!({"apiServer": {"managedLoadBalancer": {
            "provider": "amphorav2", "monitor": {"delay": 3, "timeout": 2, "maxRetries": 1, "maxRetriesDown": 1},
        }}});
        let infrastructure = open_stack_cluster(NAMESPACE, name, &identity(cloud, cloud), &change);
        let cluster_api = &self.cluster.cluster_api;
        cluster_api.create_cluster(name, infrastructure).await;
        self.until_object(name, "OpenStackCluster", is_provisioned)
            .await;
        self.machine(name, cloud, 0).await;
        self.until_joined(name, 0).await;
    }

    /// Returns when no alert fires or is about to.
    pub(super) async fn until_all_is_quiet(&self) {
        let seen = WAIT.ok(async || {
            let alerts = self.prometheus.at("ALERTS", super::now()).await.unwrap();
            if alerts["result"] == json!([]) {
                Ok(())
            } else {
                Err(alerts)
            }
        });
        if let Err(alerts) = seen.await {
            panic!("{alerts}");
        }
    }

    /// Creates a further control-plane machine.
    pub(super) async fn machine(&self, cluster: &str, cloud: &str, index: u8) {
        let spec = machine_spec(&identity(cloud, cloud), "ubuntu-kube");
        self.cluster
            .cluster_api
            .create_machine(cluster, &format!("{cluster}-cp-{index}"), true, spec)
            .await;
    }

    pub(super) async fn until_joined(&self, cluster: &str, index: u8) {
        self.until_object(&format!("{cluster}-cp-{index}"), "Machine", |machine| {
            !machine["status"]["nodeRef"].is_null()
        })
        .await;
    }

    /// Deletes a machine as a rollout does, and waits until it is gone.
    pub(super) async fn replace(&self, machine: &str) {
        self.cluster.cluster_api.delete("Machine", machine).await;
        self.until_object(machine, "Machine", Value::is_null).await;
    }

    async fn until_object(&self, name: &str, kind: &str, wanted: impl Fn(&Value) -> bool) {
        self.cluster
            .cluster_api
            .wait_for(kind, name, WAIT.at_most, wanted)
            .await
            .unwrap();
    }

    /// The metrics, as Prometheus gets them.
    pub(super) async fn scrape(&self) -> String {
        let client = self.cluster.kubernetes.authority().https_client();
        let url = format!("https://{}", self.manager.metrics_url());
        let answer = client
            .get(url)
            .bearer_auth(&self.token)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    }
}

async fn prometheus(kubernetes: &Kubernetes, manager: &Manager, token: &str) -> Prometheus {
    let folder = kubernetes.folder().join("prometheus");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let address = manager.metrics_url();
    let configuration = json!({
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": [write("rules.yaml", &quick::rules())],
        "scrape_configs": [{
            "job_name": "capo-controller-manager", "scheme": "https",
            "authorization": {"credentials_file": write("token", token)},
            "tls_config": {"ca_file": write("ca.crt", &kubernetes.authority().certificate())},
            "static_configs": [{"targets": [address.split('/').next()]}],
        }],
    });
    Prometheus::start(&folder, &configuration.to_string())
        .await
        .unwrap()
}

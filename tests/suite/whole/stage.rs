//! Everything that a test of the whole looks at and pulls on.

use std::{collections::BTreeMap, time::Duration};

use fake_cloud::{Durations, FakeCloud, Options};
use serde_json::{Value, json};

use crate::env::{ClusterApi, Installation, Kubernetes, Manager, apply::apply};

/// More than any step takes on a slow machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// Lease times that let a test see a lease end.
pub(super) const SHORT_LEASE: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// A management cluster and a cloud of one's own: managers elect, so two tests can't share them.
pub(super) struct Stage {
    pub(super) kubernetes: Kubernetes,
    pub(super) cloud: FakeCloud,
    pub(super) cluster_api: ClusterApi,
    installation: Installation,
}

impl Stage {
    /// Sets everything up but the manager.
    pub(super) async fn set() -> Self {
        let kubernetes = Kubernetes::start().await.unwrap();
        kubernetes.install_cluster_api().await.unwrap();
        let installation = Installation::install(&kubernetes).await.unwrap();
        let cloud = FakeCloud::start(Options {
            durations: Durations {
                server_build: 0.5,
                load_balancer_create: 1.0,
                operation: 0.3,
                ..Durations::instant()
            },
            ..Options::default()
        })
        .await
        .unwrap();
        let admin = kubernetes.admin().await.unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "cloud-config", "namespace": "default"},
            "stringData": {"clouds.yaml": cloud.clouds_yaml()},
        });
        apply(&admin, &[secret]).await.unwrap();
        Self {
            cluster_api: ClusterApi::play(admin, "default"),
            kubernetes,
            cloud,
            installation,
        }
    }

    /// Starts a manager; its log goes to a folder of that name. The first one serves the webhooks.
    pub(super) fn start_manager(&self, name: &str, arguments: &[&str]) -> Manager {
        let folder = self.kubernetes.folder().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let webhooks = self.installation.arguments();
        let all: Vec<&str> = webhooks
            .iter()
            .map(String::as_str)
            .chain(arguments.iter().copied())
            .collect();
        Manager::start(&folder, &self.installation.kubeconfig, &all).unwrap()
    }

    /// Creates a Cluster with a managed network and load balancer on this range of the loopback network.
    pub(super) async fn create_cluster(&self, name: &str, subnet: &str) {
        let infrastructure = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "identityRef": {"name": "cloud-config", "cloudName": "demo"},
                "managedSubnets": [{"cidr": subnet}],
                "managedSecurityGroups": {"allowAllInClusterTraffic": true},
                "apiServer": {"managedLoadBalancer": {"provider": "amphorav2"}},
            },
        });
        self.cluster_api
            .create_cluster(name, infrastructure)
            .await
            .unwrap();
    }

    /// Creates a machine.
    pub(super) async fn create_machine(&self, cluster: &str, name: &str, control_plane: bool) {
        self.cluster_api
            .create_machine(cluster, name, control_plane, machine())
            .await
            .unwrap();
    }

    /// Comes back when `status.initialization.provisioned` is true.
    pub(super) async fn until_provisioned(&self, kind: &str, name: &str) {
        self.cluster_api
            .wait_for(kind, name, PATIENCE, |object| {
                object["status"]["initialization"]["provisioned"] == true
            })
            .await
            .unwrap();
    }

    /// Deletes the Cluster and all that belongs to it.
    pub(super) async fn delete_cluster(&self, name: &str) {
        self.cluster_api.delete("Cluster", name).await.unwrap();
        self.cluster_api
            .wait_for("Cluster", name, PATIENCE, Value::is_null)
            .await
            .unwrap();
    }

    /// What of a cluster is left in OpenStack, and what exists twice.
    pub(super) fn assert_nothing_is_left_of(&self, cluster: &str) {
        let name = format!("k8s-clusterapi-cluster-default-{cluster}");
        assert_eq!(self.cloud.control().leftovers(&name), []);
        self.assert_nothing_exists_twice();
    }

    /// At most one object under every logical key.
    pub(super) fn assert_nothing_exists_twice(&self) {
        assert_eq!(self.cloud.control().duplicates(), []);
    }

    /// Objects with a name that were created more than once, by path and name.
    pub(super) fn created_twice(&self) -> Vec<String> {
        let mut created: BTreeMap<String, u32> = BTreeMap::new();
        for call in self.cloud.control().calls_since(0) {
            let accepted = call.status.is_none_or(|status| status < 300);
            let Some(body) = call.body.filter(|_| call.method == "POST" && accepted) else {
                continue;
            };
            // {"server": {"name": …}}: one key, the kind of thing.
            let name = body.as_object().and_then(|body| {
                let (_, thing) = body.iter().next()?;
                thing["name"].as_str()
            });
            if let Some(name) = name {
                *created.entry(format!("{} {name}", call.path)).or_default() += 1;
            }
        }
        created
            .into_iter()
            .filter_map(|(what, times)| (times > 1).then_some(what))
            .collect()
    }
}

fn machine() -> Value {
    json!({
        "identityRef": {"name": "cloud-config", "cloudName": "demo"},
        "flavor": {"filter": {"name": "m1.small"}},
        "image": {"filter": {"name": "ubuntu-kube"}},
    })
}

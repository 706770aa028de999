//! The environment of one test of this folder: a kube-apiserver and a cloud of its own, and managers as processes.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use fake_cloud::{Durations, FakeCloud, Options};
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::env::{
    ClusterApi, Manager, ScriptedCluster,
    apply::{apply, namespace_with_credentials},
    kubernetes,
    scripted_cluster::{NAMESPACE, identity, machine_spec, open_stack_cluster},
};

/// Lease times that are short enough for a test to see a lease end, and long enough for a busy machine to keep one.
pub(crate) const SHORT_LEASE: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=12s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=1s",
];

/// A management cluster and a cloud that one test has for itself: its managers elect a leader, and those of another
/// test must not take part.
pub(crate) struct IsolatedEnvironment {
    pub(crate) cloud: Arc<FakeCloud>,
    cluster: ScriptedCluster,
}

impl Deref for IsolatedEnvironment {
    type Target = ScriptedCluster;

    fn deref(&self) -> &ScriptedCluster {
        &self.cluster
    }
}

impl DerefMut for IsolatedEnvironment {
    fn deref_mut(&mut self) -> &mut ScriptedCluster {
        &mut self.cluster
    }
}

impl IsolatedEnvironment {
    /// Starts everything except a manager.
    pub(crate) async fn start() -> Self {
        Self::with(cloud().await, ScriptedCluster::start().await.unwrap()).await
    }

    /// The same, installed from what `capo-rs manifests` printed with options.
    pub(crate) async fn start_from(manifests: &str) -> Self {
        let cluster = ScriptedCluster::start_from(manifests).await;
        Self::with(cloud().await, cluster.unwrap()).await
    }

    /// Another management cluster with the same cloud.
    pub(crate) async fn beside(other: &Self) -> Self {
        let cluster = ScriptedCluster::start().await;
        Self::with(Arc::clone(&other.cloud), cluster.unwrap()).await
    }

    async fn with(cloud: Arc<FakeCloud>, cluster: ScriptedCluster) -> Self {
        let clouds_yaml = cloud.clouds_yaml();
        cluster.credentials("cloud-config", &clouds_yaml).await;
        Self { cloud, cluster }
    }

    /// Starts the script of Cluster API for one more namespace, which gets the credentials too.
    pub(crate) async fn another_namespace(&self, name: &str) -> ClusterApi {
        let documents = namespace_with_credentials(name, &self.cloud.clouds_yaml());
        apply(&self.admin, &documents).await.unwrap();
        ClusterApi::play(self.admin.clone(), name)
    }

    /// Starts the script of Cluster API again, after it was stopped.
    pub(crate) fn play_again(&self) -> ClusterApi {
        ClusterApi::play(self.admin.clone(), NAMESPACE)
    }

    /// A client with the manager's account.
    pub(crate) async fn client_of_the_manager(&self) -> Client {
        kubernetes::client(&self.installation.kubeconfig)
            .await
            .unwrap()
    }

    /// The port at which the first manager serves the webhooks.
    pub(crate) fn webhook_port(&self) -> u16 {
        self.installation.webhook_port
    }

    /// Starts a manager; its log goes to a folder of that name. The first one serves the webhooks.
    pub(crate) fn start_manager(&self, name: &str, arguments: &[&str]) -> Manager {
        let folder = self.kubernetes.folder().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        self.installation
            .start_manager(&folder, arguments, Vec::new())
            .unwrap()
    }

    /// The same, and waits until it is ready.
    pub(crate) async fn ready_manager(&self, name: &str, arguments: &[&str]) -> Manager {
        let mut manager = self.start_manager(name, arguments);
        manager.until_ready().await.unwrap();
        manager
    }

    /// Creates a Cluster with a managed network and load balancer on this range of the loopback network.
    pub(crate) async fn create_cluster(&self, name: &str, subnet: &str) {
        let change = json!({
            "managedSubnets": [{"cidr": subnet}],
            "apiServer": {"managedLoadBalancer": {"provider": "amphorav2"}},
        });
        let identity = identity("cloud-config", "demo");
        let infrastructure = open_stack_cluster(NAMESPACE, name, &identity, &change);
        self.cluster_api.create_cluster(name, infrastructure).await;
    }

    /// Creates a machine.
    pub(crate) async fn create_machine(&self, cluster: &str, name: &str, control_plane: bool) {
        let spec = machine_spec(&identity("cloud-config", "demo"), "ubuntu-kube");
        self.cluster_api
            .create_machine(cluster, name, control_plane, spec)
            .await;
    }

    /// Listens at the machine's address in place of an API server, so that the health monitor finds the member up.
    pub(crate) async fn listen(&self, machine: &str) -> AbortOnDropHandle<()> {
        let seen = self
            .cluster_api
            .until_object("OpenStackMachine", machine, |object| {
                internal_address(object).is_some()
            })
            .await;
        let address = internal_address(&seen).unwrap();
        let listener = TcpListener::bind((address, 6443)).await.unwrap();
        AbortOnDropHandle::new(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(stream);
            }
        }))
    }

    /// Returns when `status.initialization.provisioned` is true.
    pub(crate) async fn until_provisioned(&self, kind: &str, name: &str) {
        self.cluster_api.until_provisioned(kind, name).await;
    }

    /// Deletes the Cluster and all that belongs to it.
    pub(crate) async fn delete_cluster(&self, name: &str) {
        self.cluster_api.delete("Cluster", name).await;
        self.cluster_api.until_gone("Cluster", name).await;
    }

    /// Checks that nothing of a cluster is left in OpenStack, and that nothing exists twice.
    pub(crate) fn assert_nothing_is_left_of(&self, cluster: &str) {
        let name = format!("k8s-clusterapi-cluster-default-{cluster}");
        assert_eq!(self.cloud.control().leftovers(&name), []);
        self.assert_nothing_exists_twice();
    }

    /// Checks that at most one object exists under every logical key.
    pub(crate) fn assert_nothing_exists_twice(&self) {
        assert_eq!(self.cloud.control().duplicates(), []);
    }

    /// Objects with a name that were created more than once, by path and name.
    pub(crate) fn created_twice(&self) -> Vec<String> {
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

async fn cloud() -> Arc<FakeCloud> {
    let options = Options {
        durations: Durations {
            server_build: 0.5,
            load_balancer_create: 1.0,
            operation: 0.3,
            ..Durations::instant()
        },
        ..Options::default()
    };
    Arc::new(FakeCloud::start(options).await.unwrap())
}

fn internal_address(machine: &Value) -> Option<IpAddr> {
    let addresses = machine["status"]["addresses"].as_array()?;
    let own = addresses
        .iter()
        .find(|address| address["type"] == "InternalIP")?;
    own["address"].as_str()?.parse().ok()
}

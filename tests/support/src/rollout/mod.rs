//! A cluster under test: its cloud, its manager, its machines.

pub mod foreign_client;
mod look;
pub mod machines;
pub mod management_cluster;
pub mod manifests;
pub mod proof;
pub mod results;
pub mod workload_cluster;

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use fake_cloud::{Durations, FakeCloud, Options};
use jiff::Timestamp;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    env::{
        Manager, apply,
        cluster_api::{api, condition},
        programs,
    },
    invariants::{figures::Figures, secrets},
    repository,
    timeline::{Timeline, What, cloud::CloudWatch, management::ManagementWatch},
};

use self::{
    foreign_client::ForeignClient, machines::Machines, management_cluster::ManagementCluster,
    workload_cluster::WorkloadCluster,
};
pub use self::{look::ROLLOUT_AT_MOST, manifests::certificates};

/// Our pre-terminate hook.
pub const HOOK: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// The condition that shows the state of the gate.
pub const GATE: &str = "APIServerLoadBalancerReady";

/// The options of a scenario.
#[derive(Debug, Clone)]
pub struct RolloutOptions {
    /// Namespace and name of the cluster. No other scenario uses them.
    pub name: &'static str,
    pub replicas: u32,
    /// 1, or 0 to remove the old machine first.
    pub max_surge: u32,
    /// Octavia's provider.
    pub provider: &'static str,
    /// Whether a real HAProxy carries the connections. Otherwise the fake cloud does it in the same way.
    pub haproxy: bool,
    /// `spec.apiServer.managedLoadBalancer.monitor`.
    pub monitor: Value,
    /// Ports besides that of the API server.
    pub more_ports: Vec<u16>,
    /// Arguments of the manager besides those that every manager gets.
    pub arguments: Vec<&'static str>,
    /// The durations of the cloud's operations.
    pub durations: Durations,
}

impl Default for RolloutOptions {
    fn default() -> Self {
        Self {
            name: "",
            replicas: 3,
            max_surge: 1,
            provider: "amphorav2",
            haproxy: false,
            monitor: json!({"delay": 1, "timeout": 1, "maxRetries": 3, "maxRetriesDown": 2}),
            more_ports: Vec::new(),
            arguments: Vec::new(),
            durations: Durations {
                load_balancer_create: 2.0,
                ..Durations::default()
            },
        }
    }
}

/// A running cluster under test.
pub struct Rollout {
    /// A client with cluster-admin rights in the management cluster.
    pub client: Client,
    /// The namespace of its objects.
    pub namespace: String,
    /// The name of the cluster, its control plane, its infrastructure and its template.
    pub cluster: String,
    pub cloud: FakeCloud,
    pub workload: Arc<WorkloadCluster>,
    /// The manager of this namespace, while it runs.
    pub manager: Mutex<Option<Manager>>,
    pub machines: Machines,
    /// All events of the cluster, from the start.
    pub timeline: Timeline,
    watches: Watches,
    arguments: Vec<String>,
    /// This socket is held so that no other process derives the same addresses.
    claim: TcpListener,
}

/// The tasks that record what happens in the management cluster and in the cloud, until they are dropped.
struct Watches {
    _management: ManagementWatch,
    cloud: CloudWatch,
}

impl Rollout {
    /// Starts everything and creates the cluster. It does not wait for machines.
    pub async fn start(options: RolloutOptions) -> Self {
        // Somebody may edit the sources while the scenarios run, so this process reads their git id at the start.
        crate::figures::source();
        let management = ManagementCluster::shared().await;
        let client = management.kubernetes.admin().await.unwrap();
        let claim = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let cloud = FakeCloud::start(Options {
            durations: options.durations,
            haproxy: options.haproxy.then(|| programs::haproxy().unwrap()),
            ..Options::default()
        })
        .await
        .unwrap();
        let workload =
            Arc::new(WorkloadCluster::start(options.name, &folder(options.name)).unwrap());
        let mut arguments = vec![
            format!("--namespace={}", options.name),
            "--webhook-port=0".to_owned(),
        ];
        arguments.extend(
            options
                .arguments
                .iter()
                .map(|&argument| argument.to_owned()),
        );
        let timeline = Timeline::start();
        let watches = Watches {
            _management: ManagementWatch::start(&client, &timeline, options.name, options.name),
            cloud: CloudWatch::start(cloud.control(), &timeline, options.name, options.name),
        };
        let machines = Machines::start(
            machines::Cluster {
                timeline: timeline.clone(),
                client: client.clone(),
                name: options.name.to_owned(),
                workload: workload.clone(),
                more_ports: options.more_ports.clone(),
            },
            cloud.control(),
        );
        let rollout = Self {
            client,
            namespace: options.name.to_owned(),
            cluster: options.name.to_owned(),
            cloud,
            workload,
            manager: Mutex::new(None),
            machines,
            timeline,
            watches,
            arguments,
            claim,
        };
        rollout.start_manager(&[]).await;
        let subnet = subnet(rollout.claim.local_addr().unwrap().port());
        let documents = manifests::documents(
            &options,
            &rollout.workload,
            &secrets::clouds_yaml(&rollout.cloud).unwrap(),
            &subnet,
        )
        .unwrap();
        apply::apply(&rollout.client, &documents).await.unwrap();
        rollout
    }

    /// Starts the manager in place of the running one. `more` follows its usual arguments.
    pub async fn start_manager(&self, more: &[&str]) {
        let mut slot = self.manager.lock().await;
        // The old manager ends first.
        drop(slot.take());
        let arguments: Vec<&str> = self
            .arguments
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        let kubeconfig = &ManagementCluster::shared().await.installation.kubeconfig;
        let mut manager = Manager::start(self.workload.folder(), kubeconfig, &arguments).unwrap();
        manager.until_ready().await.unwrap();
        *slot = Some(manager);
    }

    /// Kills the manager.
    pub async fn kill_manager(&self) {
        drop(self.manager.lock().await.take());
    }

    /// The endpoint that clients use, as soon as it is set.
    pub async fn endpoint(&self) -> SocketAddr {
        self.until_some("the Cluster has an endpoint", async || {
            machines::endpoint(&self.client, &self.cluster).await
        })
        .await
    }

    /// Returns when every replica is up to date and ready, and no rollout is under way.
    pub async fn until_complete(&self) {
        self.until_some("the rollout is complete", async || {
            let control_plane = self.get("KubeadmControlPlane", &self.cluster).await?;
            let wanted = &control_plane["spec"]["replicas"];
            let status = &control_plane["status"];
            let counts = ["replicas", "upToDateReplicas", "readyReplicas"];
            let complete = counts.iter().all(|count| &status[*count] == wanted)
                && status["observedGeneration"] == control_plane["metadata"]["generation"]
                && condition(&control_plane, "RollingOut").is_some_and(|(is, ..)| is == "False");
            complete.then_some(())
        })
        .await;
    }

    /// Begins a rolling update.
    pub async fn roll(&self) {
        // The time is later than the creation of every machine, because both are in whole seconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.patch(
            "KubeadmControlPlane",
            &self.cluster,
            json!({"spec": {"rollout": {"after": now}}}),
        )
        .await;
        self.until_some("the rollout has begun", async || {
            let control_plane = self.get("KubeadmControlPlane", &self.cluster).await?;
            condition(&control_plane, "RollingOut")
                .is_some_and(|(is, ..)| is == "True")
                .then_some(())
        })
        .await;
    }

    /// Deletes the Cluster and checks that no object is left in the cloud, and that none existed twice.
    pub async fn end(self) {
        self.delete_cluster().await;
        let control = self.cloud.control();
        let name = format!("{}-{}", self.namespace, self.cluster);
        assert_eq!(control.leftovers(&name), [], "left in the cloud");
        assert_eq!(control.duplicates(), [], "twice in the cloud");
        self.write_result();
    }

    /// Records that the scenario succeeded, if it had no client.
    pub fn write_result(&self) {
        let (entries, now) = (self.timeline.entries(), self.timeline.clock().now());
        results::write(&self.cluster, &Figures::of(&entries, Duration::ZERO, now));
    }

    /// Deletes the Cluster, waits until it does not exist any more, and records the objects that are left.
    pub async fn delete_cluster(&self) {
        self.delete("Cluster", &self.cluster).await;
        self.until_some("the Cluster is gone", async || {
            let cluster = api(&self.client, &self.namespace, "Cluster");
            cluster
                .get_opt(&self.cluster)
                .await
                .is_ok_and(|found| found.is_none())
                .then_some(())
        })
        .await;
        self.watches.cloud.finish(true);
    }

    /// Begins a fault by a command of the fake cloud.
    pub fn breaks(&self, command: Value) {
        self.timeline.note(What::Broken(command.to_string()));
        self.command(command);
    }

    /// Ends a fault by a command of the fake cloud.
    pub fn mends(&self, command: Value) {
        self.timeline.note(What::Mended(command.to_string()));
        self.command(command);
    }

    fn command(&self, command: Value) {
        let text = command.to_string();
        let said = self.cloud.control().run(command);
        assert!(said.is_ok(), "{text}: {said:?}");
    }

    /// Another client with rights in the project.
    pub async fn foreign_client(&self) -> ForeignClient {
        ForeignClient::sign_in(self.cloud.auth_url()).await
    }

    /// Applies a MachineHealthCheck for the control plane, which calls a machine unhealthy that has no Node this many
    /// seconds after its start.
    pub async fn health_check(&self, seconds: u32) {
        let check = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": {"name": self.cluster, "namespace": self.namespace},
            "spec": {
                "clusterName": self.cluster,
                "selector": {"matchLabels": {"cluster.x-k8s.io/control-plane": ""}},
                "checks": {
                    "nodeStartupTimeoutSeconds": seconds,
                    "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}],
                },
            },
        });
        apply::apply(&self.client, &[check]).await.unwrap();
    }

    /// Removes the status of an object.
    pub async fn wipe_status(&self, kind: &'static str, name: &str) {
        self.timeline.note(What::Wiped(kind, name.to_owned()));
        let patch = json!([{"op": "replace", "path": "/status", "value": {}}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        api(&self.client, &self.namespace, kind)
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, kind: &str, name: &str, patch: Value) {
        api(&self.client, &self.namespace, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Deletes an object and does not wait for its end.
    pub async fn delete(&self, kind: &str, name: &str) {
        api(&self.client, &self.namespace, kind)
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

/// The object's name.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The folder of a scenario's logs, which stay after its end.
pub fn folder(name: &str) -> PathBuf {
    repository("target/tmp/rollout").join(name)
}

/// A range of the loopback network for a port: a piece of 256 addresses of 127.0.0.0/9, outside 127.0.0.0/16, in which
/// everything listens that the tests do not separate. There are 32 512 such pieces, so ports that are 32 512 apart get
/// the same one. This relies on the ports that Linux gives out by itself: they are 32768 to 60999, unless
/// `net.ipv4.ip_local_port_range` says otherwise, and no two of them share a piece.
pub fn subnet(port: u16) -> String {
    let piece = port % 0x7f00 + 0x100;
    format!("127.{}.{}.0/24", piece >> 8, piece & 0xff)
}

//! The state and the controls of one scenario.

use std::{sync::atomic::Ordering, time::Duration};

use fake_cloud::{Control, Durations, FakeCloud, Options};
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    shared_environment::SharedEnvironment,
    truth::{Truth, ours, writes},
    watch::Watch,
};
use crate::{
    contract::{Access, Raw},
    env::{
        ClusterApi,
        apply::{apply, namespace_with_credentials},
        cluster_api::{api, condition},
        scripted_cluster::{self, identity, open_stack_cluster},
    },
    waiting::Wait,
};

pub use crate::env::cluster_api::is_provisioned;

/// The interval of Cluster API's script, and of repeated checks.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The shape of a scenario's cluster.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Octavia's provider.
    pub provider: &'static str,
    /// API ports besides 6443.
    pub more_ports: &'static [u16],
    /// Whether the cloud's health manager receives heartbeats of the members.
    pub health: &'static str,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            provider: "amphorav2",
            more_ports: &[],
            health: "online",
        }
    }
}

/// A cluster `c` in a namespace and a cloud of its own.
pub struct ClusterUnderTest {
    pub environment: &'static SharedEnvironment,
    pub namespace: String,
    pub cloud: FakeCloud,
    pub cluster_api: ClusterApi,
    pub admin: Client,
    pub watch: Watch,
    ports: usize,
}

impl ClusterUnderTest {
    /// A cloud, a namespace with credentials, and no cluster yet.
    pub async fn empty(namespace: &str, shape: Shape) -> Self {
        let environment = SharedEnvironment::shared().await;
        let cloud = FakeCloud::start(Options {
            durations: Durations {
                server_build: 0.3,
                load_balancer_create: 0.3,
                failover: 2.0,
                operation: 0.3,
                heartbeat: 0.5,
                ..Durations::instant()
            },
            providers: ["amphora", "amphorav2", "octavia", "ovn", "f5"]
                .map(str::to_owned)
                .to_vec(),
            // No server listens at the members' addresses: their health is assumed.
            data_path: false,
            ..Options::default()
        })
        .await
        .unwrap();
        cloud
            .control()
            .run(json!({"assumed_health": shape.health}))
            .unwrap();
        let admin = environment.kubernetes.admin().await.unwrap();
        let documents = namespace_with_credentials(namespace, &cloud.clouds_yaml());
        apply(&admin, &documents).await.unwrap();
        let ports = 1 + shape.more_ports.len();
        Self {
            environment,
            namespace: namespace.to_owned(),
            cluster_api: ClusterApi::play_every(admin.clone(), namespace, INTERVAL),
            watch: Watch::start(&admin, namespace, cloud.control(), ports),
            admin,
            cloud,
            ports,
        }
    }

    /// A provisioned cluster with this many control-plane machines that Cluster API has admitted. Every member that was
    /// created disabled has been enabled, so that no write is due when a scenario begins.
    pub async fn with(namespace: &str, shape: Shape, machines: usize) -> Self {
        let scenario = Self::empty(namespace, shape).await;
        scenario.cluster(shape, json!({})).await;
        scenario.until_cluster(is_provisioned).await;
        for index in 0..machines {
            scenario.join(index).await;
            scenario.until_admitted(index).await;
            scenario
                .until_truth("every member is enabled", |truth| {
                    truth.status == "ACTIVE" && truth.members.iter().all(|member| member.up)
                })
                .await;
        }
        scenario
    }

    /// Creates the cluster; `change` is merged into the spec of the `OpenStackCluster`.
    pub async fn cluster(&self, shape: Shape, change: Value) {
        self.cluster_api
            .create_cluster("c", infrastructure(&self.namespace, shape, &change))
            .await;
    }

    pub fn control(&self) -> &Control {
        self.cloud.control()
    }

    /// Sends a command to the fake cloud.
    pub fn command(&self, command: Value) {
        self.control().run(command).unwrap();
    }

    /// Makes the next call with this label take seconds, so that the state before its repair can be observed even on a
    /// busy machine.
    pub fn slow(&self, label: &str) {
        self.command(json!({"fault": {"match": {"label": label}, "delay": 20, "count": 1}}));
    }

    /// The actual state of the load balancer in the cloud.
    pub fn truth(&self) -> Truth {
        Truth::of(self.control())
    }

    /// The present moment, for [`ClusterUnderTest::writes`].
    pub fn mark(&self) -> u64 {
        self.control().last_call()
    }

    /// The writes of the manager to Octavia since then.
    pub fn writes(&self, since: u64) -> Vec<String> {
        writes(self.control(), since)
    }

    /// A user of the cloud, `demo` or `admin`.
    pub async fn user(&self, name: &str) -> Raw {
        Raw::sign_in(&Access {
            auth_url: self.cloud.auth_url(),
            user: name.to_owned(),
            password: "secret".to_owned(),
            project: name.to_owned(),
        })
        .await
    }

    /// Calls Octavia as a user other than the manager.
    pub async fn octavia(
        &self,
        user: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Value {
        let raw = self.user(user).await;
        let url = raw.address("load-balancer", path);
        let waiting = Wait::default().start();
        loop {
            let (status, answer) = raw.send(method.clone(), &url, body.clone()).await;
            // The manager may be changing the load balancer.
            if status == 409 && waiting.again().await {
                continue;
            }
            assert!(status < 300, "{path}: {status} {answer}");
            return answer;
        }
    }

    /// Creates a control-plane machine.
    pub async fn join(&self, index: usize) {
        self.cluster_api
            .create_machine("c", &format!("cp-{index}"), true, machine_spec())
            .await;
    }

    /// Deletes a Machine, as any user may.
    pub async fn leave(&self, index: usize) {
        self.cluster_api
            .delete("Machine", &format!("cp-{index}"))
            .await;
    }

    /// Creates the second machine. The load balancer is ACTIVE seconds before its member.
    pub async fn join_under_an_early_active(&self) {
        self.command(
            json!({"operation": {"operation": "member-create", "name": "-cp-1", "anomaly": "early-active",
            "duration": 8, "count": 1}}),
        );
        self.join(1).await;
        self.until_truth("the load balancer is ACTIVE early", |truth| {
            truth.status == "ACTIVE" && truth.all("cp-1", 1, "PENDING_CREATE")
        })
        .await;
    }

    /// Merges `change` into an object.
    pub async fn patch(&self, kind: &str, name: &str, change: Value) {
        api(&self.admin, &self.namespace, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    }

    /// The name of a machine's member on the first port.
    pub fn member(&self, index: usize) -> String {
        format!(
            "k8s-clusterapi-cluster-{}-c-kubeapi-6443-cp-{index}",
            self.namespace
        )
    }

    /// The members as a batch lists them.
    pub fn listed(&self) -> Vec<Value> {
        let dump = self.control().dump();
        let members = dump["load_balancers"][0]["pools"][0]["members"].clone();
        let each = members.as_array().into_iter().flatten();
        each.map(|member| {
            json!({"name": member["name"], "address": member["address"],
                "protocol_port": member["protocol_port"], "subnet_id": member["subnet_id"]})
        })
        .collect()
    }

    /// The id of the pool of a port.
    pub fn pool(&self) -> String {
        self.truth().pools[0].0.clone()
    }

    /// Checks the writes since `mark`. A member that joins others that serve is created disabled, and then the last
    /// write enables it.
    pub fn assert_writes(&self, mark: u64, writes: &[&str]) {
        let made = self.writes(mark);
        let enabled = made.strip_suffix(&["PUT member".to_owned()]);
        let is_expected = made == writes || enabled.is_some_and(|made| made == writes);
        assert!(
            is_expected,
            "{}: {made:?} instead of {writes:?}",
            self.namespace
        );
    }

    /// The end of a scenario without a remaining problem, after exactly these writes since `mark`, as in
    /// [`Self::assert_writes`].
    pub async fn end_with(self, mark: u64, writes: &[&str]) {
        self.until_well().await;
        self.assert_writes(mark, writes);
        self.end().await;
    }

    /// The end of every scenario: no decision of a gate was wrong, the cluster is deleted, no object is left, no object
    /// was created twice, and the manager never wrote to a pool as a whole.
    pub async fn end(self) {
        assert_eq!(
            self.watch.wrong(),
            Vec::<String>::new(),
            "{}",
            self.namespace
        );
        assert_eq!(self.control().duplicates(), []);
        let batches = ours(self.control(), 0);
        assert!(
            batches
                .iter()
                .all(|call| call.label != "loadbalancer_member_batch"),
            "a pool was written to as a whole"
        );
        self.watch.excused.store(true, Ordering::SeqCst);
        self.command(json!({"clear": "all"}));
        self.cluster_api.delete("Cluster", "c").await;
        self.until_object("Cluster", "c", "the end", Value::is_null)
            .await;
        let name = format!("k8s-clusterapi-cluster-{}-c", self.namespace);
        assert_eq!(self.control().leftovers(&name), [], "{}", self.namespace);
    }

    /// The number of ports on which each machine has a member.
    pub fn ports(&self) -> usize {
        self.ports
    }
}

/// The `OpenStackCluster` `c`; the values of `change` replace those of its spec.
pub fn infrastructure(namespace: &str, shape: Shape, change: &Value) -> Value {
    let shape = json!({"apiServer": {"managedLoadBalancer": {
        "provider": shape.provider, "additionalPorts": shape.more_ports,
        "monitor": {"delay": 1, "timeout": 1, "maxRetries": 1, "maxRetriesDown": 1}}}});
    let identity = identity("cloud-config", "demo");
    let mut cluster = open_stack_cluster(namespace, "c", &identity, &shape);
    for (key, value) in change.as_object().into_iter().flatten() {
        cluster["spec"][key] = value.clone();
    }
    cluster
}

/// The spec of every machine.
pub fn machine_spec() -> Value {
    scripted_cluster::machine_spec(&identity("cloud-config", "demo"), "ubuntu-kube")
}

/// Whether the load balancer's condition has this status, reason and text.
pub fn shows_condition(object: &Value, status: &str, reason: &str, text: &str) -> bool {
    condition(object, "APIServerLoadBalancerReady").is_some_and(|(found, why, message)| {
        found == status && why == reason && message.contains(text)
    })
}

/// The content of an object's condition, for messages.
pub fn condition_text(object: &Value) -> String {
    format!("{:?}", condition(object, "APIServerLoadBalancerReady"))
}

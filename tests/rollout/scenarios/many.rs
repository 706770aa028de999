//! Twenty clusters roll out at once with one credential, and their manager may send Octavia five requests a second: all
//! rollouts finish, no gate decides wrongly, and no cluster is starved. The manager and the fake cloud are processes;
//! Cluster API is a script, since twenty real control planes would be sixty kube-apiservers.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    anomalies::{
        cluster_under_test::{Shape, infrastructure, machine_spec},
        truth::Truth,
        watch::{self, follow, loses_our_hook, turns_provisioned},
    },
    env::{
        ClusterApi, Guarded, Installation,
        apply::{apply, namespace_with_credentials},
        cluster_api::api,
        guarded::Program,
        manager,
    },
    rollout::{ROLLOUT_AT_MOST, folder},
};

const CLUSTERS: usize = 20;
const REPLICAS: usize = 3;
/// Calls a second to each service of the cloud.
const QPS: u32 = 5;
/// The slowest cluster may take this many times as long as the median.
const STARVED: f64 = 2.0;
/// The pace of Cluster API's script: sixty machines are looked at in each interval.
const INTERVAL: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_clusters_roll_at_once_on_one_credential() {
    let logs = folder("many");
    if logs.exists() {
        std::fs::remove_dir_all(&logs).unwrap();
    }
    std::fs::create_dir_all(&logs).unwrap();
    let (kubernetes, installation) = Installation::in_new_cluster().await.unwrap();
    let cloud = Cloud::start(&logs).await;
    let admin = kubernetes.admin().await.unwrap();

    // The clusters are created with a budget that does not slow them down: the test measures only how they roll.
    let flags = ["--openstack-qps=100", "--openstack-burst=100"];
    let mut quick = installation.ready_manager(&logs, &flags).await.unwrap();
    let clusters: Vec<Cluster> =
        join_all((0..CLUSTERS).map(|index| Cluster::create(&admin, &cloud, index))).await;
    join_all(clusters.iter().map(Cluster::until_complete)).await;
    quick.process.signal("TERM").unwrap();
    quick.process.wait(Duration::from_secs(10)).unwrap();

    let (qps, burst) = (
        format!("--openstack-qps={QPS}"),
        format!("--openstack-burst={QPS}"),
    );
    let flags = [qps.as_str(), &burst];
    let _manager = installation.ready_manager(&logs, &flags).await.unwrap();
    let checker = DecisionChecker::begin(&admin, &cloud);
    let before = cloud.calls(0).await.1;
    let mut times = join_all(clusters.iter().map(Cluster::roll)).await;
    assert_eq!(checker.verdict(), BTreeSet::new());

    times.sort();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    let (calls, _) = cloud.calls(before).await;
    println!(
        "{CLUSTERS} clusters of {REPLICAS} rolled at once: first after {:.0} s, half of them after {:.0} s, the last after {:.0} s; \
         {} calls to Octavia, {:.1} a replaced machine",
        times[0].as_secs_f64(),
        median.as_secs_f64(),
        slowest.as_secs_f64(),
        calls.len(),
        number(calls.len()) / number(CLUSTERS * REPLICAS),
    );
    assert!(
        slowest.as_secs_f64() <= STARVED * median.as_secs_f64(),
        "starved: {times:?}"
    );
    budget_was_kept(&calls);
    cloud.is_as_it_should_be(&clusters).await;
}

/// Checks that no span of ten seconds has more calls than the budget and its burst allow. A busy machine may shift a
/// call by half a second.
fn budget_was_kept(calls: &[f64]) {
    let span = 10.0;
    let allowed = f64::from(QPS) * (span + 0.5) + f64::from(QPS);
    for (first, at) in calls.iter().enumerate() {
        let within = calls[first..].iter().take_while(|call| **call < at + span);
        let count = number(within.count());
        assert!(count <= allowed, "{count} calls in {span} s");
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// The fake cloud as a process.
struct Cloud {
    _process: Guarded,
    clouds_yaml: String,
    /// `host:port` of its control endpoint.
    host: String,
}

impl Cloud {
    async fn start(logs: &std::path::Path) -> Self {
        let file = logs.join("clouds.yaml");
        let process = Guarded::start(&Program {
            path: &beside("fake-cloud"),
            arguments: vec![
                "--no-data-path".to_owned(),
                "--load-balancer-create=1".to_owned(),
                "--operation=1".to_owned(),
                "--server-build=1".to_owned(),
                "--record-size=500000".to_owned(),
                format!("--clouds-yaml={}", file.display()),
            ],
            variables: Vec::new(),
            log: logs.join("fake-cloud.log"),
            remove_after: None,
        })
        .unwrap();
        let begun = Instant::now();
        let clouds_yaml = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.contains("admin:") && text.ends_with('\n') {
                break text;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "no fake cloud");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let (_, rest) = clouds_yaml.split_once("http://").unwrap();
        let host = rest.split('/').next().unwrap().to_owned();
        Self {
            _process: process,
            clouds_yaml,
            host,
        }
    }

    /// The times of the calls to Octavia after call number `since`, and the number of the last call.
    async fn calls(&self, since: u64) -> (Vec<f64>, u64) {
        let path = format!("calls?service=load-balancer&since={since}");
        let answer = control(&self.host, &path).await;
        let calls = answer["calls"].as_array().unwrap();
        let ours = calls
            .iter()
            .filter(|call| call["agent"].as_str().unwrap().starts_with("capo-rs"));
        let times = ours.filter_map(|call| call["at"].as_f64()).collect();
        (times, answer["last"].as_u64().unwrap())
    }

    /// Checks that each load balancer has the members of the new machines and no others, and that nothing exists twice.
    async fn is_as_it_should_be(&self, clusters: &[Cluster]) {
        let balancers = balancers(&self.host).await;
        for cluster in clusters {
            let truth = &balancers[&cluster.namespace];
            assert!(truth.is_well(), "{}: {truth:?}", cluster.namespace);
            assert_eq!(truth.members.len(), REPLICAS, "{truth:?}");
            for index in REPLICAS..2 * REPLICAS {
                assert!(truth.all(&cluster.machine(index), 1, "ACTIVE"), "{truth:?}");
            }
        }
        assert_eq!(control(&self.host, "duplicates").await, json!([]));
    }
}

/// A program that cargo put beside the manager.
fn beside(program: &str) -> PathBuf {
    let manager = PathBuf::from(env!("CARGO_BIN_EXE_capo-rs"));
    let path = manager.with_file_name(program);
    assert!(
        path.exists(),
        "{} is not there: cargo build --workspace --bins",
        path.display()
    );
    path
}

/// Asks the control endpoint.
async fn control(host: &str, path: &str) -> Value {
    let (status, body) = manager::get(&format!("{host}/control/{path}"))
        .await
        .unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// All load balancers as they are, by the namespace of their cluster.
async fn balancers(host: &str) -> BTreeMap<String, Truth> {
    let state = control(host, "state").await;
    let each = state["load_balancers"].as_array().unwrap().iter();
    each.map(|row| {
        let name = row["name"].as_str().unwrap();
        let name = name.strip_prefix("k8s-clusterapi-cluster-").unwrap();
        let namespace = name.strip_suffix("-c-kubeapi").unwrap();
        (namespace.to_owned(), Truth::of_row(row))
    })
    .collect()
}

/// A cluster `c` in a namespace of its own.
struct Cluster {
    namespace: String,
    cluster_api: ClusterApi,
}

impl Cluster {
    /// Creates it with its first machines.
    async fn create(admin: &Client, cloud: &Cloud, index: usize) -> Self {
        let namespace = format!("many-{index:02}");
        let documents = namespace_with_credentials(&namespace, &cloud.clouds_yaml);
        apply(admin, &documents).await.unwrap();
        let cluster = Self {
            cluster_api: ClusterApi::play_every(admin.clone(), &namespace, INTERVAL),
            namespace,
        };
        let object = infrastructure(&cluster.namespace, Shape::default(), &json!({}));
        cluster.cluster_api.create_cluster("c", object).await;
        for index in 0..REPLICAS {
            cluster.join(index).await;
        }
        cluster
    }

    /// The name of a machine. It contains the namespace, because servers have none, and all clusters share one project.
    fn machine(&self, index: usize) -> String {
        format!("{}-cp-{index}", self.namespace)
    }

    async fn join(&self, index: usize) {
        self.cluster_api
            .create_machine("c", &self.machine(index), true, machine_spec())
            .await;
    }

    async fn until_admitted(&self, index: usize) {
        let joined = |machine: &Value| !machine["status"]["nodeRef"].is_null();
        self.until_machine(&self.machine(index), joined).await;
    }

    async fn until_machine(&self, machine: &str, wanted: impl Fn(&Value) -> bool) {
        let seen = self
            .cluster_api
            .wait_for("Machine", machine, ROLLOUT_AT_MOST, wanted)
            .await;
        if let Err(error) = seen {
            panic!("{}: {error}", self.namespace);
        }
    }

    async fn until_complete(&self) {
        for index in 0..REPLICAS {
            self.until_admitted(index).await;
        }
    }

    /// Replaces its machines one after the other, the new one first, as KubeadmControlPlane does. Returns how long this
    /// took.
    async fn roll(&self) -> Duration {
        let begun = Instant::now();
        for old in 0..REPLICAS {
            let new = old + REPLICAS;
            self.join(new).await;
            self.until_admitted(new).await;
            self.cluster_api.delete("Machine", &self.machine(old)).await;
            self.until_machine(&self.machine(old), Value::is_null).await;
        }
        begun.elapsed()
    }
}

/// Reads the cloud whenever a gate lets a machine through, and checks once a second that every cluster is served.
struct DecisionChecker {
    wrong: Arc<Mutex<BTreeSet<String>>>,
    work: JoinSet<()>,
}

/// A machine that a gate has let through: its namespace, its name, and the function that says why this was wrong.
type Passed = (String, String, fn(&str, usize, &Truth) -> Option<String>);

impl DecisionChecker {
    fn begin(admin: &Client, cloud: &Cloud) -> Self {
        let wrong = Arc::new(Mutex::new(BTreeSet::new()));
        let (sender, mut passed) = mpsc::unbounded_channel::<Passed>();
        let mut work = JoinSet::new();
        for index in 0..CLUSTERS {
            let namespace = format!("many-{index:02}");
            for (kind, turns, is_wrong) in [
                (
                    "OpenStackMachine",
                    turns_provisioned as fn(&Value) -> bool,
                    watch::wrong_admission as fn(&str, usize, &Truth) -> Option<String>,
                ),
                ("Machine", loses_our_hook, watch::wrong_release),
            ] {
                let api = api(admin, &namespace, kind);
                let (sender, namespace) = (sender.clone(), namespace.clone());
                let mut seen = BTreeSet::new();
                // The watch begins with objects that were let through before it.
                let begun = Instant::now();
                work.spawn(follow(api, move |machine| {
                    let name = watch::name(machine);
                    let first = turns(machine) && seen.insert(name.clone());
                    if first && begun.elapsed() > Duration::from_secs(1) {
                        let _ = sender.send((namespace.clone(), name, is_wrong));
                    }
                }));
            }
        }
        let (found, host) = (Arc::clone(&wrong), cloud.host.clone());
        work.spawn(async move {
            while let Some((namespace, machine, is_wrong)) = passed.recv().await {
                let balancers = balancers(&host).await;
                if let Some(what) = is_wrong(&machine, 1, &balancers[&namespace]) {
                    found.lock().insert(format!("{namespace}: {what}"));
                }
            }
        });
        work.spawn(serving(cloud.host.clone(), Arc::clone(&wrong)));
        Self { wrong, work }
    }

    /// Everything that was wrong. A task that ended early has missed decisions, which fails the test.
    fn verdict(mut self) -> BTreeSet<String> {
        assert!(
            self.work.try_join_next().is_none(),
            "a task of the checker failed"
        );
        self.wrong.lock().clone()
    }
}

/// Records each load balancer that has no member which gets connections.
async fn serving(host: String, wrong: Arc<Mutex<BTreeSet<String>>>) {
    loop {
        for (namespace, truth) in balancers(&host).await {
            if truth.in_data_path.is_empty() {
                let what = format!("{namespace}: no member serves: {truth:?}");
                wrong.lock().insert(what);
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

//! Three control-plane machines, a load balancer that lies, and a gate that does not believe it.
//!
//! Run by `make demo`. Everything listens on the loopback address and ends with this process;
//! `KEEP=1` leaves it running until Ctrl-C.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    clippy::expect_used
)]

mod cloud;
#[path = "../env/mod.rs"]
mod env;
mod record;
mod summary;
mod table;

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use cloud::DemoCloud;
use env::{ClusterApi, Error, Installation, Kubernetes, apply, cluster_api, manager::Manager};
use record::Record;
use serde_json::{Value, json};
use table::{Row, Table};

const NAMESPACE: &str = "default";
const CLUSTER: &str = "demo";
const MACHINES: [&str; 3] = ["demo-cp-0", "demo-cp-1", "demo-cp-2"];
/// How long the second machine's member stays PENDING_CREATE under an ACTIVE load balancer.
const PENDING: Duration = Duration::from_secs(20);
/// More than any step of it takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(3);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    match runtime.block_on(demo()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\nThe demo could not be carried through: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn demo() -> Result<bool, Error> {
    let mut table = Table::new();
    table.say("Starting etcd and kube-apiserver");
    let kubernetes = Kubernetes::start().await?;
    kubernetes.install_cluster_api().await?;
    table.say("Starting the fake cloud: an OpenStack that plays what amphorav2 did in the field");
    let cloud = DemoCloud::start(MACHINES[1], PENDING, MACHINES[2]).await?;
    table.say("Installing capo-rs: definitions, ServiceAccount with its roles, webhooks");
    let installation = Installation::install(&kubernetes).await?;
    let mut manager = start_manager(&kubernetes, &installation)?;
    manager.until_ready().await?;
    manager.until_logged("Leading").await?;

    let admin = kubernetes.admin().await?;
    apply::apply(&admin, &[credentials(&cloud)]).await?;
    let cluster_api = ClusterApi::play(admin.clone(), NAMESPACE);
    let record = Record::start(cluster_api::api(&admin, NAMESPACE, "OpenStackMachine"));
    table.say("Creating the Cluster: network, subnet, router, security groups, load balancer, floating IP");
    let begun = Instant::now();
    cluster_api
        .create_cluster(CLUSTER, open_stack_cluster())
        .await?;
    let cluster = cluster_api
        .wait_for("OpenStackCluster", CLUSTER, PATIENCE, |cluster| {
            cluster["status"]["initialization"]["provisioned"] == true
        })
        .await?;
    let endpoint = &cluster["spec"]["controlPlaneEndpoint"];
    table.say(&format!(
        "Cluster is provisioned after {:.1} s, endpoint {}:{}",
        begun.elapsed().as_secs_f64(),
        endpoint["host"].as_str().unwrap_or_default(),
        endpoint["port"]
    ));

    for machine in MACHINES {
        table.say(&format!("Cluster API creates {machine}"));
        cluster_api
            .create_machine(CLUSTER, machine, true, open_stack_machine())
            .await?;
        until_joined(&cluster_api, &mut table, machine).await?;
        table.say(&format!("{machine} has joined"));
    }

    if std::env::var("KEEP").is_ok_and(|keep| keep == "1") {
        println!("{}", look_around(&kubernetes, &cloud));
        tokio::signal::ctrl_c().await?;
    }
    table.say("Deleting the Cluster");
    cluster_api.delete("Cluster", CLUSTER).await?;
    cluster_api
        .wait_for("Cluster", CLUSTER, PATIENCE, Value::is_null)
        .await?;
    let summary = summary::Summary::of(&record.moments(), &cloud, &MACHINES)?;
    println!("\n{summary}");
    Ok(summary.kept_the_promise())
}

fn start_manager(kubernetes: &Kubernetes, installation: &Installation) -> Result<Manager, Error> {
    let mut arguments = installation.arguments();
    arguments.push("--leader-elect".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Manager::start(kubernetes.folder(), &installation.kubeconfig, &arguments)
}

/// What Cluster API does next only when the one before is a node.
async fn until_joined(
    cluster_api: &ClusterApi,
    table: &mut Table,
    machine: &str,
) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        table.show(rows(cluster_api).await?);
        let joined = cluster_api
            .get("Machine", machine)
            .await?
            .is_some_and(|machine| !machine["status"]["nodeRef"].is_null());
        if joined {
            table.show(rows(cluster_api).await?);
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{machine} has not joined after {PATIENCE:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn rows(cluster_api: &ClusterApi) -> Result<Vec<Row>, Error> {
    let mut machines = Vec::new();
    for name in MACHINES {
        let Some(machine) = cluster_api.get("OpenStackMachine", name).await? else {
            continue;
        };
        let server = cluster_api
            .get("OpenStackServer", name)
            .await?
            .unwrap_or_default();
        machines.push((name, machine, server));
    }
    // Read last: its members are never older than what the machines say of them.
    let cluster = cluster_api
        .get("OpenStackCluster", CLUSTER)
        .await?
        .unwrap_or_default();
    let mut rows = Vec::new();
    for (name, machine, server) in machines {
        let members: BTreeMap<u16, String> =
            cluster["status"]["apiServerManagedLoadBalancer"]["members"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|member| member["machine"] == name)
                .filter_map(|member| {
                    let port = u16::try_from(member["port"].as_u64()?).ok()?;
                    Some((port, member["provisioningStatus"].as_str()?.to_owned()))
                })
                .collect();
        let (_, reason, message) =
            cluster_api::condition(&machine, "APIServerLoadBalancerReady").unwrap_or_default();
        rows.push(Row {
            machine: name.to_owned(),
            server: server["status"]["instanceState"]
                .as_str()
                .unwrap_or("-")
                .to_owned(),
            members,
            gate: if machine["status"]["initialization"]["provisioned"] == true {
                "open"
            } else {
                "held"
            },
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    }
    Ok(rows)
}

fn credentials(cloud: &DemoCloud) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "demo-cloud-config", "namespace": NAMESPACE},
        "stringData": {"clouds.yaml": cloud.clouds_yaml()},
    })
}

fn open_stack_cluster() -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": CLUSTER, "namespace": NAMESPACE},
        "spec": {
            "identityRef": {"name": "demo-cloud-config", "cloudName": cloud::CLOUD},
            "managedSubnets": [{"cidr": cloud::SUBNET}],
            "managedSecurityGroups": {"allowAllInClusterTraffic": true},
            "apiServer": {"managedLoadBalancer": {"provider": "amphorav2"}},
        },
    })
}

fn open_stack_machine() -> Value {
    json!({
        "identityRef": {"name": "demo-cloud-config", "cloudName": cloud::CLOUD},
        "flavor": {"filter": {"name": cloud::FLAVOR}},
        "image": {"filter": {"name": cloud::IMAGE}},
    })
}

fn look_around(kubernetes: &Kubernetes, cloud: &DemoCloud) -> String {
    let kubeconfig = kubernetes.admin_kubeconfig();
    let kubectl = format!("kubectl --kubeconfig {}", kubeconfig.display());
    format!(
        "\nEverything is still running. Look around with\n\n\
         \x20 {kubectl} get openstackclusters,openstackmachines,openstackservers\n\
         \x20 {kubectl} get openstackcluster {CLUSTER} -o yaml\n\
         \x20 {kubectl} get events --sort-by=.lastTimestamp\n\
         \x20 less {}\n\n\
         The fake cloud answers at {}. Ctrl-C deletes the Cluster and ends it all.",
        kubernetes.folder().join("manager.log").display(),
        cloud.url(),
    )
}

//! The course of all clusters: CAPO creates them, capo-rs takes them over, CAPO gets them back, and they are deleted.

use std::{path::PathBuf, time::Duration};

use futures::future::join_all;
use serde_json::{Value, json};
use test_support::{
    env::{
        Capo, ClusterApiManagers, Installation, Kubernetes, Manager, cluster_api::is_provisioned,
    },
    waiting::PATIENCE,
};

use crate::{
    kinds::Kind,
    marks,
    moment::Moment,
    planned::planned,
    report::Found,
    swap::{self, Home},
    tested_cluster::{CHECK, TestedCluster, Version},
};

/// A longer time than that between two passes of any provider over an object that is not complete.
const QUIET: Duration = Duration::from_secs(12);

/// Runs the course of these kinds side by side.
pub(crate) async fn run(kinds: &[Kind]) -> Vec<Found> {
    let kubernetes = Kubernetes::start().await.unwrap();
    let logs = folder();
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs).unwrap();
    let client = kubernetes.admin().await.unwrap();
    let features = ["ClusterTopology=true"];
    let managers = ClusterApiManagers::start_with(&kubernetes, &logs, &features).await;
    let _cluster_api = managers.unwrap();
    let capo = Capo::new(&kubernetes).unwrap();
    capo.install(&client).await.unwrap();
    let running = capo.start(&logs).await.unwrap();

    let mut clusters = Vec::new();
    for kind in kinds {
        let cluster = TestedCluster::start(*kind, client.clone(), &logs).await;
        clusters.push((cluster, Found::new(*kind)));
    }
    each(&mut clusters, async |cluster, found| {
        found.made = made(cluster).await;
    })
    .await;

    swap::stop(running);
    let home = Home::make(&logs, &kubernetes.admin_kubeconfig()).unwrap();
    planned(&mut clusters, &home).await;

    // CAPO begins what is to be under way when it is stopped. The rolling update takes longest, so it begins first.
    let running = capo.start(&logs).await.unwrap();
    for long in [true, false] {
        each(&mut clusters, async |cluster, found| {
            let moment = Moment::of(cluster.kind);
            if found.made.is_ok() && long == (moment == Moment::RollingUpdate) {
                found.made = moment.begin(cluster).await;
            }
        })
        .await;
    }
    each(&mut clusters, async |cluster, found| {
        if Moment::of(cluster.kind) == Moment::Settled {
            cluster.until_quiet(QUIET).await;
        }
        found.marked = marks::known(cluster).await;
        found.present = cluster.machines_and_templates().await;
    })
    .await;

    // A client sends requests to every cluster until the cluster is deleted.
    let mut clients = Vec::new();
    for (cluster, _) in &clusters {
        clients.push(cluster.start_client().await);
    }

    // capo-rs takes the clusters over.
    swap::stop(running);
    let stopped: Vec<Duration> = clusters
        .iter()
        .map(|(cluster, _)| cluster.cloud_time())
        .collect();
    for (cluster, _) in &clusters {
        if cluster.kind == Kind::RenamedRouter {
            cluster.rename_router(&cluster.managed(), "renamed").await;
        }
    }
    let marks = last_calls(&clusters);
    swap::remove_webhooks(&client).await.unwrap();
    let installation = Installation::install(&kubernetes).await.unwrap();
    let observe = ["--load-balancer-gate=observe"];
    let mut manager = installation.ready_manager(&logs, &observe).await.unwrap();
    each(&mut clusters, async |cluster, found| {
        if Moment::of(cluster.kind) == Moment::Settled {
            found.taken_over = two_passes(cluster, Version::V1Beta2).await;
        }
    })
    .await;
    for (cluster, found) in &mut clusters {
        if cluster.kind == Kind::Plain {
            found.taken_over = found.taken_over.clone().and(verified(cluster, &home).await);
        }
    }
    for (((cluster, found), mark), stopped) in clusters.iter_mut().zip(&marks).zip(stopped) {
        found.without_controller = first_call(cluster, *mark)
            .await
            .map(|at| at - stopped.as_secs_f64());
    }
    swap::stop(manager.process);
    manager = installation.ready_manager(&logs, &[]).await.unwrap();
    each_with(
        &mut clusters,
        &marks,
        async |cluster, found, mark| match Moment::of(cluster.kind) {
            Moment::Settled => {
                let enforced = two_passes(cluster, Version::V1Beta2).await;
                let present = cluster.still_present(&found.present).await;
                found.taken_over = found.taken_over.clone().and(enforced).and(present);
                found.written_by_capo_rs = cluster.writes_since(mark);
            }
            moment => found.taken_over = moment.end(cluster).await,
        },
    )
    .await;
    each(&mut clusters, async |cluster, found| {
        found.machines_of_capo_rs = match Moment::of(cluster.kind) {
            // The moment itself has replaced the machines of the control plane, or has deleted the cluster.
            Moment::RollingUpdate | Moment::DeletingCluster => Ok(()),
            _ if found.made.is_err() => found.made.clone(),
            _ if cluster.kind == Kind::ClusterClass => scaled_and_rolled(cluster).await,
            _ => machines_of_capo_rs(cluster).await,
        };
    })
    .await;

    // CAPO gets the clusters back.
    each(&mut clusters, async |cluster, found| {
        cluster.until_quiet(QUIET).await;
        found.present = cluster.machines_and_templates().await;
    })
    .await;
    for (cluster, _) in &clusters {
        if cluster.kind == Kind::RenamedRouter {
            cluster.rename_router("renamed", &cluster.managed()).await;
        }
    }
    manager = back(manager, &installation, &logs).await;
    swap::store_v1beta1(&kubernetes.admin_kubeconfig())
        .await
        .unwrap();
    drop(manager);
    swap::restore(&client, &capo).await.unwrap();
    let marks = last_calls(&clusters);
    let running = capo.start(&logs).await.unwrap();
    each_with(&mut clusters, &marks, async |cluster, found, mark| {
        let passed = two_passes(cluster, Version::V1Beta1).await;
        found.machines_of_capo = passed.and(cluster.still_present(&found.present).await);
        found.written_by_capo = cluster.writes_since(mark);
    })
    .await;
    // A rolling update under CAPO may lose requests, so the clients of real control planes stop before it.
    for ((cluster, found), client) in clusters.iter_mut().zip(&mut clients) {
        if cluster.control_plane.is_some()
            && let Some(client) = client.take()
        {
            found.requests = client.stop().await;
        }
    }
    each(&mut clusters, async |cluster, found| {
        if found.made.is_ok() && found.machines_of_capo.is_ok() {
            found.machines_of_capo = match Moment::of(cluster.kind) {
                Moment::DeletingCluster => Ok(()),
                Moment::RollingUpdate => rolled(cluster).await,
                _ if cluster.kind == Kind::ClusterClass => scaled_and_rolled(cluster).await,
                _ => machines_of_capo(cluster).await,
            };
        }
    })
    .await;
    for ((_, found), client) in clusters.iter_mut().zip(clients) {
        if let Some(client) = client {
            found.requests = client.stop().await;
        }
    }
    each(&mut clusters, async |cluster, found| {
        found.deleted = deleted(cluster).await;
    })
    .await;
    swap::stop(running);
    clusters.into_iter().map(|(_, found)| found).collect()
}

/// Stops the manager, removes its hooks, and starts a manager that only serves the webhooks.
async fn back(manager: Manager, installation: &Installation, logs: &std::path::Path) -> Manager {
    swap::stop(manager.process);
    swap::release_hooks(installation).unwrap();
    let arguments = ["--namespace=capo-system", "--skip-crd-migration-phases=All"];
    installation.ready_manager(logs, &arguments).await.unwrap()
}

/// Checks that the commands of the page show the cluster as Ready, and its member.
async fn verified(cluster: &TestedCluster, home: &Home) -> Result<(), String> {
    let shown = home
        .verify(&cluster.name)
        .await
        .map_err(|error| error.to_string())?;
    let row = |line: &str| line.starts_with(&cluster.name) && line.contains("True");
    if shown.lines().any(row) && shown.contains("cp-0") {
        return Ok(());
    }
    Err(format!("the commands of Verify show {shown}"))
}

/// Waits until CAPO's cluster is complete and CAPO changes nothing any more.
async fn made(cluster: &TestedCluster) -> Result<(), String> {
    let v = Version::V1Beta1;
    if Moment::of(cluster.kind) == Moment::HalfCreatedCluster {
        return Ok(());
    }
    cluster.create().await?;
    let ready = |object: &Value| object["status"]["ready"] == true;
    let infrastructure = cluster.referred("infrastructureRef").await?;
    cluster
        .until_object("OpenStackCluster", &infrastructure, v, ready)
        .await?;
    for machine in cluster.first_machines() {
        cluster
            .until_object("OpenStackMachine", machine, v, ready)
            .await?;
    }
    if cluster.kind.has_bastion() {
        cluster
            .until_object("OpenStackCluster", &infrastructure, v, |cluster| {
                cluster["status"]["bastion"]["floatingIP"].is_string()
            })
            .await?;
    }
    for machine in cluster.first_machines() {
        cluster
            .until_object("Machine", machine, v, |machine| {
                machine["spec"]["providerID"].is_string()
            })
            .await?;
    }
    match &cluster.control_plane {
        Some(control_plane) => control_plane.until_complete(cluster).await?,
        None => cluster.members_of("cp-0").await?,
    }
    if cluster.kind == Kind::ClusterClass {
        cluster.until_workers(1).await?;
    }
    // The bastion's addresses get into the allowed ranges in the pass after it was made.
    cluster.touch(v, "made").await;
    // The test reports what kubeadm would report. From now on the gate is in force.
    if cluster.control_plane.is_none() {
        let initialised = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        cluster
            .patch_status("Cluster", &cluster.name, initialised)
            .await;
    }
    cluster.until_quiet(QUIET).await;
    Ok(())
}

/// Waits until the provider that has just started has made two passes over every object.
async fn two_passes(cluster: &TestedCluster, version: Version) -> Result<(), String> {
    let mut outcome = Ok(());
    if let Version::V1Beta2 = version {
        // CAPO 0.14 does not write this condition.
        let visited = |object: &Value| condition(object, "Paused").is_some();
        for (kind, name) in cluster.objects(version).await {
            if outcome.is_ok() {
                outcome = cluster.until_object(kind, &name, version, visited).await;
            }
        }
    }
    tokio::time::sleep(QUIET).await;
    cluster
        .touch(version, &jiff::Timestamp::now().to_string())
        .await;
    tokio::time::sleep(QUIET).await;
    cluster.until_quiet(QUIET).await;
    if let Version::V1Beta2 = version {
        for (kind, name) in cluster.objects(version).await {
            let object = cluster.get(kind, &name, version).await;
            let ready = condition(&object, "Ready");
            if ready.as_deref() != Some("True") {
                let conditions = &object["status"]["conditions"];
                outcome = outcome.and(Err(format!("{kind} {name} is not Ready: {conditions:#}")));
            }
        }
    }
    outcome
}

/// capo-rs adds a worker and a control-plane machine, and deletes the worker.
async fn machines_of_capo_rs(cluster: &TestedCluster) -> Result<(), String> {
    let v = Version::V1Beta2;
    cluster.machine("cp-1", true, v).await?;
    cluster.machine("w-1", false, v).await?;
    for machine in ["cp-1", "w-1"] {
        cluster
            .until_object("OpenStackMachine", machine, v, is_provisioned)
            .await?;
    }
    cluster.members_of("cp-1").await?;
    // CAPO writes the provider id in every pass, and its webhook refuses to change it.
    for machine in ["cp-0", "cp-1", "w-1"] {
        let object = cluster.get("OpenStackMachine", machine, v).await;
        let provider_id = object["spec"]["providerID"].as_str().unwrap_or_default();
        if !provider_id.starts_with("openstack:///") {
            return Err(format!(
                "{machine} has the provider id {provider_id}; CAPO writes no region"
            ));
        }
    }
    cluster.delete("Machine", "w-1").await;
    cluster
        .until_object("Machine", "w-1", v, Value::is_null)
        .await
}

/// CAPO adds a worker and a control-plane machine.
async fn machines_of_capo(cluster: &TestedCluster) -> Result<(), String> {
    let v = Version::V1Beta1;
    cluster.machine("cp-2", true, v).await?;
    cluster.machine("w-2", false, v).await?;
    for machine in ["cp-2", "w-2"] {
        cluster
            .until_object("OpenStackMachine", machine, v, |machine| {
                machine["status"]["ready"] == true
            })
            .await?;
    }
    cluster.members_of("cp-2").await
}

/// The provider adds a worker to a Cluster from a ClusterClass, replaces its control plane, and deletes a worker.
async fn scaled_and_rolled(cluster: &TestedCluster) -> Result<(), String> {
    cluster.scale_workers(2).await?;
    rolled(cluster).await?;
    cluster.scale_workers(1).await
}

/// The provider replaces every machine of a real control plane.
async fn rolled(cluster: &TestedCluster) -> Result<(), String> {
    cluster.control_plane().roll(cluster).await?;
    cluster.control_plane().until_complete(cluster).await
}

async fn deleted(cluster: &TestedCluster) -> Result<(), String> {
    cluster.delete("Cluster", &cluster.name).await;
    cluster.is_deleted().await
}

fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

pub(crate) fn last_calls(clusters: &[(TestedCluster, Found)]) -> Vec<u64> {
    clusters
        .iter()
        .map(|(cluster, _)| cluster.cloud.control().last_call())
        .collect()
}

/// The time of the first call to its cloud after call number `mark`. There is none if the cluster is paused.
async fn first_call(cluster: &TestedCluster, mark: u64) -> Option<f64> {
    let at_most = match cluster.kind {
        Kind::HeldMember => Duration::ZERO,
        _ => PATIENCE,
    };
    let wait = CHECK.at_most(at_most);
    wait.some(async || {
        let calls = cluster.cloud.control().calls_since(mark);
        calls.first().map(|call| call.at)
    })
    .await
}

/// Runs `act` for all clusters side by side.
async fn each(
    clusters: &mut [(TestedCluster, Found)],
    act: impl AsyncFn(&TestedCluster, &mut Found),
) {
    join_all(
        clusters
            .iter_mut()
            .map(|(cluster, found)| act(cluster, found)),
    )
    .await;
}

async fn each_with(
    clusters: &mut [(TestedCluster, Found)],
    marks: &[u64],
    act: impl AsyncFn(&TestedCluster, &mut Found, u64),
) {
    let all = clusters.iter_mut().zip(marks);
    join_all(all.map(|((cluster, found), mark)| act(cluster, found, *mark))).await;
}

/// The folder of the logs, which stay after the run.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("takeover")
}

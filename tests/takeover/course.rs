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
    site::{CHECK, Site, Version},
    swap::{self, Home},
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

    let mut sites = Vec::new();
    for kind in kinds {
        let site = Site::start(*kind, client.clone(), &logs).await;
        sites.push((site, Found::new(*kind)));
    }
    each(&mut sites, async |site, found| {
        found.made = made(site).await;
    })
    .await;

    swap::stop(running);
    let home = Home::make(&logs, &kubernetes.admin_kubeconfig()).unwrap();
    planned(&mut sites, &home).await;

    // CAPO begins what is to be under way when it is stopped. The rolling update takes longest, so it begins first.
    let running = capo.start(&logs).await.unwrap();
    for long in [true, false] {
        each(&mut sites, async |site, found| {
            let moment = Moment::of(site.kind);
            if found.made.is_ok() && long == (moment == Moment::RollingUpdate) {
                found.made = moment.begin(site).await;
            }
        })
        .await;
    }
    each(&mut sites, async |site, found| {
        if Moment::of(site.kind) == Moment::Settled {
            site.until_quiet(QUIET).await;
        }
        found.marked = marks::known(site).await;
        found.present = site.machines_and_templates().await;
    })
    .await;

    // A client sends requests to every cluster until the cluster is deleted.
    let mut clients = Vec::new();
    for (site, _) in &sites {
        clients.push(site.start_client().await);
    }

    // capo-rs takes the clusters over.
    swap::stop(running);
    let stopped: Vec<Duration> = sites.iter().map(|(site, _)| site.cloud_time()).collect();
    for (site, _) in &sites {
        if site.kind == Kind::RenamedRouter {
            site.rename_router(&site.managed(), "renamed").await;
        }
    }
    let marks = last_calls(&sites);
    swap::remove_webhooks(&client).await.unwrap();
    let installation = Installation::install(&kubernetes).await.unwrap();
    let observe = ["--load-balancer-gate=observe"];
    let mut manager = installation.ready_manager(&logs, &observe).await.unwrap();
    each(&mut sites, async |site, found| {
        if Moment::of(site.kind) == Moment::Settled {
            found.taken_over = two_passes(site, Version::V1Beta2).await;
        }
    })
    .await;
    for (site, found) in &mut sites {
        if site.kind == Kind::Plain {
            found.taken_over = found.taken_over.clone().and(verified(site, &home).await);
        }
    }
    for (((site, found), mark), stopped) in sites.iter_mut().zip(&marks).zip(stopped) {
        found.without_controller = first_call(site, *mark)
            .await
            .map(|at| at - stopped.as_secs_f64());
    }
    swap::stop(manager.process);
    manager = installation.ready_manager(&logs, &[]).await.unwrap();
    each_with(
        &mut sites,
        &marks,
        async |site, found, mark| match Moment::of(site.kind) {
            Moment::Settled => {
                let enforced = two_passes(site, Version::V1Beta2).await;
                let present = site.still_present(&found.present).await;
                found.taken_over = found.taken_over.clone().and(enforced).and(present);
                found.written_by_capo_rs = site.writes_since(mark);
            }
            moment => found.taken_over = moment.end(site).await,
        },
    )
    .await;
    each(&mut sites, async |site, found| {
        found.machines_of_capo_rs = match Moment::of(site.kind) {
            // The moment itself has replaced the machines of the control plane, or has deleted the cluster.
            Moment::RollingUpdate | Moment::DeletingCluster => Ok(()),
            _ if found.made.is_err() => found.made.clone(),
            _ if site.kind == Kind::ClusterClass => scaled_and_rolled(site).await,
            _ => machines_of_capo_rs(site).await,
        };
    })
    .await;

    // CAPO gets the clusters back.
    each(&mut sites, async |site, found| {
        site.until_quiet(QUIET).await;
        found.present = site.machines_and_templates().await;
    })
    .await;
    for (site, _) in &sites {
        if site.kind == Kind::RenamedRouter {
            site.rename_router("renamed", &site.managed()).await;
        }
    }
    manager = back(manager, &installation, &logs).await;
    swap::store_v1beta1(&kubernetes.admin_kubeconfig())
        .await
        .unwrap();
    drop(manager);
    swap::restore(&client, &capo).await.unwrap();
    let marks = last_calls(&sites);
    let running = capo.start(&logs).await.unwrap();
    each_with(&mut sites, &marks, async |site, found, mark| {
        let passed = two_passes(site, Version::V1Beta1).await;
        found.machines_of_capo = passed.and(site.still_present(&found.present).await);
        found.written_by_capo = site.writes_since(mark);
    })
    .await;
    // A rolling update under CAPO may lose requests, so the clients of real control planes stop before it.
    for ((site, found), client) in sites.iter_mut().zip(&mut clients) {
        if site.control_plane.is_some()
            && let Some(client) = client.take()
        {
            found.requests = client.stop().await;
        }
    }
    each(&mut sites, async |site, found| {
        if found.made.is_ok() && found.machines_of_capo.is_ok() {
            found.machines_of_capo = match Moment::of(site.kind) {
                Moment::DeletingCluster => Ok(()),
                Moment::RollingUpdate => rolled(site).await,
                _ if site.kind == Kind::ClusterClass => scaled_and_rolled(site).await,
                _ => machines_of_capo(site).await,
            };
        }
    })
    .await;
    for ((_, found), client) in sites.iter_mut().zip(clients) {
        if let Some(client) = client {
            found.requests = client.stop().await;
        }
    }
    each(&mut sites, async |site, found| {
        found.deleted = deleted(site).await;
    })
    .await;
    swap::stop(running);
    sites.into_iter().map(|(_, found)| found).collect()
}

/// Stops the manager, removes its hooks, and starts a manager that only serves the webhooks.
async fn back(manager: Manager, installation: &Installation, logs: &std::path::Path) -> Manager {
    swap::stop(manager.process);
    swap::release_hooks(installation).unwrap();
    let arguments = ["--namespace=capo-system", "--skip-crd-migration-phases=All"];
    installation.ready_manager(logs, &arguments).await.unwrap()
}

/// Checks that the commands of the page show the cluster as Ready, and its member.
async fn verified(site: &Site, home: &Home) -> Result<(), String> {
    let shown = home
        .verify(&site.name)
        .await
        .map_err(|error| error.to_string())?;
    let row = |line: &str| line.starts_with(&site.name) && line.contains("True");
    if shown.lines().any(row) && shown.contains("cp-0") {
        return Ok(());
    }
    Err(format!("the commands of Verify show {shown}"))
}

/// Waits until CAPO's cluster is complete and CAPO changes nothing any more.
async fn made(site: &Site) -> Result<(), String> {
    let v = Version::V1Beta1;
    if Moment::of(site.kind) == Moment::HalfCreatedCluster {
        return Ok(());
    }
    site.create().await?;
    let ready = |object: &Value| object["status"]["ready"] == true;
    let cluster = site.referred("infrastructureRef").await?;
    site.until_object("OpenStackCluster", &cluster, v, ready)
        .await?;
    for machine in site.first_machines() {
        site.until_object("OpenStackMachine", machine, v, ready)
            .await?;
    }
    if site.kind.has_bastion() {
        site.until_object("OpenStackCluster", &cluster, v, |cluster| {
            cluster["status"]["bastion"]["floatingIP"].is_string()
        })
        .await?;
    }
    for machine in site.first_machines() {
        site.until_object("Machine", machine, v, |machine| {
            machine["spec"]["providerID"].is_string()
        })
        .await?;
    }
    match &site.control_plane {
        Some(control_plane) => control_plane.until_complete(site).await?,
        None => site.members_of("cp-0").await?,
    }
    if site.kind == Kind::ClusterClass {
        site.until_workers(1).await?;
    }
    // The bastion's addresses get into the allowed ranges in the pass after it was made.
    site.touch(v, "made").await;
    // The test reports what kubeadm would report. From now on the gate is in force.
    if site.control_plane.is_none() {
        let initialised = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        site.patch_status("Cluster", &site.name, initialised).await;
    }
    site.until_quiet(QUIET).await;
    Ok(())
}

/// Waits until the provider that has just started has made two passes over every object.
async fn two_passes(site: &Site, version: Version) -> Result<(), String> {
    let mut outcome = Ok(());
    if let Version::V1Beta2 = version {
        // CAPO 0.14 does not write this condition.
        let visited = |object: &Value| condition(object, "Paused").is_some();
        for (kind, name) in site.objects(version).await {
            if outcome.is_ok() {
                outcome = site.until_object(kind, &name, version, visited).await;
            }
        }
    }
    tokio::time::sleep(QUIET).await;
    site.touch(version, &jiff::Timestamp::now().to_string())
        .await;
    tokio::time::sleep(QUIET).await;
    site.until_quiet(QUIET).await;
    if let Version::V1Beta2 = version {
        for (kind, name) in site.objects(version).await {
            let object = site.get(kind, &name, version).await;
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
async fn machines_of_capo_rs(site: &Site) -> Result<(), String> {
    let v = Version::V1Beta2;
    site.machine("cp-1", true, v).await?;
    site.machine("w-1", false, v).await?;
    for machine in ["cp-1", "w-1"] {
        site.until_object("OpenStackMachine", machine, v, is_provisioned)
            .await?;
    }
    site.members_of("cp-1").await?;
    // CAPO writes the provider id in every pass, and its webhook refuses to change it.
    for machine in ["cp-0", "cp-1", "w-1"] {
        let object = site.get("OpenStackMachine", machine, v).await;
        let provider_id = object["spec"]["providerID"].as_str().unwrap_or_default();
        if !provider_id.starts_with("openstack:///") {
            return Err(format!(
                "{machine} has the provider id {provider_id}; CAPO writes no region"
            ));
        }
    }
    site.delete("Machine", "w-1").await;
    site.until_object("Machine", "w-1", v, Value::is_null).await
}

/// CAPO adds a worker and a control-plane machine.
async fn machines_of_capo(site: &Site) -> Result<(), String> {
    let v = Version::V1Beta1;
    site.machine("cp-2", true, v).await?;
    site.machine("w-2", false, v).await?;
    for machine in ["cp-2", "w-2"] {
        site.until_object("OpenStackMachine", machine, v, |machine| {
            machine["status"]["ready"] == true
        })
        .await?;
    }
    site.members_of("cp-2").await
}

/// The provider adds a worker to a Cluster from a ClusterClass, replaces its control plane, and deletes a worker.
async fn scaled_and_rolled(site: &Site) -> Result<(), String> {
    site.scale_workers(2).await?;
    rolled(site).await?;
    site.scale_workers(1).await
}

/// The provider replaces every machine of a real control plane.
async fn rolled(site: &Site) -> Result<(), String> {
    site.control_plane().roll(site).await?;
    site.control_plane().until_complete(site).await
}

async fn deleted(site: &Site) -> Result<(), String> {
    site.delete("Cluster", &site.name).await;
    site.is_deleted().await
}

fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

pub(crate) fn last_calls(sites: &[(Site, Found)]) -> Vec<u64> {
    sites
        .iter()
        .map(|(site, _)| site.cloud.control().last_call())
        .collect()
}

/// The time of the first call to its cloud after call number `mark`. There is none if the cluster is paused.
async fn first_call(site: &Site, mark: u64) -> Option<f64> {
    let at_most = match site.kind {
        Kind::HeldMember => Duration::ZERO,
        _ => PATIENCE,
    };
    let wait = CHECK.at_most(at_most);
    wait.some(async || {
        let calls = site.cloud.control().calls_since(mark);
        calls.first().map(|call| call.at)
    })
    .await
}

/// Runs `act` for all sites side by side.
async fn each(sites: &mut [(Site, Found)], act: impl AsyncFn(&Site, &mut Found)) {
    join_all(sites.iter_mut().map(|(site, found)| act(site, found))).await;
}

async fn each_with(
    sites: &mut [(Site, Found)],
    marks: &[u64],
    act: impl AsyncFn(&Site, &mut Found, u64),
) {
    let all = sites.iter_mut().zip(marks);
    join_all(all.map(|((site, found), mark)| act(site, found, *mark))).await;
}

/// The folder of the logs, which stay after the run.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("takeover")
}

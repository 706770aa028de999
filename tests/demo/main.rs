//! A real rollout during which the load balancer reports ACTIVE for members that do not work yet, and a client whose
//! requests all succeed.
//!
//! Run by `make demo`. Every program listens on the loopback address and ends with this process; `KEEP=1` keeps them
//! running until Ctrl-C, `KILLS=10` kills the manager at ten random moments (`SEED` repeats the moments).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used
)]

mod snapshot;
mod summary;
mod table;

use std::{process::ExitCode, sync::Arc, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;

use test_support::{env, invariants, rollout, timeline};

use env::Error;
use invariants::Promises;
use rollout::{Rollout, RolloutOptions, management_cluster::ManagementCluster, proof::Proof};
use table::Table;
use timeline::{What, management::ManagementWatch};

const CLUSTER: &str = "demo";
/// How long a member stays PENDING_CREATE under an ACTIVE load balancer.
const PENDING: Duration = Duration::from_secs(20);
/// How often the table is drawn.
const INTERVAL: Duration = Duration::from_millis(250);
/// Where the manager keeps its lease.
const LEASE: (&str, &str) = ("capo-system", "controller-leader-election-capo");
fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    match runtime.block_on(demo()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\nThe demo failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn demo() -> Result<bool, Error> {
    let kills = number("KILLS")?.unwrap_or(0);
    let seed = number("SEED")?.unwrap_or_else(rand::random);
    let table = Arc::new(Table::new());
    table.say(
        "Starting etcd, kube-apiserver, the three managers of Cluster API, and capo-rs as released",
    );
    let management = ManagementCluster::shared().await;
    table.say("Creating the Cluster: network, subnet, router, security groups, load balancer, floating IP,");
    table.say("and a control plane of three machines, each with a real kube-apiserver");
    let rollout = Rollout::start(RolloutOptions {
        name: CLUSTER,
        arguments: vec!["--leader-elect"],
        ..RolloutOptions::default()
    })
    .await;
    let _lease = ManagementWatch::of_lease(&rollout.client, &rollout.timeline, LEASE);
    let drawing = {
        let (table, timeline) = (Arc::clone(&table), rollout.timeline.clone());
        tokio::spawn(async move {
            loop {
                table.show(snapshot::of(&timeline.entries(), timeline.clock().now()));
                tokio::time::sleep(INTERVAL).await;
            }
        })
    };
    let promises = Promises {
        lease: true,
        // After each start the manager reads everything again.
        calls_a_minute: if kills > 0 { 240 } else { 60 },
        ..Promises::default()
    };
    let killed = async {
        if kills > 0 {
            kill(&rollout, &table, kills, seed).await;
        }
    };
    let work = async {
        let proof = serve(&rollout, &table).await;
        tokio::join!(roll(&rollout, &table), killed);
        if std::env::var("KEEP").is_ok_and(|keep| keep == "1") {
            table.say(&instructions(management, &rollout).await?);
            tokio::signal::ctrl_c().await?;
        }
        table.say("Deleting the Cluster");
        Ok::<_, Error>(proof.finish(&rollout, &promises).await)
    };
    let result = tokio::select! {
        result = work => result?,
        () = start_again(&rollout, &table) => return Err("the task that restarts the manager has ended".into()),
    };
    let calls = rollout.cloud.control().counters();
    drawing.abort();
    table.show(snapshot::of(
        &rollout.timeline.entries(),
        rollout.timeline.clock().now(),
    ));
    table.end();
    println!("\n{}", summary::text(&result, &calls));
    if !result.broken.is_empty() {
        println!("\n{}", result.page);
    }
    Ok(result.broken.is_empty())
}

/// Waits until three machines serve, and starts the client.
async fn serve(rollout: &Rollout, table: &Table) -> Proof {
    rollout.until_complete().await;
    let proof = Proof::begin(rollout).await;
    table.say(&format!(
        "Three machines serve. A client sends 20 requests a second to {}, each over a new connection",
        rollout.endpoint().await
    ));
    proof
}

/// The rollout, and during it two faults that the provider amphorav2 had in production.
async fn roll(rollout: &Rollout, table: &Table) {
    let old = rollout.machines().await;
    table.say("KubeadmControlPlane starts to replace all three machines");
    rollout.roll().await;
    gone(rollout, &old, 1).await;
    table.say(&format!(
        "Fault 1: the next member stays PENDING_CREATE for {} s, while the load balancer is ACTIVE",
        PENDING.as_secs()
    ));
    rollout.breaks(json!({"hold": {
        "member": "", "status": "PENDING_CREATE", "count": 1, "release_after": PENDING.as_secs(),
    }}));
    gone(rollout, &old, 2).await;
    table.say(
        "Fault 2: the creation of the next member ends in ERROR, while the load balancer is ACTIVE",
    );
    rollout.breaks(json!({"operation": {"operation": "member-create", "fail": true, "count": 1}}));
    rollout.until_complete().await;
    table.say("All three machines are replaced");
}

/// Waits until this many of the old machines are gone.
async fn gone(rollout: &Rollout, old: &[String], count: usize) {
    rollout
        .until_some(&format!("{count} old machines are gone"), async || {
            let now = rollout.machines().await;
            let left = old.iter().filter(|name| now.contains(name)).count();
            (left + count <= old.len()).then_some(())
        })
        .await;
}

/// Kills the manager this many times, at moments that the seed decides.
async fn kill(rollout: &Rollout, table: &Table, kills: u64, seed: u64) {
    table.say(&format!(
        "The manager will be killed {kills} times (SEED={seed})"
    ));
    let mut moments = StdRng::seed_from_u64(seed);
    for count in 1..=kills {
        tokio::time::sleep(Duration::from_millis(moments.random_range(2_000..16_000))).await;
        let text = format!("kill -9 of the manager, {count} of {kills}");
        rollout.timeline.note(What::Remark(text.clone()));
        table.say(&text);
        if let Some(manager) = rollout.manager.lock().await.as_ref() {
            manager.process.signal("KILL").unwrap();
        }
    }
}

/// Starts a manager again that has ended because it was killed or has lost its lease on a busy machine, as a Deployment
/// does.
async fn start_again(rollout: &Rollout, table: &Table) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let ended = match rollout.manager.lock().await.as_mut() {
            Some(manager) => manager.process.ended().is_ok_and(|ended| ended.is_some()),
            None => true,
        };
        if ended {
            table.say("The manager has ended and is started again");
            rollout.start_manager(&[]).await;
        }
    }
}

fn number(name: &str) -> Result<Option<u64>, Error> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => Ok(Some(
            text.parse()
                .map_err(|error| format!("{name}={text}: {error}"))?,
        )),
        _ => Ok(None),
    }
}

/// KubeadmControlPlane keeps a kubeconfig of the workload cluster for its users.
async fn instructions(management: &ManagementCluster, rollout: &Rollout) -> Result<String, Error> {
    let folder = rollout.workload.folder();
    let workload = folder.join("workload.kubeconfig");
    let secret = rollout
        .get("Secret", &format!("{CLUSTER}-kubeconfig"))
        .await;
    let value = secret.unwrap_or_default()["data"]["value"].take();
    let content = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or_default())?
    };
    std::fs::write(&workload, content)?;
    let management = management.kubernetes.admin_kubeconfig();
    let management = management.display();
    let kubectl = format!("kubectl --kubeconfig {management} -n {CLUSTER}");
    Ok(format!(
        "Every program is still running. Inspect the cluster with\n\n\
         \x20 {kubectl} get kubeadmcontrolplanes,machines,openstackclusters,openstackmachines\n\
         \x20 {kubectl} get events --sort-by=.lastTimestamp\n\
         \x20 target/debug/capo-rs status --kubeconfig {management} -n {CLUSTER} {CLUSTER}\n\
         \x20 kubectl --kubeconfig {} get nodes          # through the load balancer\n\
         \x20 less {}\n\n\
         and start another rollout with\n\n\
         \x20 {kubectl} patch kubeadmcontrolplane {CLUSTER} --type merge \\\n\
         \x20   -p '{{\"spec\":{{\"rollout\":{{\"after\":\"'$(date -u +%FT%TZ)'\"}}}}}}'\n\n\
         The fake cloud listens at {}. Ctrl-C deletes the Cluster and stops every program.\n",
        workload.display(),
        folder.join("manager.log").display(),
        rollout.cloud.base(),
    ))
}

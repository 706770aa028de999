//! A real rollout, a load balancer that lies in the middle of it, and a client that notices nothing.
//!
//! Run by `make demo`. Everything listens on the loopback address and ends with this process; `KEEP=1` leaves it
//! running until Ctrl-C, `KILLS=10` kills the manager at ten random moments (`SEED` repeats them).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used
)]

mod scene;
mod summary;
mod table;

use std::{process::ExitCode, sync::Arc, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;

use test_support::{env, invariants, rollout, timeline};

use env::Error;
use invariants::Promises;
use rollout::{Rollout, Wish, management_cluster::ManagementCluster, verdict::Proof};
use table::Table;
use timeline::{What, management::ManagementWatch};

const CLUSTER: &str = "demo";
/// How long a member stays PENDING_CREATE under an ACTIVE load balancer.
const PENDING: Duration = Duration::from_secs(20);
/// How often the table is drawn.
const BEAT: Duration = Duration::from_millis(250);
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
            eprintln!("\nThe demo could not be carried through: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn demo() -> Result<bool, Error> {
    let kills = number("KILLS")?.unwrap_or(0);
    let seed = number("SEED")?.unwrap_or_else(rand::random);
    let table = Arc::new(Table::new());
    table.say("Starting etcd and kube-apiserver, Cluster API's three managers, and capo-rs as it is shipped");
    let management = ManagementCluster::shared().await;
    table.say("Creating the Cluster: network, subnet, router, security groups, load balancer, floating IP,");
    table.say("and a control plane of three machines, each of them a real kube-apiserver");
    let rollout = Rollout::start(Wish {
        name: CLUSTER,
        arguments: vec!["--leader-elect"],
        ..Wish::default()
    })
    .await;
    let _lease = ManagementWatch::of_lease(&rollout.client, &rollout.timeline, LEASE);
    let drawing = {
        let (table, timeline) = (Arc::clone(&table), rollout.timeline.clone());
        tokio::spawn(async move {
            loop {
                table.show(scene::of(&timeline.entries(), timeline.clock().now()));
                tokio::time::sleep(BEAT).await;
            }
        })
    };
    let promises = Promises {
        lease: true,
        // Each start looks at everything anew.
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
            table.say(&look_around(management, &rollout).await?);
            tokio::signal::ctrl_c().await?;
        }
        table.say("Deleting the Cluster");
        Ok::<_, Error>(proof.verdict(&rollout, &promises).await)
    };
    let verdict = tokio::select! {
        verdict = work => verdict?,
        () = start_again(&rollout, &table) => return Err("nobody starts the manager".into()),
    };
    let calls = rollout.cloud.control().counters();
    drawing.abort();
    table.show(scene::of(
        &rollout.timeline.entries(),
        rollout.timeline.clock().now(),
    ));
    table.end();
    println!("\n{}", summary::text(&verdict, &calls));
    if !verdict.broken.is_empty() {
        println!("\n{}", verdict.page);
    }
    Ok(verdict.broken.is_empty())
}

/// Three machines that serve, and a client at work.
async fn serve(rollout: &Rollout, table: &Table) -> Proof {
    rollout.until_complete().await;
    let proof = Proof::begin(rollout).await;
    table.say(&format!(
        "Three machines serve. A client asks through {}, 20 times a second, each time over a new connection",
        rollout.endpoint().await
    ));
    proof
}

/// The rollout, and what amphorav2 did in the field in the middle of it.
async fn roll(rollout: &Rollout, table: &Table) {
    let old = rollout.machines().await;
    table.say("KubeadmControlPlane begins to replace all three");
    rollout.roll().await;
    gone(rollout, &old, 1).await;
    table.say(&format!(
        "amphorav2 strikes: the next member stays PENDING_CREATE for {} s under an ACTIVE load balancer",
        PENDING.as_secs()
    ));
    rollout.breaks(json!({"hold": {
        "member": "", "status": "PENDING_CREATE", "count": 1, "release_after": PENDING.as_secs(),
    }}));
    gone(rollout, &old, 2).await;
    table.say("And again: the next member's creation ends in ERROR, under an ACTIVE load balancer");
    rollout.breaks(json!({"operation": {"operation": "member-create", "fail": true, "count": 1}}));
    rollout.until_complete().await;
    table.say("All three are replaced");
}

/// Comes back when so many of the old machines are gone.
async fn gone(rollout: &Rollout, old: &[String], count: usize) {
    rollout
        .until(&format!("{count} old machines are gone"), async || {
            let now = rollout.machines().await;
            let left = old.iter().filter(|name| now.contains(name)).count();
            (left + count <= old.len()).then_some(())
        })
        .await;
}

/// Kills the manager so many times, at moments that the seed decides, and starts it again each time.
async fn kill(rollout: &Rollout, table: &Table, kills: u64, seed: u64) {
    table.say(&format!(
        "The manager will be killed {kills} times (SEED={seed})"
    ));
    let mut moments = StdRng::seed_from_u64(seed);
    for count in 1..=kills {
        tokio::time::sleep(Duration::from_millis(moments.random_range(2_000..16_000))).await;
        let text = format!("kill -9 of the manager, {count} of {kills}");
        rollout.timeline.note(What::Scene(text.clone()));
        table.say(&text);
        if let Some(manager) = rollout.manager.lock().await.as_ref() {
            manager.process.signal("KILL").unwrap();
        }
    }
}

/// What a Deployment does: a manager that has ended (killed, or its lease lost on a busy machine) is started again.
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
async fn look_around(management: &ManagementCluster, rollout: &Rollout) -> Result<String, Error> {
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
        "Everything is still running. Look around with\n\n\
         \x20 {kubectl} get kubeadmcontrolplanes,machines,openstackclusters,openstackmachines\n\
         \x20 {kubectl} get events --sort-by=.lastTimestamp\n\
         \x20 target/debug/capo-rs status --kubeconfig {management} -n {CLUSTER} {CLUSTER}\n\
         \x20 kubectl --kubeconfig {} get nodes          # through the load balancer\n\
         \x20 less {}\n\n\
         and roll once more with\n\n\
         \x20 {kubectl} patch kubeadmcontrolplane {CLUSTER} --type merge \\\n\
         \x20   -p '{{\"spec\":{{\"rollout\":{{\"after\":\"'$(date -u +%FT%TZ)'\"}}}}}}'\n\n\
         The fake cloud answers at {}. Ctrl-C deletes the Cluster and ends it all.\n",
        workload.display(),
        folder.join("manager.log").display(),
        rollout.cloud.base(),
    ))
}

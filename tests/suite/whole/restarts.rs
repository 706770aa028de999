//! A manager that is killed, and two of which one is frozen.

use std::time::Duration;

use fake_cloud::{CallMatch, Command, Fault};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::isolated::{IsolatedEnvironment, SHORT_LEASE};
use crate::env::cluster_api::is_provisioned;
use test_support::waiting::{PATIENCE, until};

/// The longest that a cluster or machine takes although its managers are killed: a creation that a kill leaves in doubt
/// is repeated after 130 s, and the kills go on meanwhile.
const DISTURBED: Duration = Duration::from_mins(8);
const MACHINES: [&str; 3] = ["cp-0", "cp-1", "cp-2"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_ten_random_moments_it_makes_the_same_cluster() {
    let environment = IsolatedEnvironment::start().await;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut moments = StdRng::seed_from_u64(seed);
    let mut manager = environment.ready_manager("0", &[]).await;
    let alive = tokio::sync::Mutex::new(());
    let provisioned = async |kind: &str, name: &str| {
        let cluster_api = &environment.cluster_api;
        cluster_api
            .wait_for(kind, name, DISTURBED, is_provisioned)
            .await
            .unwrap();
    };
    let script = async {
        {
            let _alive = alive.lock().await;
            environment.create_cluster("killed", "127.96.0.0/24").await;
        }
        provisioned("OpenStackCluster", "killed").await;
        for machine in MACHINES {
            {
                // The webhooks die with the manager: objects are created while it lives.
                let _alive = alive.lock().await;
                environment.create_machine("killed", machine, true).await;
            }
            provisioned("OpenStackMachine", machine).await;
        }
    };
    let killer = async {
        for life in 1..=10 {
            let moment = Duration::from_millis(moments.random_range(100..1_500));
            tokio::time::sleep(moment).await;
            let _dead = alive.lock().await;
            manager.process.signal("KILL").unwrap();
            manager.process.wait(PATIENCE).unwrap();
            manager = environment.ready_manager(&life.to_string(), &[]).await;
        }
    };
    tokio::join!(script, killer);
    environment.assert_nothing_exists_twice();
    environment.delete_cluster("killed").await;
    environment.assert_nothing_is_left_of("killed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_that_thaws_writes_nothing_twice() {
    // `make deep` uses the shipped times of the lease, and freezes the leader for longer than the lease lasts.
    let shipped = std::env::var_os("CAPO_RS_SHIPPED_LEASE").is_some();
    let (lease, frozen_for) = if shipped {
        (&["--leader-elect"][..], Duration::from_secs(20))
    } else {
        (&SHORT_LEASE[..], Duration::ZERO)
    };
    let environment = IsolatedEnvironment::start().await;
    // The second manager serves the webhooks for both, as a Service sends requests to ready Pods only.
    let without_webhooks = [lease, &["--webhook-port=0"]].concat();
    let mut first = environment.start_manager("first", &without_webhooks);
    first.until_logged("Leading").await.unwrap();
    let mut second = environment.ready_manager("second", lease).await;
    environment.create_cluster("frozen", "127.80.0.0/24").await;
    environment
        .until_provisioned("OpenStackCluster", "frozen")
        .await;
    // The creation is under way when the first manager freezes: OpenStack carries it out, and no manager gets the
    // answer.
    let control = environment.cloud.control();
    control
        .command(Command::Fault(Box::new(Fault {
            matching: CallMatch {
                label: Some("server_create".to_owned()),
                ..CallMatch::default()
            },
            delay: 5.0,
            count: Some(1),
            ..Fault::default()
        })))
        .unwrap();
    environment.create_machine("frozen", "cp-0", true).await;
    until("the server is being created", async || {
        let calls = control.calls_since(0);
        let is_under_way = calls.iter().any(|call| call.label == "server_create");
        is_under_way.then_some(())
    })
    .await;
    first.process.signal("STOP").unwrap();
    let frozen = std::time::Instant::now();
    second.until_logged("Leading").await.unwrap();
    environment
        .until_provisioned("OpenStackMachine", "cp-0")
        .await;
    tokio::time::sleep(frozen_for.saturating_sub(frozen.elapsed())).await;
    let before = control.last_call();
    first.process.signal("CONT").unwrap();
    assert_eq!(first.process.wait(PATIENCE).unwrap().code(), Some(1));
    first
        .until_logged("the leader lease was lost")
        .await
        .unwrap();
    // All writes since the first manager runs again are of the second one, and nothing is left to create.
    let late: Vec<_> = control
        .calls_since(before)
        .into_iter()
        .filter(|call| call.method == "POST" && call.label != "token_create")
        .collect();
    assert_eq!(late, []);
    assert_eq!(environment.created_twice(), Vec::<String>::new());
    environment.assert_nothing_exists_twice();
}

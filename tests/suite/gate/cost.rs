//! What the release of one machine costs on an idle cluster, counted and measured beside a release without the gate.

use std::time::{Duration, Instant};

use capo_core::GateMode;
use fake_cloud::{Durations, Options, Service};
use serde_json::Value;

use super::{
    joining::until_enabled,
    scene::{cluster, is_hooked, is_provisioned, join},
};
use test_support::{env::Environment, waiting::PATIENCE};

/// The most calls to Octavia until the hook goes.
const MOST_CALLS: usize = 8;
/// The most time that the deletion of a Machine takes longer than with `--load-balancer-gate=off`.
const MOST_TIME: Duration = Duration::from_secs(8);
/// No call to Octavia for so long: nothing settles, and nothing is waited for.
const QUIET: Duration = Duration::from_secs(20);

/// Three machines behind a load balancer whose operations take one second, with the shipped intervals.
async fn idle(namespace: &str, mode: GateMode) -> Environment {
    let options = Options {
        durations: Durations {
            operation: 1.0,
            ..Durations::instant()
        },
        data_path: false,
        ..Options::default()
    };
    let settings = capo_gate::Settings {
        mode,
        ..capo_gate::Settings::default()
    };
    let stage = Environment::in_namespace(namespace)
        .cloud(options)
        .gate(settings)
        .shipped_client()
        .start()
        .await;
    cluster(&stage, "10.6.0.0/24", "amphora").await;
    if mode == GateMode::Enforce {
        join(&stage, &["m0", "m1", "m2"]).await;
        until_enabled(&stage, "m2").await;
    } else {
        for name in ["m0", "m1", "m2"] {
            super::scene::create(&stage, name).await;
            stage.until("OpenStackMachine", name, is_provisioned).await;
        }
    }
    let (begun, mut since) = (Instant::now(), stage.cloud.control().last_call());
    let mut quiet = Instant::now();
    while quiet.elapsed() < QUIET {
        assert!(begun.elapsed() < PATIENCE, "never idle");
        tokio::time::sleep(Duration::from_millis(200)).await;
        if !octavia(&stage, since).is_empty() {
            since = stage.cloud.control().last_call();
            quiet = Instant::now();
        }
    }
    stage
}

/// The calls to Octavia after number `since`.
fn octavia(stage: &Environment, since: u64) -> Vec<String> {
    let calls = stage.cloud.control().calls_since(since).into_iter();
    calls
        .filter(|call| call.service == Service::LoadBalancer)
        .map(|call| format!("{:.2} {} {}", call.at, call.method, call.label))
        .collect()
}

/// Deletes a Machine. Returns the calls until its hook is gone, and how long it takes until the Machine is gone.
async fn release(stage: &Environment) -> (Vec<String>, Duration) {
    let since = stage.cloud.control().last_call();
    let begun = Instant::now();
    stage.cluster_api.delete("Machine", "m0").await.unwrap();
    stage
        .until("Machine", "m0", |machine| !is_hooked(machine))
        .await;
    let calls = octavia(stage, since);
    stage.until("Machine", "m0", Value::is_null).await;
    (calls, begun.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_release_of_one_machine_takes_few_calls_and_little_longer_than_without_the_gate() {
    // Side by side, so that this machine is as busy for both.
    let (with, without) = tokio::join!(
        idle("cost-enforce", GateMode::Enforce),
        idle("cost-off", GateMode::Off)
    );
    let ((calls, with_gate), (_, without_gate)) = tokio::join!(release(&with), release(&without));
    println!(
        "{} calls; {with_gate:.1?} with the gate and {without_gate:.1?} without",
        calls.len()
    );
    assert!(calls.len() <= MOST_CALLS, "{calls:#?}");
    assert!(
        with_gate <= without_gate + MOST_TIME,
        "{with_gate:?} with the gate and {without_gate:?} without: {calls:#?}"
    );
}

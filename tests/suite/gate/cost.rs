//! The calls that the release of one machine costs on an idle cluster. The gate's own tests check its duration, in
//! simulated time.

use std::time::{Duration, Instant};

use fake_cloud::{Durations, Options, Service};

use super::control_plane::{cluster, is_hooked, join};
use test_support::{env::Environment, waiting::until};

/// The most calls to Octavia until the release gate is open.
const MOST_CALLS: usize = 8;
/// If there was no call to Octavia for this time, all changes have settled and nothing is waited for.
const QUIET: Duration = Duration::from_secs(20);

/// Three machines behind a load balancer whose operations take one second, with the shipped intervals.
async fn idle(namespace: &str) -> Environment {
    let options = Options {
        durations: Durations {
            operation: 1.0,
            ..Durations::instant()
        },
        data_path: false,
        ..Options::default()
    };
    let environment = Environment::in_namespace(namespace)
        .cloud(options)
        .gate(capo_gate::Settings::default())
        .shipped_client()
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1", "m2"]).await;
    let (mut since, mut quiet) = (environment.cloud.control().last_call(), Instant::now());
    until("Octavia is idle", async || {
        if !octavia(&environment, since).is_empty() {
            since = environment.cloud.control().last_call();
            quiet = Instant::now();
        }
        (quiet.elapsed() >= QUIET).then_some(())
    })
    .await;
    environment
}

/// The calls to Octavia after number `since`.
fn octavia(environment: &Environment, since: u64) -> Vec<String> {
    let calls = environment.cloud.control().calls_since(since).into_iter();
    calls
        .filter(|call| call.service == Service::LoadBalancer)
        .map(|call| format!("{:.2} {} {}", call.at, call.method, call.label))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_release_of_one_machine_takes_few_calls() {
    let environment = idle("cost").await;
    let since = environment.cloud.control().last_call();
    environment.cluster_api.delete("Machine", "m0").await;
    // The test does not wait until the hook is removed, because until then there are further reads at intervals, and
    // more of them if Kubernetes is slow.
    until("the release gate is open", async || {
        let is_hooked = is_hooked(&environment.get("Machine", "m0").await);
        (environment.is_release_open("c1", "m0") || !is_hooked).then_some(())
    })
    .await;
    let calls = octavia(&environment, since);
    assert!(calls.len() <= MOST_CALLS, "{calls:#?}");
    environment.until_gone("Machine", "m0").await;
}

//! What a pass over a settled OpenStackServer costs the processor with a hundred servers and with a thousand.
//!
//! Run by `make bench`; prints the numbers and fails when a promise is broken. The sync period is chosen so that there
//! are as many passes in a second with few servers as with many.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and ends at the first error"
)]

use test_support::{env, figures, measured_environment};

use std::{process::ExitCode, time::Duration};

use measured_environment::{MeasuredEnvironment, NAMESPACE};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const FEW: usize = 100;
const MANY: usize = 1_000;
/// Passes in a second.
const RATE: usize = 50;
/// How much more a pass may cost with ten times as many servers: what a machine's other work changes of two equal runs.
const MORE: f64 = 1.25;
/// How long each number of servers is measured, in sync periods of the larger one.
const MEASURED: Duration = Duration::from_mins(1);
/// How long the servers may take to become ready.
const READY_WITHIN: Duration = Duration::from_mins(15);

fn main() -> ExitCode {
    figures::benchmark(keeps_the_promises)
}

fn keeps_the_promises(runtime: &Runtime) -> bool {
    let (few, many) = runtime.block_on(measure());
    let more = many / few;
    println!(
        "a pass over a settled server takes {:.2} ms of processor time with {FEW} servers, {:.2} ms with {MANY}: {more:.2} \
         times as much (promised {MORE})",
        few * 1e3,
        many * 1e3
    );
    figures::record(
        "servers",
        "make bench",
        &[(
            "processor time of a pass, 1,000 OpenStackServers compared with 100",
            "times",
            (more * 100.0).ceil() / 100.0,
            MORE,
        )],
    );
    more <= MORE
}

/// Seconds of processor time for a pass with few servers and with many.
async fn measure() -> (f64, f64) {
    let cloud = measured_environment::quick_cloud().await;
    let mut environment = MeasuredEnvironment::without_manager().await;
    environment.credentials("cloud", &cloud.clouds_yaml()).await;
    let few = with(&mut environment, 0, FEW).await;
    let many = with(&mut environment, FEW, MANY).await;
    (few, many)
}

/// Creates servers up to this number, and measures passes over all of them.
async fn with(environment: &mut MeasuredEnvironment, existing: usize, servers: usize) -> f64 {
    let fast = ["--openstack-qps=500", "--openstack-burst=500"];
    environment.start(&fast).await;
    let wanted: Vec<Value> = (existing..servers).map(server).collect();
    for some in wanted.chunks(50) {
        env::apply::apply(&environment.admin, some).await.unwrap();
    }
    let is_ready = |server: &Value| server["status"]["ready"] == true;
    environment
        .until_all("OpenStackServer", servers, READY_WITHIN, is_ready)
        .await;
    environment.stop().await;
    let period = format!("--sync-period={}s", servers / RATE);
    environment.start(&[&period, fast[0], fast[1]]).await;
    // The first passes after a start cost more than passes over settled servers.
    tokio::time::sleep(Duration::from_secs(2 * u64::try_from(MANY / RATE).unwrap())).await;
    let (before, [passes]) = (
        processor_seconds(environment),
        environment.passes(["openstackserver"]).await,
    );
    tokio::time::sleep(MEASURED).await;
    let used = processor_seconds(environment) - before;
    let done = environment.passes(["openstackserver"]).await[0] - passes;
    environment.stop().await;
    assert!(done > 1_000, "only {done} passes");
    used / f64::from(u32::try_from(done).unwrap())
}

fn server(number: usize) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
        "metadata": {"name": format!("s-{number}"), "namespace": NAMESPACE},
        "spec": {
            "identityRef": {"name": "cloud", "cloudName": "demo"},
            "image": {"filter": {"name": "cirros"}},
            "flavor": "m1.small",
            "sshKeyName": "",
            "ports": [{"network": {"filter": {"name": "public"}}}],
        },
    })
}

/// The processor time that the manager has used.
fn processor_seconds(environment: &MeasuredEnvironment) -> f64 {
    let process = &environment.manager.as_ref().unwrap().process;
    process.processor_time().unwrap().as_secs_f64()
}

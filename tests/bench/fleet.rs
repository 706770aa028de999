//! What 150 settled clusters of three control-plane machines cost: calls of OpenStack in an hour, resident memory, and
//! what a restart with the default budget takes until everything was observed.
//!
//! Run by `make bench`; prints the numbers and fails when a promise is broken. The calls are counted during one full
//! sync period of ten minutes, in which every object is reconciled and every load balancer is read at its shipped
//! interval, and multiplied by six. `CAPO_RS_BENCH_CLUSTERS` measures fewer clusters, and then records nothing.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and ends at the first error"
)]

use test_support::{figures, measured_environment, waiting::Wait};

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::{Duration, Instant},
};

use fake_cloud::{Call, Control};
use futures::{StreamExt as _, stream};
use measured_environment::{MeasuredEnvironment, Plan, is_provisioned};
use tokio::runtime::Runtime;

/// The number of clusters for which the promises hold.
const CLUSTERS: usize = 150;
/// How many control-plane machines each has.
const MACHINES: usize = 3;
/// Calls of OpenStack in an hour.
const CALLS_AN_HOUR: usize = 3_000;
/// Resident memory, in bytes.
const RESIDENT: u64 = 40 << 20;
/// How soon everything is observed after a restart, and by how many calls.
const OBSERVED_WITHIN: Duration = Duration::from_secs(90);
const CALLS_OF_A_RESTART: usize = 2_000;
/// One sync period, and how many are in an hour.
const PERIOD: Duration = Duration::from_mins(10);
const PERIODS_AN_HOUR: usize = 6;
/// How long the preparation may take for each cluster.
const PREPARED_WITHIN: Duration = Duration::from_secs(30);
/// How many objects are created at the same time.
const AT_ONCE: usize = 8;

fn main() -> ExitCode {
    figures::benchmark(keeps_the_promises)
}

fn keeps_the_promises(runtime: &Runtime) -> bool {
    let asked = std::env::var("CAPO_RS_BENCH_CLUSTERS").ok();
    let clusters = asked.and_then(|text| text.parse().ok()).unwrap_or(CLUSTERS);
    let measured = runtime.block_on(measure(clusters));
    println!("{clusters} clusters of {MACHINES} control-plane machines");
    let mut kept = true;
    for (what, unit, value, promised) in &measured {
        let good = value <= promised;
        kept &= good;
        let broken = if good { "" } else { "  BROKEN" };
        println!("    {what}: {value} {unit} (promised {promised}){broken}");
    }
    if clusters == CLUSTERS {
        figures::record("fleet", "make bench", &measured);
    }
    kept || clusters != CLUSTERS
}

async fn measure(clusters: usize) -> Vec<(&'static str, &'static str, f64, f64)> {
    let cloud = measured_environment::quick_cloud().await;
    let control = cloud.control();
    let mut environment = MeasuredEnvironment::without_manager().await;
    // The budget is so large that the preparation does not wait for it.
    let fast = ["--openstack-qps=500", "--openstack-burst=500"];
    environment.start(&fast).await;
    environment.credentials("cloud", &cloud.clouds_yaml()).await;
    prepare(&environment, clusters).await;
    until_quiet(control).await;
    environment.cluster_api.stop();
    environment.stop().await;

    let (since, begun) = (control.last_call(), Instant::now());
    environment.start(&[]).await;
    let observed = until_observed(&environment, control, since, clusters, begun).await;
    let of_restart = control.calls_since(since);
    print_calls("the restart", &of_restart);

    tokio::time::sleep(Duration::from_mins(1)).await;
    let since = control.last_call();
    tokio::time::sleep(PERIOD).await;
    let settled = control.calls_since(since);
    print_calls("a settled period", &settled);
    let resident = environment
        .manager
        .as_ref()
        .unwrap()
        .process
        .resident_bytes();
    let number = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    let kibibytes = |bytes: u64| u32::try_from(bytes >> 10).map_or(f64::MAX, f64::from);
    environment.stop().await;
    vec![
        (
            "calls an hour of 150 settled clusters",
            "calls",
            number(settled.len() * PERIODS_AN_HOUR),
            number(CALLS_AN_HOUR),
        ),
        (
            "resident memory with 150 clusters",
            "KiB",
            kibibytes(resident.unwrap()),
            kibibytes(RESIDENT),
        ),
        (
            "150 clusters observed after a restart",
            "s",
            observed.as_secs_f64().ceil(),
            OBSERVED_WITHIN.as_secs_f64(),
        ),
        (
            "calls until 150 clusters were observed after a restart",
            "calls",
            number(of_restart.len()),
            number(CALLS_OF_A_RESTART),
        ),
    ]
}

fn plan(name: &str) -> Plan<'_> {
    Plan {
        name,
        credentials: "cloud",
        provider: "amphora",
        additional_ports: &[],
    }
}

/// Creates clusters and machines. The machines of each cluster are created one after the other, as a control plane does
/// it.
async fn prepare(environment: &MeasuredEnvironment, clusters: usize) {
    let names: Vec<String> = (0..clusters).map(|index| format!("c{index:03}x")).collect();
    let created = stream::iter(&names).map(|name| environment.cluster(plan(name)));
    created.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let at_most = PREPARED_WITHIN.saturating_mul(u32::try_from(clusters.max(4)).unwrap());
    environment
        .until_all("OpenStackCluster", clusters, at_most, is_provisioned)
        .await;
    for index in 0..MACHINES {
        let created = stream::iter(&names).map(|name| async move {
            environment
                .machine(plan(name), &format!("{name}-cp-{index}"))
                .await;
        });
        created.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
        let machines = clusters * (index + 1);
        environment
            .until_all("OpenStackMachine", machines, at_most, is_provisioned)
            .await;
    }
}

/// Waits until no write was sent for a while: members that joined are enabled by then.
async fn until_quiet(control: &Control) {
    let begun = Instant::now();
    let mut since = control.last_call();
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(30) {
        assert!(begun.elapsed() < PERIOD, "the manager still writes");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let calls = control.calls_since(since);
        if let Some(write) = calls.iter().rfind(|call| !is_read(call)) {
            (since, quiet) = (write.sequence, Instant::now());
        }
    }
}

fn is_read(call: &Call) -> bool {
    call.method == "GET" || call.label == "token_create"
}

/// How long after `begun` every load balancer was read, and every cluster, machine and server was reconciled.
async fn until_observed(
    environment: &MeasuredEnvironment,
    control: &Control,
    since: u64,
    clusters: usize,
    begun: Instant,
) -> Duration {
    let servers = clusters * MACHINES;
    let wait = Wait::default()
        .at_most(PERIOD)
        .between(Duration::from_millis(500));
    let seen = wait.ok(async || {
        let calls = control.calls_since(since);
        let trees = calls
            .iter()
            .filter(|call| call.label == "loadbalancer_status_tree");
        let trees: BTreeSet<&str> = trees.map(|call| call.path.as_str()).collect();
        let controllers = ["openstackcluster", "openstackmachine", "openstackserver"];
        let passes = environment.passes(controllers).await;
        let wanted = [clusters, servers, servers];
        if trees.len() >= clusters
            && passes
                .iter()
                .zip(wanted)
                .all(|(done, wanted)| *done >= wanted)
        {
            return Ok(begun.elapsed());
        }
        let read = trees.len();
        Err(format!(
            "{read} load balancers; passes of {controllers:?}: {passes:?}"
        ))
    });
    seen.await.unwrap()
}

/// The number of calls by their label, most first.
fn print_calls(what: &str, calls: &[Call]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *counts.entry(call.label.as_str()).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("{what}: {} calls", calls.len());
    for (label, count) in counts {
        println!("    {count:5} {label}");
    }
}

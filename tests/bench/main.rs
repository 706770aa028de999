//! How soon Cluster API may go on after Octavia is done: a member turns ACTIVE in the cloud, its machine is provisioned
//! in Kubernetes. One new machine in each of many clusters, all at once, on one credential. And how much memory the
//! manager has when all is settled.
//!
//! Run by `make bench`; prints the numbers and fails when a promise is broken. Operations take 1 s, load balancers 8 s.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and ends at the first error"
)]

use test_support::{env, figures, measured_environment, waiting::PATIENCE};

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use fake_cloud::{Control, Durations, FakeCloud, Options};
use futures::{StreamExt as _, future::join_all, pin_mut};
use kube::{
    ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use measured_environment::{MeasuredEnvironment, NAMESPACE, Plan, is_provisioned};
use tokio::runtime::Runtime;

/// How many at once, and what is promised for the median and the slowest hundredth.
const ROUNDS: [(usize, Duration, Duration); 3] = [
    (1, Duration::from_secs(1), Duration::from_secs(3)),
    (10, Duration::from_secs(1), Duration::from_secs(3)),
    (50, Duration::from_secs(4), Duration::from_secs(6)),
];
/// Resident memory with one cluster, in bytes.
const RESIDENT: u64 = 20 << 20;
/// How long the manager is left alone before its memory is read.
const SETTLED: Duration = Duration::from_secs(30);
/// Sizes up to this one are measured several times, so that there are enough values.
const AGAIN: usize = 3;

fn main() -> ExitCode {
    figures::benchmark(keeps_the_promises)
}

fn keeps_the_promises(runtime: &Runtime) -> bool {
    let at_most = std::env::var("CAPO_RS_BENCH_CLUSTERS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usize::MAX);
    println!("member ACTIVE in the cloud -> machine provisioned");
    let mut kept = true;
    let mut measured = Vec::new();
    for (clusters, median, slowest) in ROUNDS {
        if clusters <= at_most {
            let (lags, resident) = runtime.block_on(measure(clusters));
            let (p50, p99) = (quantile(&lags, 50), quantile(&lags, 99));
            let good = p50 <= median && p99 <= slowest;
            kept &= good;
            let at_once = format!("member ACTIVE to machine provisioned, {clusters} at once");
            for (quantile, lag, promised) in [("median", p50, median), ("99 %", p99, slowest)] {
                let hundredths = (lag.as_secs_f64() * 100.0).ceil() / 100.0;
                let what = format!("{at_once}, {quantile}");
                measured.push((what, "s", hundredths, promised.as_secs_f64()));
            }
            println!(
                "{clusters:3} at once: p50 {:.2} s (promised {median:?}), p99 {:.2} s (promised {slowest:?}){}",
                p50.as_secs_f64(),
                p99.as_secs_f64(),
                if good { "" } else { "  BROKEN" },
            );
            let good = clusters > 1 || resident <= RESIDENT;
            kept &= good;
            if clusters == 1 {
                let kibibytes = |bytes: u64| u32::try_from(bytes >> 10).map_or(f64::MAX, f64::from);
                measured.push((
                    "resident memory with one cluster".to_owned(),
                    "KiB",
                    kibibytes(resident),
                    kibibytes(RESIDENT),
                ));
            }
            println!(
                "    settled: {} KiB resident (promised with one: {}){}",
                resident >> 10,
                RESIDENT >> 10,
                if good { "" } else { "  BROKEN" },
            );
        }
    }
    let measured: Vec<_> = measured
        .iter()
        .map(|(what, unit, value, promised)| (what.as_str(), *unit, *value, *promised))
        .collect();
    figures::record("bench", "make bench", &measured);
    kept
}

/// The lags of one new machine in each of this many clusters, shortest first, and the manager's resident memory
/// afterwards.
async fn measure(clusters: usize) -> (Vec<Duration>, u64) {
    let cloud = FakeCloud::start(Options {
        durations: Durations {
            server_build: 0.2,
            ..Durations::default()
        },
        data_path: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let mut environment = MeasuredEnvironment::without_manager().await;
    environment.start(&[]).await;
    environment.credentials("cloud", &cloud.clouds_yaml()).await;
    let names: Vec<String> = (0..clusters)
        .map(|index| format!("bench-{index:02}x"))
        .collect();
    let plan = |name| Plan {
        name,
        credentials: "cloud",
        provider: "amphora",
        additional_ports: &[],
    };
    for name in &names {
        environment.cluster(plan(name)).await;
    }
    let provisioned = names.iter().map(|name| {
        environment
            .cluster_api
            .until_provisioned("OpenStackCluster", name)
    });
    join_all(provisioned).await;
    let mut lags = Vec::new();
    // The first machine of a cluster waits for no other member, so it is not measured.
    for round in 0..=if clusters < 50 { AGAIN } else { 1 } {
        let machines: Vec<String> = names
            .iter()
            .map(|name| format!("{name}-cp-{round}"))
            .collect();
        let admitted = admissions(&environment, &machines);
        let active = activations(cloud.control(), &machines);
        let create = join_all(
            names
                .iter()
                .zip(&machines)
                .map(|(name, machine)| environment.machine(plan(name), machine)),
        );
        let (admitted, active, _) = futures::join!(admitted, active, create);
        if round > 0 {
            lags.extend(machines.iter().map(|machine| {
                let (admitted, active) = (admitted.get(machine), active.get(machine));
                admitted
                    .unwrap()
                    .saturating_duration_since(*active.unwrap())
            }));
        }
    }
    tokio::time::sleep(SETTLED).await;
    let manager = environment.manager.as_ref().unwrap();
    let resident = manager.process.resident_bytes().unwrap();
    environment.stop().await;
    lags.sort();
    (lags, resident)
}

/// When each machine was first seen provisioned.
async fn admissions(
    environment: &MeasuredEnvironment,
    machines: &[String],
) -> BTreeMap<String, Instant> {
    let objects = env::cluster_api::api(&environment.admin, NAMESPACE, "OpenStackMachine");
    let mut seen = BTreeMap::new();
    let watch = async {
        let events = objects.watch(&WatchParams::default(), "0").await.unwrap();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                continue;
            };
            let name = object.name_any();
            if machines.contains(&name) && is_provisioned(&object.data) {
                seen.entry(name).or_insert_with(Instant::now);
            }
            if seen.len() == machines.len() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, watch).await.unwrap();
    seen
}

/// When each machine's member was first ACTIVE in the cloud.
async fn activations(control: &Control, machines: &[String]) -> BTreeMap<String, Instant> {
    let mut seen = BTreeMap::new();
    let begun = Instant::now();
    while seen.len() < machines.len() {
        assert!(begun.elapsed() < PATIENCE, "members are not all ACTIVE");
        let now = Instant::now();
        let dump = control.dump();
        let members = dump["load_balancers"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|balancer| balancer["pools"].as_array().into_iter().flatten())
            .flat_map(|pool| pool["members"].as_array().into_iter().flatten())
            .filter(|member| member["provisioning_status"] == "ACTIVE")
            .filter_map(|member| member["name"].as_str());
        for member in members {
            if let Some(machine) = machines.iter().find(|name| member.ends_with(*name)) {
                seen.entry(machine.clone()).or_insert(now);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seen
}

/// The value below which this many hundredths of the sorted `values` lie.
fn quantile(values: &[Duration], hundredths: usize) -> Duration {
    let index = (values.len() * hundredths).div_ceil(100).saturating_sub(1);
    values.get(index).copied().unwrap_or_default()
}

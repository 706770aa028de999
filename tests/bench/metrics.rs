//! The cost of monitoring: a scrape, and every panel of every board over a day of two hundred clusters in a real
//! Prometheus (`step.rs` measures what counting costs the gate). Run by `make bench`; fails when a promise is broken.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and ends at the first error"
)]

use test_support::{env, figures, monitoring::findings};

use std::{
    fmt::Write as _,
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use capo_core::{MemberStatus, Provider};
use capo_gate::{GateObserver as _, MetricEvent, Operation};
use capo_openstack::{CallObserver as _, CallOutcome, CallRecord, Service, SignInOutcome};
use capo_rs::metrics::{Metrics, Settings};
use env::{Prometheus, prometheus::promtool};
use findings::clusters;
use serde_json::Value;
use tokio::runtime::Runtime;

const SCRAPE: Duration = Duration::from_millis(50);
const PANEL: Duration = Duration::from_secs(1);
const CLUSTERS: usize = 200;
const STEP: u32 = 300;
/// A day, in pieces of which Prometheus makes blocks.
const PIECES: u32 = 12;
const STEPS_OF_A_PIECE: u32 = 7_200 / STEP;
/// Families that recording rules of the boards make one series of, without this label.
const RECORDED: [(&str, &str, &str); 2] = [
    (
        "capo_lb_member_provisioning_status{",
        ",status=",
        "namespace_cluster_machine_port:capo_lb_member_provisioning_status:code{",
    ),
    (
        "capo_gate_state{",
        ",state=",
        "namespace_cluster_gate:capo_gate_state:code{",
    ),
];
/// 2026-01-01, the beginning of the recorded day.
const BEGIN: u32 = 1_767_225_600;

fn main() -> ExitCode {
    figures::benchmark(keeps_the_promises)
}

fn keeps_the_promises(runtime: &Runtime) -> bool {
    let scrape = scrape();
    let panels = runtime.block_on(panels());
    scrape && panels
}

fn is_kept(what: &str, took: Duration, promised: Duration) -> bool {
    let good = took <= promised;
    let verdict = if good { "" } else { "  BROKEN" };
    println!(
        "{what}: {:.1} ms (promised {promised:?}){verdict}",
        took.as_secs_f64() * 1e3
    );
    good
}

/// The scrape of 500 members shown one by one.
fn scrape() -> bool {
    let metrics = busy();
    let clusters = clusters(100, 5, &[6443]);
    let text = metrics.render_findings(&clusters).unwrap();
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let begun = Instant::now();
            black_box(metrics.render_findings(black_box(&clusters)).unwrap());
            begun.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "scrape of 500 members: {} bytes, {} lines",
        text.len(),
        text.lines().count()
    );
    is_kept(
        "scrape of 500 members, median",
        times[times.len() / 2],
        SCRAPE,
    )
}

/// Metrics in which every family has a value.
fn busy() -> Metrics {
    let metrics = Metrics::new(Settings::default()).unwrap();
    for request in [
        "loadbalancer_status_tree",
        "loadbalancer_member_create",
        "server_get",
        "port_list",
    ] {
        for outcome in [
            CallOutcome::Status(200),
            CallOutcome::Status(503),
            CallOutcome::TimedOut,
        ] {
            for service in Service::ALL {
                metrics.call(&CallRecord {
                    cloud: "blue",
                    service,
                    request,
                    method: "GET",
                    outcome,
                    duration: Duration::from_millis(80),
                    limiter_wait: Duration::from_millis(1),
                });
                metrics.throttled(
                    "blue",
                    service,
                    Duration::from_mins(1),
                    Some(Duration::from_mins(1)),
                );
                metrics.refused("blue", service, request);
            }
        }
    }
    metrics.signed_in(
        "blue",
        SignInOutcome::Success,
        Some(Duration::from_hours(1)),
    );
    metrics.record(&MetricEvent::TimeToActive(
        Provider::Amphora,
        Operation::Create,
        Duration::from_secs(9),
    ));
    metrics.record(&MetricEvent::Transition {
        provider: Provider::Amphora,
        from: MemberStatus::PendingCreate,
        to: MemberStatus::Active,
    });
    metrics
}

/// Every query of every panel over a day.
async fn panels() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let series = blocks(folder.path());
    println!(
        "a day of {CLUSTERS} clusters, {series} series every {STEP} s, written in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    let prometheus = Prometheus::start(folder.path(), "{}").await.unwrap();
    let range = (f64::from(BEGIN), f64::from(BEGIN + PIECES * 7_200));
    let mut slowest = (Duration::ZERO, String::new());
    let mut number = 0;
    for name in ["capo-rollout-gate", "capo-openstack-api", "capo-controller"] {
        let path = format!(
            "{}/dashboards/{name}.json",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
        );
        let board: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            let begun = Instant::now();
            let mut points = 0;
            for target in panel["targets"].as_array().unwrap() {
                let query = ["$job", "$instance", "$ns", "$wc", "$cloud"].iter().fold(
                    target["expr"]
                        .as_str()
                        .unwrap()
                        .replace("$__rate_interval", "20m")
                        .replace("$__range", "24h"),
                    |query, variable| query.replace(&format!("\"{variable}\""), "\".+\""),
                );
                let answer = prometheus
                    .range(&query, range, f64::from(STEP))
                    .await
                    .unwrap();
                points += answer["result"].as_array().unwrap().len();
            }
            number += 1;
            let took = begun.elapsed();
            if took > slowest.0 {
                slowest = (took, format!("{name}, {} ({points} lines)", panel["title"]));
            }
        }
    }
    println!("{number} panels; the slowest is {}", slowest.1);
    is_kept("slowest panel over 24 h", slowest.0, PANEL)
}

/// Writes the day as blocks. Returns the number of its series.
fn blocks(folder: &std::path::Path) -> usize {
    let text = busy()
        .render_findings(&clusters(CLUSTERS, 3, &[6443]))
        .unwrap();
    let job = r#"job="capo-controller-manager",instance="10.0.0.1:8443""#;
    let mut lines: Vec<(String, f64)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let series = match series.split_once('{') {
            Some((name, labels)) => format!("{name}{{{job},{labels}"),
            None => format!("{series}{{{job}}}"),
        };
        for (metric, state, recorded) in RECORDED {
            if value > 0.0
                && let Some(labels) = series.strip_prefix(metric)
            {
                let (kept, _) = labels.rsplit_once(state).unwrap();
                lines.push((format!("{recorded}{kept}}}"), 1.0));
            }
        }
        lines.push((series, value));
    }
    for piece in 0..PIECES {
        let mut text = String::new();
        for (series, value) in &lines {
            let name = series.split('{').next().unwrap();
            let grows = ["_total", "_bucket", "_count", "_sum"]
                .iter()
                .any(|end| name.ends_with(end));
            let is_time = name.ends_with("_timestamp_seconds");
            for step in piece * STEPS_OF_A_PIECE..(piece + 1) * STEPS_OF_A_PIECE {
                let time = BEGIN + step * STEP;
                let value = match (grows, is_time) {
                    (true, _) => value * f64::from(step + 1),
                    (_, true) => f64::from(time),
                    _ => *value,
                };
                let _ = writeln!(text, "{series} {value} {time}");
            }
        }
        text.push_str("# EOF\n");
        std::fs::write(folder.join("piece"), text).unwrap();
        let output = promtool(
            folder,
            &[
                "tsdb",
                "create-blocks-from",
                "openmetrics",
                "-q",
                "piece",
                "data",
            ],
            "",
        )
        .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    lines.len()
}

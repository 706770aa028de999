//! The catalogue, its page, and the bounds of a scrape.

use std::{collections::BTreeSet, sync::Arc};

use capo_core::{ObjectName, OperatingStatus};
use capo_gate::findings::Findings;
use capo_rs::metrics::{
    MemberDetail, Metrics, Settings,
    catalogue::{ALL, Metric},
    page,
};

use test_support::{
    monitoring::{boards, exposition::families, findings, rules, selectors::selectors},
    repository,
};

/// `CAPO_RS_WRITE_DOCS=1 cargo test --test documents metrics::catalogue` writes the page.
#[test]
fn the_page_is_that_of_the_code() {
    let path = repository("docs/metrics.md");
    if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        page(),
        "docs/metrics.md is not that of the code"
    );
}

#[test]
fn every_name_is_in_the_catalogue_once() {
    let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), ALL.len());
    for metric in ALL {
        // The labels that Prometheus, the Prometheus Operator and mixins add to every series.
        for taken in [
            "namespace",
            "pod",
            "service",
            "container",
            "endpoint",
            "job",
            "instance",
            "cluster",
            "le",
        ] {
            assert!(
                !metric.labels.contains(&taken),
                "{} has the label {taken}",
                metric.name
            );
        }
    }
}

/// The family of a series: `_bucket`, `_sum` and `_count` belong to their histogram.
fn known(name: &str) -> Option<&'static Metric> {
    let family = |name: &str| ALL.iter().find(|metric| metric.name == name).copied();
    family(name).or_else(|| {
        ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| family(name.strip_suffix(end)?))
            .filter(|metric| metric.kind.as_str() == "histogram")
    })
}

#[test]
fn boards_and_rules_query_metrics_that_exist_with_labels_that_they_have() {
    let recorded: BTreeSet<String> = rules::recorded();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let boards = boards::all();
    let of_boards = boards
        .iter()
        .flat_map(|board| &board.panels)
        .flat_map(|panel| &panel.queries);
    let of_boards = of_boards.map(|query| query.expression.clone());
    for query in of_boards.chain(rules::expressions()) {
        for selector in selectors(&query) {
            if recorded.contains(&selector.name) || selector.name == "up" {
                continue;
            }
            let metric =
                known(&selector.name).unwrap_or_else(|| panic!("{} in {query}", selector.name));
            used.insert(metric.name);
            for matcher in &selector.matchers {
                let label = matcher.split(['=', '!']).next().unwrap();
                let known = metric.labels.contains(&label) || ["job", "instance"].contains(&label);
                assert!(known, "{} has no label {label}: {query}", metric.name);
            }
        }
    }
    // The metrics on no board and in no rule. They are listed so that their absence there is a decision.
    let unused: Vec<&str> = ALL
        .iter()
        .map(|metric| metric.name)
        .filter(|name| !used.contains(name))
        .collect();
    assert_eq!(
        unused,
        [
            "capo_lb_member_info",
            "capo_lb_provisioning_status",
            "capo_lb_operating_status",
            "capo_lb_member_time_to_removed_seconds",
            "capo_lb_member_operations_total",
            "capo_gate_hold_duration_seconds",
            "capo_poll_cycles_total",
            "capo_poll_interval_seconds",
            "capo_metrics_member_detail_suppressed",
            "controller_runtime_terminal_reconcile_errors_total",
            "controller_runtime_reconcile_panics_total",
            "controller_runtime_reconcile_timeouts_total",
            "workqueue_adds_total",
            "workqueue_retries_total",
            "workqueue_work_duration_seconds",
            "workqueue_unfinished_work_seconds",
            "capo_operator_condition",
            "controller_runtime_webhook_requests_in_flight",
            "certwatcher_read_certificate_total",
            "certwatcher_read_certificate_errors_total",
            "process_virtual_memory_bytes",
        ]
    );
}

/// Clusters of three machines and two ports each.
fn clusters(number: usize) -> Vec<(ObjectName, Arc<Findings>)> {
    findings::clusters(number, 3, &[6443, 9345])
}

fn scrape(settings: Settings, clusters: &[(ObjectName, Arc<Findings>)]) -> String {
    Metrics::new(settings)
        .unwrap()
        .render_findings(clusters)
        .unwrap()
}

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

fn shown(text: &str) -> usize {
    text.lines()
        .filter(|line| line.starts_with("capo_lb_member_info{"))
        .count()
}

#[test]
fn a_scrape_is_no_larger_than_promised() {
    // Above 500 members only those that are not ACTIVE have series: two of every tenth cluster.
    for (number, members) in [(0, 0), (1, 6), (83, 498), (200, 40), (1_000, 200)] {
        let text = scrape(Settings::default(), &clusters(number));
        assert_eq!(shown(&text), members, "{number} clusters");
        let at_most = 17 * members + 50 * number + 3_000;
        assert!(
            series(&text) <= at_most,
            "{} series, promised {at_most}",
            series(&text)
        );
        let suppressed = format!(
            "capo_metrics_member_detail_suppressed {}",
            u8::from(number * 6 > 500)
        );
        assert!(text.contains(&suppressed), "{number} clusters");
        // All are counted, shown or not.
        assert_eq!(
            families(&text)
                .get("capo_lb_members")
                .map_or(0, |f| f.series),
            number * 2 * 8
        );
    }
}

#[test]
fn the_cap_holds_whatever_state_a_thousand_clusters_are_in() {
    let mut all = clusters(1_000);
    for (_, findings) in &mut all {
        let findings = Arc::make_mut(findings);
        for member in &mut findings.members {
            member.operating_status = OperatingStatus::NoMonitor;
        }
    }
    // The pending member comes last in the findings, and is shown all the same.
    all.rotate_left(1);
    let text = scrape(Settings::default(), &all);
    assert_eq!(shown(&text), 500);
    assert!(text.contains(r#"cluster_name="cluster-0",cluster_namespace="team",machine="cluster-0-control-plane-2",port="6443",status="PENDING_CREATE"} 1"#));
    let detail = |member_detail, max_members| Settings {
        member_detail,
        max_members,
        ..Settings::default()
    };
    assert_eq!(shown(&scrape(detail(MemberDetail::Auto, 20), &all)), 20);
    assert_eq!(shown(&scrape(detail(MemberDetail::Full, 20), &all)), 6_000);
    assert_eq!(shown(&scrape(detail(MemberDetail::Off, 500), &all)), 0);
}

#[test]
fn label_values_from_outside_break_nothing() {
    let mut all = clusters(1);
    let findings = Arc::make_mut(&mut all[0].1);
    for name in [
        "quo\"te",
        "new\nline",
        "back\\slash",
        "} 1\ninjected 1",
        "ünï\u{202e}cøde",
        &"long".repeat(1_000),
    ] {
        let mut stranger = findings::member(name, 6443, "name\"}\nof a status");
        stranger.id = Some(name.into());
        stranger.operating_status = OperatingStatus::from(name);
        findings.members.push(stranger);
    }
    let text = scrape(Settings::default(), &all);
    let families = families(&text);
    assert!(!families.contains_key("injected"));
    assert_eq!(families["capo_lb_member_info"].series, 12);
    assert_eq!(
        families["capo_lb_member_provisioning_status"].series,
        12 * 8
    );
    assert!(text.lines().all(|line| line.len() < 2_000));
}

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{Metrics, Settings};
use capo_core::{
    ConditionState, MemberStatus, ObjectName, OperatingStatus, Provider, ProvisioningStatus, Reason,
};
use capo_gate::{
    GateObserver as _, MetricEvent, Operation,
    findings::{Findings, Gate, MachineFinding, MemberFinding},
};
use capo_openstack::{CallObserver as _, CallOutcome, CallRecord, Service};

fn record(cloud: &str, outcome: CallOutcome) -> CallRecord<'_> {
    CallRecord {
        cloud,
        service: Service::LoadBalancer,
        request: "loadbalancer_member_create",
        method: "POST",
        outcome,
        duration: Duration::from_millis(80),
        limiter_wait: Duration::ZERO,
    }
}

fn member(machine: usize, status: &str) -> MemberFinding {
    MemberFinding {
        machine: format!("machine-{machine}"),
        port: 6443,
        id: Some("id".into()),
        pool_id: Some("pool".into()),
        address: Some("10.6.0.5".parse().unwrap()),
        provisioning_status: MemberStatus::from(&ProvisioningStatus::from(status)),
        operating_status: OperatingStatus::Online,
        since: Timestamp::UNIX_EPOCH,
        last_observed: Timestamp::UNIX_EPOCH,
        message: String::new(),
        stuck: status == "PENDING_CREATE",
    }
}

fn rendered(findings: Findings) -> String {
    Metrics::new(Settings::default())
        .unwrap()
        .render_findings(&[(ObjectName::new("ns", "c1"), Arc::new(findings))])
        .unwrap()
}

#[test]
fn calls_are_counted_as_capo_counts_them() {
    let metrics = Metrics::new(Settings::default()).unwrap();
    for outcome in [
        CallOutcome::Status(201),
        CallOutcome::Status(409),
        CallOutcome::Status(503),
        CallOutcome::TimedOut,
    ] {
        metrics.call(&record("openstack", outcome));
    }
    let text = metrics.render(None).unwrap();
    for line in [
        r#"capo_openstack_api_requests_total{request="loadbalancer_member_create"} 4"#,
        r#"capo_openstack_api_request_errors_total{request="loadbalancer_member_create"} 2"#,
        r#"capo_openstack_api_request_duration_seconds_count{request="loadbalancer_member_create"} 4"#,
        r#"capo_openstack_api_responses_total{api="load-balancer",cloud="openstack",code="timeout",method="POST"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_number_of_clouds_with_own_series_is_limited() {
    let metrics = Metrics::new(Settings::default()).unwrap();
    for cloud in 0..200 {
        metrics.call(&record(&format!("cloud-{cloud}"), CallOutcome::Status(200)));
    }
    let text = metrics.render(None).unwrap();
    let clouds: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.starts_with("capo_openstack_api_responses_total"))
        .collect();
    assert_eq!(clouds.len(), 51);
}

#[test]
fn a_member_has_one_status_of_each_kind() {
    let text = rendered(Findings {
        members: vec![member(1, "PENDING_CREATE"), member(2, "SOMETHING_NEW")],
        ..Findings::default()
    });
    for line in [
        r#"capo_lb_member_provisioning_status{cluster_name="c1",cluster_namespace="ns",machine="machine-1",port="6443",status="PENDING_CREATE"} 1"#,
        r#"capo_lb_member_provisioning_status{cluster_name="c1",cluster_namespace="ns",machine="machine-1",port="6443",status="ACTIVE"} 0"#,
        r#"capo_lb_member_provisioning_status{cluster_name="c1",cluster_namespace="ns",machine="machine-2",port="6443",status="Unknown"} 1"#,
        r#"capo_lb_members_stuck{cluster_name="c1",cluster_namespace="ns",port="6443"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_held_gate_has_its_reason_and_time() {
    let held = |since| Gate::held(Reason::MemberPending, "", since);
    let machine = |admission| MachineFinding {
        verdict: ConditionState::default(),
        admission,
        release: Gate::NOT_EVALUATED,
        finalizer: Gate::NOT_EVALUATED,
        needs_server_read: false,
    };
    let later = Timestamp::from_second(100).unwrap();
    let text = rendered(Findings {
        observed: Some(later),
        machines: [
            (ObjectName::new("ns", "a"), machine(held(later))),
            (
                ObjectName::new("ns", "b"),
                machine(held(Timestamp::from_second(40).unwrap())),
            ),
        ]
        .into(),
        ..Findings::default()
    });
    for line in [
        r#"capo_gate_state{cluster_name="c1",cluster_namespace="ns",gate="admission",state="Held"} 1"#,
        r#"capo_gate_state{cluster_name="c1",cluster_namespace="ns",gate="release",state="Open"} 1"#,
        r#"capo_gate_held_reason{cluster_name="c1",cluster_namespace="ns",gate="admission",machine="a",reason="MemberPending"} 1"#,
        r#"capo_gate_held_since_timestamp_seconds{cluster_name="c1",cluster_namespace="ns",gate="admission",machine="b"} 40"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn above_the_limit_only_members_with_a_problem_are_shown() {
    let mut members: Vec<_> = (0..600).map(|number| member(number, "ACTIVE")).collect();
    members.push(member(700, "ERROR"));
    let text = rendered(Findings {
        members,
        ..Findings::default()
    });
    assert!(text.contains("capo_metrics_member_detail_suppressed 1"));
    assert!(text.contains(r#"machine="machine-700""#));
    assert!(!text.contains(r#"machine="machine-1""#));
    assert!(text.contains(
        r#"capo_lb_members{cluster_name="c1",cluster_namespace="ns",port="6443",status="ACTIVE"} 600"#
    ));
}

/// Another member with the machine's name, at another address, follows the machine's own in the findings.
#[test]
fn a_series_has_one_value_however_many_members_have_the_name() {
    let text = rendered(Findings {
        members: vec![member(1, "ERROR"), member(1, "ACTIVE")],
        ..Findings::default()
    });
    let mut series: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect();
    series.sort_unstable();
    let all = series.len();
    series.dedup();
    assert_eq!(series.len(), all);
    for line in [
        r#"machine="machine-1",port="6443",status="ERROR"} 1"#,
        r#"capo_lb_members{cluster_name="c1",cluster_namespace="ns",port="6443",status="ACTIVE"} 1"#,
        "capo_metrics_member_detail_suppressed 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn every_provider_has_series_of_its_own() {
    for (shown, names) in [
        ("amphora", &["amphora", "octavia", ""][..]),
        ("amphorav2", &["amphorav2"]),
        ("ovn", &["ovn"]),
        ("other", &["f5", "a10"]),
    ] {
        let metrics = Metrics::new(Settings::default()).unwrap();
        for name in names {
            let provider = Provider::of(name);
            metrics.record(&MetricEvent::Transition {
                provider,
                from: MemberStatus::PendingCreate,
                to: MemberStatus::Active,
            });
            metrics.record(&MetricEvent::TimeToActive(
                provider,
                Operation::Create,
                Duration::from_secs(2),
            ));
            metrics.record(&MetricEvent::TimeToRemoved(
                provider,
                Duration::from_secs(2),
            ));
        }
        let text = metrics.render(None).unwrap();
        let count = names.len();
        for line in [
            format!(
                r#"capo_lb_member_transitions_total{{from="PENDING_CREATE",provider="{shown}",to="ACTIVE"}} {count}"#
            ),
            format!(
                r#"capo_lb_member_time_to_active_seconds_count{{operation="create",provider="{shown}"}} {count}"#
            ),
            format!(
                r#"capo_lb_member_time_to_removed_seconds_count{{provider="{shown}"}} {count}"#
            ),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        let own = format!(r#"provider="{shown}""#);
        let has_a_provider = |line: &&str| line.contains(r#"provider=""#);
        let mut lines = text.lines().filter(has_a_provider);
        assert!(lines.all(|line| line.contains(&own)), "{text}");
    }
}

#[test]
fn every_family_has_help_and_a_proper_name() {
    let metrics = Metrics::new(Settings::default()).unwrap();
    metrics.call(&record("openstack", CallOutcome::Status(200)));
    metrics.record(&MetricEvent::Read(true, Duration::ZERO));
    let text = metrics.render(None).unwrap();
    let helped: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(helped.contains(name), "{name} has no help");
        assert_eq!(
            kind == "counter",
            name.ends_with("_total"),
            "{name} is a {kind}"
        );
    }
}

use std::{ffi::OsString, time::Duration};

use clap::Parser;

use super::{LoggingFormat, Settings, normalise};
use capo_core::GateMode;

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct CommandLine {
    #[command(flatten)]
    settings: Settings,
}

fn parse(arguments: &[&str]) -> Result<Settings, String> {
    let arguments = std::iter::once("capo-rs")
        .chain(arguments.iter().copied())
        .map(OsString::from);
    CommandLine::try_parse_from(normalise(arguments))
        .map(|line| line.settings)
        .map_err(|error| error.to_string())
}

#[test]
fn defaults_are_those_of_capo() {
    let settings = parse(&[]).unwrap();
    assert!(!settings.leader_elect);
    assert!(!settings.insecure_diagnostics);
    assert_eq!(
        settings.leader_elect_lease_duration,
        Duration::from_secs(15)
    );
    assert_eq!(
        settings.leader_elect_renew_deadline,
        Duration::from_secs(10)
    );
    assert_eq!(settings.leader_elect_retry_period, Duration::from_secs(2));
    assert_eq!(settings.sync_period, Duration::from_mins(10));
    assert_eq!(settings.openstackmachine_concurrency, 10);
    assert_eq!(settings.webhook_port, 9443);
    assert_eq!(settings.load_balancer_gate, GateMode::Enforce);
    assert_eq!(settings.health_addr.0, Some("[::]:9440".parse().unwrap()));
    settings.check().unwrap();
    assert!(settings.accepted.set().is_empty());
}

#[test]
fn the_arguments_of_capos_deployment_are_accepted() {
    let settings = parse(&[
        "--leader-elect",
        "--v=2",
        "--diagnostics-address=127.0.0.1:8080",
        "--insecure-diagnostics=true",
        "--lb-provider=amphora",
        "--logging-format=json",
        "--webhook_port=9444",
        "--feature-gates=PriorityQueue=true",
        "--scope-cache-max-size",
        "20",
    ])
    .unwrap();
    assert!(settings.leader_elect && settings.insecure_diagnostics);
    assert_eq!(settings.webhook_port, 9444);
    assert_eq!(settings.logging_format, LoggingFormat::Json);
    assert_eq!(
        settings.accepted.set(),
        ["--scope-cache-max-size", "--feature-gates"]
    );
}

#[test]
fn false_is_false() {
    assert!(!parse(&["--leader-elect=false"]).unwrap().leader_elect);
}

#[test]
fn a_bad_value_names_flag_value_and_what_is_allowed() {
    for (argument, parts) in [
        (
            "--load-balancer-gate=maybe",
            ["maybe", "--load-balancer-gate", "enforce, observe, off"],
        ),
        ("--sync-period=soon", ["soon", "--sync-period", "10m"]),
        ("--openstack-qps=-1", ["-1", "--openstack-qps", "above 0"]),
        ("--health-addr=here", ["here", "--health-addr", ":8443"]),
        (
            "--tls-min-version=VersionTLS10",
            ["VersionTLS10", "--tls-min-version", "VersionTLS13"],
        ),
        (
            "--webhook-port=123456",
            ["123456", "--webhook-port", "65535"],
        ),
    ] {
        let error = parse(&[argument]).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{argument}: {part} is not in {error}");
        }
    }
}

#[test]
fn contradictions_are_named() {
    let contradiction = parse(&["--leader-elect-renew-deadline=20s"])
        .unwrap()
        .check()
        .unwrap_err()
        .to_string();
    assert!(contradiction.contains("--leader-elect-lease-duration"));
    assert!(parse(&["--member-warn-after=1h"]).unwrap().check().is_err());
}

#[test]
fn the_last_of_repeated_flags_counts_as_in_go() {
    let settings = parse(&["--webhook-port=1", "--webhook-port=2"]).unwrap();
    assert_eq!(settings.webhook_port, 2);
}

#[test]
fn requests_to_kubernetes_are_limited_only_where_a_flag_is_set() {
    for (arguments, expected) in [
        (&[][..], None),
        (&["--kube-api-qps=5"], Some((5.0, 30))),
        (&["--kube-api-burst=7"], Some((20.0, 7))),
        (
            &["--kube-api-qps=0.5", "--kube-api-burst=1"],
            Some((0.5, 1)),
        ),
        (&["--kube-api-qps=-1"], None),
    ] {
        assert_eq!(
            parse(arguments).unwrap().kube_limits(),
            expected,
            "{arguments:?}"
        );
    }
    for (bad, flag) in [
        ("--kube-api-qps=0", "--kube-api-qps"),
        ("--kube-api-qps=fast", "--kube-api-qps"),
        ("--kube-api-burst=0", "--kube-api-burst"),
    ] {
        let refused = parse(&[bad]).unwrap_err();
        assert!(refused.contains(flag), "{refused}");
    }
}

#[test]
fn a_drain_grace_that_freezes_a_control_plane_is_refused() {
    let settings = parse(&["--member-drain-grace=90s"]).unwrap();
    assert_eq!(settings.member_drain_grace, Duration::from_secs(90));
    settings.check().unwrap();
    let refused = parse(&["--member-drain-grace=2h"]).unwrap().check();
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("--member-drain-grace")
    );
}

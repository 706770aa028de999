use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-11-21T12:00:00Z";

fn condition(kind: &str, status: &str, reason: &str, since: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": format!("{reason} it is"),
        "lastTransitionTime": format!("2026-11-21T{since}Z")})
}

fn cluster(name: &str, conditions: &[Value]) -> OpenStackCluster {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "n", "generation": 1}, "spec": {"identityRef": {"name": "c", "cloudName": "c"}},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }))
    .unwrap()
}

fn machine(name: &str, provisioned: bool, conditions: &[Value]) -> OpenStackMachine {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "n", "generation": 1},
        "spec": {"image": {"id": "i"}, "flavor": {"id": "f"}},
        "status": {"observedGeneration": 1, "initialization": {"provisioned": provisioned}, "conditions": conditions},
    }))
    .unwrap()
}

fn shown(clusters: &[OpenStackCluster], machines: &[OpenStackMachine]) -> Vec<String> {
    roll_up(clusters.iter(), machines.iter(), NOW.parse().unwrap())
        .into_iter()
        .map(|one| format!("{}={} {}", one.kind, one.status.as_str(), one.reason))
        .collect()
}

fn ready() -> Value {
    condition("Ready", "True", "Ready", "10:00:00")
}

#[test]
fn nothing_is_reported_without_objects_or_with_ready_ones() {
    let well = [
        "Available=True AsExpected",
        "Progressing=False AsExpected",
        "Degraded=False AsExpected",
        "Upgradeable=True AsExpected",
    ];
    assert_eq!(shown(&[], &[]), well);
    let machines = [machine("m", true, &[ready()])];
    assert_eq!(shown(&[cluster("c", &[ready()])], &machines), well);
}

#[test]
fn a_machine_that_a_gate_holds_is_progressing_and_blocks_upgrades() {
    let waits = [
        condition("Ready", "False", "NotReady", "11:59:50"),
        condition(
            "APIServerLoadBalancerReady",
            "False",
            "MemberPending",
            "11:50:00",
        ),
    ];
    let machines = [machine("m", false, &waits)];
    assert_eq!(
        shown(&[cluster("c", &[ready()])], &machines),
        [
            "Available=True AsExpected",
            "Progressing=True Reconciling",
            "Degraded=False AsExpected",
            "Upgradeable=False GateHeld",
        ]
    );
}

#[test]
fn trouble_counts_when_it_lasts() {
    let bad = |since: &str| {
        [
            condition("Ready", "False", "NotReady", since),
            condition(
                "OpenStackAuthenticationSucceeded",
                "False",
                "AuthFailed",
                since,
            ),
        ]
    };
    let short = shown(&[cluster("c", &bad("11:59:00"))], &[]);
    assert!(
        short.contains(&"Degraded=False AsExpected".to_owned()),
        "{short:?}"
    );
    let long = shown(&[cluster("c", &bad("11:57:00"))], &[]);
    assert_eq!(long[0], "Available=False NoCloudAnswers");
    assert_eq!(long[2], "Degraded=True AuthFailed");
    // One of two clusters reaches its cloud.
    let half = shown(
        &[cluster("c", &bad("11:57:00")), cluster("d", &[ready()])],
        &[],
    );
    assert_eq!(half[0], "Available=True AsExpected");
    assert_eq!(half[2], "Degraded=True AuthFailed");
}

#[test]
fn paused_objects_are_left_out_and_long_lists_are_cut() {
    let bad = condition(
        "APIServerLoadBalancerReady",
        "False",
        "MemberError",
        "11:00:00",
    );
    let paused = condition("Paused", "True", "Paused", "11:00:00");
    let quiet = shown(&[cluster("c", &[bad.clone(), paused])], &[]);
    assert_eq!(quiet[2], "Degraded=False AsExpected");
    let many: Vec<OpenStackCluster> = (0..9)
        .map(|number| cluster(&format!("c{number}"), std::slice::from_ref(&bad)))
        .collect();
    let [_, _, degraded, _] = roll_up(many.iter(), [].iter(), NOW.parse().unwrap());
    assert!(
        degraded.message.ends_with("; and 4 more"),
        "{}",
        degraded.message
    );
    assert!(
        degraded
            .message
            .starts_with("OpenStackCluster n/c0: MemberError: MemberError it is")
    );
}

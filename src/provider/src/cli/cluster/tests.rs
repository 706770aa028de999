use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};

use super::{Screen, layout::age, snapshot::Snapshot, table, view::View, watch::changes};
use capo_core::GateState;

const NOW: &str = "2026-11-21T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-21T11:59:18Z"})
}

fn gate(status: &str, reason: &str, message: &str) -> Value {
    condition("APIServerLoadBalancerReady", status, reason, message)
}

fn member(machine: &str, port: u16, provisioning: &str, operating: &str) -> Value {
    json!({"machine": machine, "port": port, "id": format!("id-of-{machine}-{port}"), "address": "10.6.0.7",
        "provisioningStatus": provisioning, "operatingStatus": operating,
        "since": "2026-11-21T11:57:00Z", "lastObserved": NOW, "message": "Octavia is working on it"})
}

/// A control-plane machine: whether it is provisioned, its deletion, its condition.
fn pair(name: &str, provisioned: bool, deleting: bool, condition: &Value) -> (Value, Value) {
    let gone = deleting.then_some("2026-11-21T11:50:00Z");
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
    let machine = json!({"metadata": {"name": name, "namespace": "n", "deletionTimestamp": gone,
        "labels": {"cluster.x-k8s.io/control-plane": ""}, "annotations": {hook: "capo-rs"}}});
    let ours = json!({
        "metadata": {"name": name, "namespace": "n",
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": "u"}]},
        "spec": {"image": {"id": "i"}, "flavor": {"id": "f"}},
        "status": {"instanceState": "ACTIVE", "initialization": {"provisioned": provisioned}, "conditions": [condition]},
    });
    (machine, ours)
}

fn seen(cluster: &[Value], members: &[Value], pairs: Vec<(Value, Value)>) -> Snapshot {
    let (machines, ours): (Vec<Value>, Vec<Value>) = pairs.into_iter().unzip();
    Snapshot {
        cluster: serde_json::from_value(json!({"metadata": {"name": "prod", "namespace": "n"}}))
            .unwrap(),
        openstack_cluster: Some(
            serde_json::from_value(json!({
                "metadata": {"name": "prod", "namespace": "n"},
                "spec": {"identityRef": {"name": "c", "cloudName": "c"},
                    "controlPlaneEndpoint": {"host": "203.0.113.9", "port": 6443}},
                "status": {"conditions": cluster, "apiServerManagedLoadBalancer": {
                    "name": "lb", "id": "1", "activeMembers": "1/2", "members": members}},
            }))
            .unwrap(),
        ),
        machines: machines
            .into_iter()
            .map(|m| serde_json::from_value(m).unwrap())
            .collect(),
        openstack_machines: ours
            .into_iter()
            .map(|m| serde_json::from_value(m).unwrap())
            .collect(),
        events: Vec::new(),
        direct: None,
    }
}

fn event(object: &str, reason: &str, second: u8) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{object}{second}"), "namespace": "n"},
        "eventTime": format!("2026-11-21T11:59:{second:02}.000000Z"), "type": "Warning", "reason": reason,
        "note": format!("{reason} of {object}"), "regarding": {"kind": "OpenStackMachine", "name": object},
    }))
    .unwrap()
}

/// A machine that waits for its member beside one that serves.
fn held() -> Snapshot {
    let good = gate("True", "MembersActive", "");
    let bad = gate(
        "False",
        "MemberPending",
        "Its member on port 6443 is PENDING_CREATE",
    );
    Snapshot {
        events: vec![
            event("prod-cp-1", "GateHeld", 20),
            event("prod-cp-1", "Created", 10),
            event("another", "GateHeld", 30),
        ],
        ..seen(
            &[gate(
                "False",
                "MemberPending",
                "prod-cp-1: Its member on port 6443 is PENDING_CREATE",
            )],
            &[
                member("prod-cp-0", 6443, "ACTIVE", "ONLINE"),
                member("prod-cp-1", 6443, "PENDING_CREATE", "OFFLINE"),
            ],
            vec![
                pair("prod-cp-1", false, false, &bad),
                pair("prod-cp-0", true, false, &good),
            ],
        )
    }
}

fn lines(seen: &Snapshot, wide: bool, width: usize) -> Vec<String> {
    let screen = Screen {
        width: Some(width),
        height: None,
        colour: false,
    };
    table::lines(
        &table::sections(&View::of(seen), wide, screen, now()),
        screen,
    )
}

#[test]
fn a_held_machine_on_eighty_columns() {
    let expected = "\
CLUSTER  ENDPOINT          MEMBERS  GATE  SINCE  REASON
prod     203.0.113.9:6443  1/2      Held  42s    MemberPending

MACHINE    SERVER  GATE            SINCE  PORT 6443
prod-cp-0  ACTIVE  -               -      ACTIVE ONLINE
prod-cp-1  ACTIVE  admission Held  42s    PENDING_CREATE OFFLINE

prod-cp-1, admission: MemberPending
  Its member on port 6443 is PENDING_CREATE
Read more: capo-rs explain MemberPending

CONDITION                   STATUS  SINCE  REASON
APIServerLoadBalancerReady  False   42s    MemberPending

LAST SEEN  OBJECT     EVENT     NOTE
50s        prod-cp-1  Created   Created of prod-cp-1
40s        prod-cp-1  GateHeld  GateHeld of prod-cp-1";
    assert_eq!(lines(&held(), false, 80).join("\n"), expected);
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let long = "Cluster API waits for ".repeat(30);
    let mut seen = held();
    if let Some(cluster) = &mut seen.openstack_cluster
        && let Some(status) = &mut cluster.status
        && let Some(balancer) = &mut status.api_server_managed_load_balancer
    {
        // With three ports the matrix does not fit any more.
        for port in [8132, 9345] {
            for machine in ["prod-cp-0", "prod-cp-1"] {
                let text = member(machine, port, "PENDING_UPDATE", "NO_MONITOR");
                balancer.members.push(serde_json::from_value(text).unwrap());
            }
        }
    }
    let conditions = seen.openstack_machines[0].status.as_mut().unwrap();
    conditions.conditions[0].message = long;
    for width in [80, 140] {
        for (number, line) in lines(&seen, false, width).iter().enumerate() {
            assert!(
                line.chars().count() <= width,
                "{width}, line {number}: {line}"
            );
        }
    }
    assert!(
        lines(&seen, false, 80)
            .iter()
            .any(|line| line.starts_with("MACHINE    GATE"))
    );
    assert!(
        lines(&seen, false, 140)
            .iter()
            .any(|line| line.contains("PORT 8132"))
    );
}

#[test]
fn wide_shows_all_that_is_known_of_a_member() {
    let text = lines(&held(), true, 200).join("\n");
    for part in [
        "10.6.0.7",
        "id-of-prod-cp-1-6443",
        "Octavia is working on it",
        "3m",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn each_machine_is_shown_at_its_gate_with_the_state_of_that_gate() {
    let cases = [
        // provisioned, deleting, status, reason, gate and state
        (
            false,
            false,
            "False",
            "MemberPending",
            Some(("admission", GateState::Held)),
        ),
        (
            false,
            false,
            "True",
            "MembersActive",
            Some(("admission", GateState::Open)),
        ),
        (
            false,
            false,
            "Unknown",
            "ObservationStale",
            Some(("admission", GateState::Unknown)),
        ),
        (true, false, "False", "MemberError", None),
        (
            true,
            true,
            "False",
            "NoOtherMemberServing",
            Some(("release", GateState::Held)),
        ),
        (
            true,
            true,
            "True",
            "OperatorBypass",
            Some(("release", GateState::Bypassed)),
        ),
    ];
    for (provisioned, deleting, status, reason, expected) in cases {
        let pair = pair("m", provisioned, deleting, &gate(status, reason, "x"));
        let view = View::of(&seen(&[gate("True", "MembersActive", "")], &[], vec![pair]));
        let found = view.machines[0]
            .gate
            .as_ref()
            .map(|gate| (gate.name.unwrap(), gate.state));
        assert_eq!(
            found, expected,
            "{provisioned} {deleting} {status} {reason}"
        );
        let cluster = expected.map_or(GateState::Open, |(_, state)| state);
        assert_eq!(view.gate.state, cluster, "{reason}");
    }
}

#[test]
fn the_gate_of_a_cluster_without_a_condition_is_unknown() {
    let view = View::of(&seen(&[], &[], vec![]));
    assert_eq!(view.gate.state, GateState::Unknown);
    assert_eq!(view.gate.reason, "NotYetObserved");
}

#[test]
fn a_line_for_every_change_and_none_without() {
    let before = View::of(&held());
    assert_eq!(changes(Some(&before), &before), Vec::<String>::new());
    let good = gate("True", "MembersActive", "");
    let mut after = seen(
        std::slice::from_ref(&good),
        &[member("prod-cp-1", 6443, "ACTIVE", "ONLINE")],
        vec![pair("prod-cp-1", true, false, &good)],
    );
    after.events = held().events;
    after.events.push(event("prod-cp-1", "GateOpened", 58));
    assert_eq!(
        changes(Some(&before), &View::of(&after)),
        [
            "gate Open MembersActive: ",
            "prod-cp-1 waits for no gate any more",
            "prod-cp-1:6443 ACTIVE ONLINE (was PENDING_CREATE OFFLINE)",
            "prod-cp-0 is gone",
            "event GateOpened OpenStackMachine/prod-cp-1: GateOpened of prod-cp-1",
        ]
    );
}

#[test]
fn text_from_outside_does_not_control_the_terminal() {
    let evil = gate("False", "MemberPending", "x");
    let mut seen = seen(
        std::slice::from_ref(&evil),
        &[],
        vec![pair("m", false, false, &evil)],
    );
    let status = seen.openstack_machines[0].status.as_mut().unwrap();
    status.instance_state = Some("\x1b[31mBUILD\r\n".to_owned());
    status.conditions[0].message = "\x1b]0;title\x07 and text".to_owned();
    for line in lines(&seen, true, 200) {
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
    }
}

#[test]
fn ages_are_short() {
    for (second, text) in [
        (0, "0s"),
        (119, "119s"),
        (125, "2m5s"),
        (300, "5m"),
        (3_000, "50m"),
        (20_000, "5h"),
        (200_000, "2d"),
    ] {
        let since = Timestamp::from_second(now().as_second() - second).unwrap();
        assert_eq!(age(now(), since), text);
    }
}

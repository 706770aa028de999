use std::time::Duration;

use capo_api::v1beta2::TypedLocalObjectReference;
use serde_json::json;

use super::*;

fn server(status: &str) -> Server {
    serde_json::from_value(json!({"id": "42", "name": "m1", "status": status,
        "fault": {"code": 500, "message": "No valid host was found."},
        "addresses": {
            "b": [{"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"}],
            "a": [{"addr": "fd00::5", "version": 6, "OS-EXT-IPS:type": "fixed"},
                {"addr": "10.1.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"},
                {"addr": "203.0.113.7", "version": 4, "OS-EXT-IPS:type": "floating"}]}}))
    .unwrap()
}

fn object(status: &Value) -> OpenStackServer {
    serde_json::from_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
        "metadata": {"name": "m1", "namespace": "default", "generation": 3},
        "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "flavorID": "f",
            "ports": [], "sshKeyName": ""},
        "status": status}))
    .unwrap()
}

fn condition(status: &Value, kind: &str) -> (String, String) {
    let found = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {status}"));
    (
        found["status"].as_str().unwrap().to_owned(),
        found["reason"].as_str().unwrap().to_owned(),
    )
}

fn reported(object: &OpenStackServer, outcome: &Outcome, server: Option<&Server>) -> Value {
    let progress = Progress {
        instance_id: server.map(|server| server.id.clone()),
        ..Progress::default()
    };
    let report = Report {
        paused: false,
        authentication: Some(ConditionState::met(Reason::Ready)),
        outcome,
        progress: &progress,
        server,
        lost: false,
        floating: &FloatingAddress::default(),
        ports: None,
    };
    status(object, &report, Timestamp::UNIX_EPOCH)
}

#[test]
fn every_condition_is_there_from_the_first_visit() {
    let wait = Outcome::wait(Reason::DependencyFailed, "soon", Duration::from_secs(1));
    let status = reported(&object(&json!(null)), &wait, None);
    assert_eq!(condition(&status, "InstanceReady").1, "DependencyFailed");
    assert_eq!(
        condition(&status, "Ready"),
        ("False".to_owned(), "NotReady".to_owned())
    );
    assert_eq!(
        condition(&status, "Paused"),
        ("False".to_owned(), "NotPaused".to_owned())
    );
    assert_eq!(status["ready"], json!(false));
}

#[test]
fn a_generation_counts_as_observed_once_nothing_is_waited_for() {
    let before = json!({"observedGeneration": 2, "ready": true});
    let wait = Outcome::wait(Reason::DependencyFailed, "soon", Duration::from_secs(1));
    let failed = Outcome::failed(
        FailureClass::Transient,
        Reason::OpenStackUnavailable,
        "down",
    );
    for (outcome, expected) in [(wait, 2), (failed, 2), (Outcome::Done, 3)] {
        let status = reported(&object(&before), &outcome, None);
        assert_eq!(status["observedGeneration"], expected, "{outcome:?}");
    }
}

#[test]
fn states_of_nova() {
    for (state, expected, ready) in [
        ("ACTIVE", ("True", "Ready"), true),
        ("BUILD", ("False", "InstanceNotReady"), false),
        ("ERROR", ("False", "InstanceStateError"), false),
        ("SHUTOFF", ("False", "InstanceNotReady"), false),
        ("REBOOT", ("Unknown", "InstanceNotReady"), false),
        ("SOFT_DELETED", ("False", "InstanceDeleted"), false),
        ("VERIFY_RESIZE", ("Unknown", "InstanceNotReady"), false),
    ] {
        let server = server(state);
        let status = reported(&object(&json!(null)), &outcome(&server), Some(&server));
        let found = condition(&status, "InstanceReady");
        assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{state}");
        assert_eq!(status["ready"], json!(ready), "{state}");
        assert_eq!(status["instanceState"], json!(state));
    }
}

#[test]
fn openstack_falling_silent_does_not_unmake_a_server() {
    let server = server("ACTIVE");
    let before = reported(&object(&json!(null)), &Outcome::Done, Some(&server));
    let silent = Outcome::failed(
        FailureClass::Transient,
        Reason::OpenStackUnavailable,
        "server_get: timed out",
    );
    let mut object = object(&before);
    let after = reported(&object, &silent, None);
    assert_eq!(condition(&after, "InstanceReady").0, "True");
    assert_eq!(after["ready"], json!(true));
    object.status = None;
    let after = reported(&object, &silent, None);
    assert_eq!(condition(&after, "InstanceReady").1, "OpenStackUnavailable");
}

#[test]
fn addresses_by_network_and_family_and_the_name_last() {
    let list = serde_json::to_value(node_addresses(&server("ACTIVE"))).unwrap();
    assert_eq!(
        list,
        json!([
            {"type": "InternalIP", "address": "10.1.0.5"},
            {"type": "ExternalIP", "address": "203.0.113.7"},
            {"type": "InternalIP", "address": "fd00::5"},
            {"type": "InternalIP", "address": "10.0.0.5"},
            {"type": "InternalDNS", "address": "m1"},
        ])
    );
}

#[test]
fn a_server_is_ready_once_it_has_its_floating_ip_and_stays_so_without_it() {
    let mut object = object(&json!(null));
    object.spec.floating_ip_pool_ref = Some(TypedLocalObjectReference::default());
    let server = server("ACTIVE");
    let progress = Progress::default();
    let refused = Outcome::failed(FailureClass::Invalid, Reason::FloatingIPError, "no router");
    let mut before = Value::Null;
    for (ip, outcome, ready) in [
        (None, &refused, false),
        (Some([203, 0, 113, 8].into()), &Outcome::Done, true),
        (None, &refused, true),
    ] {
        object.status = serde_json::from_value(before).unwrap();
        let mut floating = FloatingAddress {
            state: Some(ConditionState::met(Reason::Ready)),
            on_server: ip,
        };
        if ip.is_none() {
            floating.record_incomplete(outcome);
        }
        let report = Report {
            paused: false,
            authentication: Some(ConditionState::met(Reason::Ready)),
            outcome,
            progress: &progress,
            server: Some(&server),
            lost: false,
            floating: &floating,
            ports: None,
        };
        let after = status(&object, &report, Timestamp::UNIX_EPOCH);
        assert_eq!(after["ready"], json!(ready));
        assert_eq!(condition(&after, "InstanceReady").0, "True");
        let expected = if ip.is_some() {
            "Ready"
        } else {
            "FloatingIPError"
        };
        assert_eq!(
            condition(&after, "FloatingAddressFromPoolReady").1,
            expected
        );
        let external = json!({"type": "ExternalIP", "address": "203.0.113.8"});
        let listed = after["addresses"].as_array().unwrap().contains(&external);
        assert_eq!(listed, ip.is_some());
        before = after;
    }
}

#[test]
fn a_paused_object_changes_in_nothing_else() {
    let before = reported(
        &object(&json!(null)),
        &Outcome::Done,
        Some(&server("ACTIVE")),
    );
    let object = object(&before);
    let progress = Progress::default();
    let report = Report {
        paused: true,
        authentication: None,
        outcome: &Outcome::Done,
        progress: &progress,
        server: None,
        lost: false,
        floating: &FloatingAddress::default(),
        ports: None,
    };
    let after = status(&object, &report, Timestamp::UNIX_EPOCH);
    assert_eq!(
        condition(&after, "Paused"),
        ("True".to_owned(), "Paused".to_owned())
    );
    assert_eq!(after["instanceState"], before["instanceState"]);
    assert_eq!(
        condition(&after, "InstanceReady"),
        condition(&before, "InstanceReady")
    );
}

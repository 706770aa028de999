//! Conditions and `ready`.

use super::*;

#[test]
fn a_type_of_condition_occurs_once() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let old = object(
        "OpenStackMachine",
        V1BETA1,
        json!({"status": {"conditions": [
            condition("A", "True"), condition("APIServerIngressReadyCondition", "True"),
            condition("A", "False"), condition("APIServerIngressReady", "False"),
        ]}}),
    );
    let new = convert(old, V1BETA2).unwrap();
    let types: Vec<_> = new["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| {
            (
                condition["type"].as_str().unwrap(),
                condition["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        types,
        [
            ("A", "True"),
            ("APIServerIngressReadyCondition", "True"),
            ("APIServerIngressReady", "False")
        ]
    );
}

#[test]
fn v1beta1_ready_follows_the_condition_or_the_contract_before_it_exists() {
    let ready = |status: Value| {
        let new = object("OpenStackMachine", V1BETA2, json!({"status": status}));
        convert(new, V1BETA1).unwrap()["status"]["ready"].clone()
    };
    assert_eq!(ready(json!({})), json!(false));
    assert_eq!(
        ready(json!({"initialization": {"provisioned": true}})),
        json!(true)
    );
    let condition = |status: &str| json!([{"type": "Ready", "status": status}]);
    assert_eq!(ready(json!({"conditions": condition("True")})), json!(true));
    assert_eq!(
        ready(json!({"initialization": {"provisioned": true}, "conditions": condition("False")})),
        json!(false)
    );
}

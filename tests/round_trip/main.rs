//! There and back is the same, for whole objects with any of the fields that the schemas know.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod schema;

use capo_api::{v1beta1, v1beta2};
use capo_rs::webhooks::conversion::convert;
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseResult},
};
use serde_json::{Value, json};

use schema::Choices;

const V1BETA1: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const KINDS: [&str; 4] = [
    "OpenStackCluster",
    "OpenStackClusterTemplate",
    "OpenStackMachine",
    "OpenStackMachineTemplate",
];

/// 10 000 cases; `PROPTEST_CASES` sets another number.
fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    Config {
        cases: cases.unwrap_or(10_000),
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn v1beta1_there_and_back(kind in 0..KINDS.len(), bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        from_v1beta1(KINDS[kind], &bytes)?;
    }

    #[test]
    fn v1beta2_there_and_back(kind in 0..KINDS.len(), bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        from_v1beta2(KINDS[kind], &bytes)?;
    }
}

fn from_v1beta1(kind: &str, bytes: &[u8]) -> TestCaseResult {
    let old = schema::object(kind, "v1beta1", &mut Choices(bytes));
    let new = convert(old.clone(), V1BETA2).unwrap();
    let faults = schema::faults(schema::of(kind, "v1beta2"), &new);
    let strays = strays(&faults);
    prop_assert!(strays.is_empty(), "{strays:?} in {new:#} from {old:#}");
    let back = convert(new.clone(), V1BETA1).unwrap();
    prop_assert_eq!(&back, &as_v1beta2_lets_it_be(old));
    prop_assert_eq!(&convert(back, V1BETA2).unwrap(), &new);
    readable(kind, &new, true)
}

fn from_v1beta2(kind: &str, bytes: &[u8]) -> TestCaseResult {
    let mut new = schema::object(kind, "v1beta2", &mut Choices(bytes));
    within_v1beta1(&mut new);
    let old = convert(new.clone(), V1BETA1).unwrap();
    let mut faults = schema::faults(schema::of(kind, "v1beta1"), &old);
    // An empty flavor, which v1beta2 lets pass and no cloud has.
    faults.retain(|fault| !(fault.contains(".flavor") && fault.ends_with(": 0 characters")));
    prop_assert!(faults.is_empty(), "{faults:?} in {old:#} from {new:#}");
    let back = convert(old.clone(), V1BETA2).unwrap();
    prop_assert_eq!(&back, &as_v1beta1_lets_it_be(new));
    prop_assert_eq!(&convert(back, V1BETA1).unwrap(), &old);
    readable(kind, &old, false)
}

/// The controllers' types read it.
fn readable(kind: &str, object: &Value, v1beta2: bool) -> TestCaseResult {
    fn read<T: serde::de::DeserializeOwned>(object: &Value) -> Result<(), serde_json::Error> {
        serde_json::from_value::<T>(object.clone()).map(|_| ())
    }
    let read = match (kind, v1beta2) {
        ("OpenStackCluster", true) => read::<v1beta2::OpenStackCluster>(object),
        ("OpenStackClusterTemplate", true) => read::<v1beta2::OpenStackClusterTemplate>(object),
        ("OpenStackMachine", true) => read::<v1beta2::OpenStackMachine>(object),
        ("OpenStackMachineTemplate", true) => read::<v1beta2::OpenStackMachineTemplate>(object),
        ("OpenStackCluster", false) => read::<v1beta1::OpenStackCluster>(object),
        ("OpenStackClusterTemplate", false) => read::<v1beta1::OpenStackClusterTemplate>(object),
        ("OpenStackMachine", false) => read::<v1beta1::OpenStackMachine>(object),
        (_, _) => read::<v1beta1::OpenStackMachineTemplate>(object),
    };
    prop_assert!(read.is_ok(), "{read:?} of {object:#}");
    Ok(())
}

/// Fields that the API server would prune, and other types. v1beta1's looser bounds are no fault: the
/// API server does not hold what it converts against them.
fn strays(faults: &[String]) -> Vec<&String> {
    faults
        .iter()
        .filter(|fault| fault.contains("not in the schema") || fault.contains("instead of"))
        .collect()
}

/// What v1beta2 can't hold of v1beta1, as `docs/conversion.md` has it.
fn as_v1beta2_lets_it_be(mut old: Value) -> Value {
    let has_ready = matches!(
        old["kind"].as_str(),
        Some("OpenStackCluster" | "OpenStackMachine")
    );
    let Some(status) = old.get_mut("status").and_then(Value::as_object_mut) else {
        return old;
    };
    for gone in ["ready", "failureReason", "failureMessage"] {
        if has_ready {
            status.remove(gone);
        }
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        let mut types = std::collections::HashSet::new();
        conditions.retain(|condition| types.insert(condition["type"].to_string()));
        ingress(
            conditions,
            "APIServerIngressReady",
            "APIServerIngressReadyCondition",
        );
        for condition in conditions {
            let of = condition.as_object_mut().unwrap();
            of.remove("severity");
            if of["status"] == "False" {
                let info = of
                    .get("reason")
                    .is_some_and(|reason| reason == "WaitingForBootstrapData");
                of.insert(
                    "severity".to_owned(),
                    json!(if info { "Info" } else { "Error" }),
                );
            }
        }
    }
    if has_ready {
        let ready = match status.get("conditions").and_then(Value::as_array) {
            Some(conditions)
                if conditions
                    .iter()
                    .any(|condition| condition["type"] == "Ready") =>
            {
                conditions
                    .iter()
                    .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
            }
            _ => status
                .get("initialization")
                .is_some_and(|of| of["provisioned"] == json!(true)),
        };
        status.insert("ready".to_owned(), json!(ready));
    }
    old
}

/// What v1beta1 can't hold of v1beta2.
fn as_v1beta1_lets_it_be(mut new: Value) -> Value {
    let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) else {
        return new;
    };
    if let Some(Value::Array(domains)) = status.get_mut("failureDomains") {
        domains.sort_by_key(|domain| domain["name"].as_str().map(str::to_owned));
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        ingress(
            conditions,
            "APIServerIngressReadyCondition",
            "APIServerIngressReady",
        );
    }
    new
}

/// One type of condition has another name in each version, unless both are there.
fn ingress(conditions: &mut [Value], from: &str, to: &str) {
    if !conditions.iter().any(|condition| condition["type"] == to)
        && let Some(condition) = conditions
            .iter_mut()
            .find(|condition| condition["type"] == from)
    {
        condition["type"] = json!(to);
    }
}

/// Conditions in v1beta1 are shorter.
fn within_v1beta1(new: &mut Value) {
    for condition in new
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for (field, most) in [("type", 256), ("reason", 256), ("message", 10240)] {
            let text: String = condition[field]
                .as_str()
                .unwrap()
                .chars()
                .take(most)
                .collect();
            condition[field] = json!(text);
        }
    }
}

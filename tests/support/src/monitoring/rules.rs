//! The rules of `dashboards/rules.yaml`, parsed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::repository;

/// Every rule of `dashboards/rules.yaml`.
pub fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(repository("dashboards/rules.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = file["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// The expressions of all rules.
pub fn expressions() -> Vec<String> {
    rules()
        .iter()
        .map(|rule| rule["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The series that rules record.
pub fn recorded() -> BTreeSet<String> {
    named("record")
}

/// The names of all alerts.
pub fn alerts() -> BTreeSet<String> {
    named("alert")
}

fn named(field: &str) -> BTreeSet<String> {
    rules()
        .iter()
        .filter_map(|rule| rule[field].as_str().map(str::to_owned))
        .collect()
}

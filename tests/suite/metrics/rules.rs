//! The rules: taken by Prometheus, each alert with its cases and its page.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::env::prometheus::promtool;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards");

/// Every rule of `dashboards/rules.yaml`.
pub(super) fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{FOLDER}/rules.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = file["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// The expressions of all rules.
pub(super) fn expressions() -> Vec<String> {
    rules()
        .iter()
        .map(|rule| rule["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The series that rules record.
pub(super) fn recorded() -> BTreeSet<String> {
    named("record")
}

/// The names of all alerts.
pub(super) fn alerts() -> BTreeSet<String> {
    named("alert")
}

fn named(field: &str) -> BTreeSet<String> {
    rules()
        .iter()
        .filter_map(|rule| rule[field].as_str().map(str::to_owned))
        .collect()
}

fn run(folder: &str, arguments: &[&str]) {
    let output = promtool(Path::new(folder), arguments, "").unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&told)
    );
}

#[test]
fn promtool_takes_the_rules() {
    run(
        FOLDER,
        &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
    );
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let folder = format!("{FOLDER}/rules-tests");
    let files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let tested: BTreeSet<String> = files
        .iter()
        .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(tested, alerts());
    for (alert, file) in tested.iter().zip({
        let mut files = files.clone();
        files.sort();
        files
    }) {
        let cases: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let cases = cases["tests"].as_array().unwrap();
        assert!(cases.len() >= 3, "{alert} has only {} cases", cases.len());
        let asked = |case: &Value| -> Vec<bool> {
            let checks = case["alert_rule_test"].as_array().unwrap();
            assert!(
                checks
                    .iter()
                    .all(|check| check["alertname"] == alert.as_str()),
                "{alert}"
            );
            checks
                .iter()
                .map(|check| {
                    check["exp_alerts"]
                        .as_array()
                        .is_some_and(|a| !a.is_empty())
                })
                .collect()
        };
        assert!(
            cases.iter().any(|case| asked(case).contains(&true)),
            "{alert} never fires"
        );
        assert!(
            cases.iter().any(|case| !asked(case).contains(&true)),
            "{alert} is never quiet"
        );
    }
    let names: Vec<String> = tested.iter().map(|alert| format!("{alert}.yaml")).collect();
    let arguments: Vec<&str> = ["test", "rules"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    run(&folder, &arguments);
}

#[test]
fn every_alert_has_a_page_that_can_be_followed() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbooks");
    for rule in rules().iter().filter(|rule| rule["alert"].is_string()) {
        let alert = rule["alert"].as_str().unwrap();
        let annotations = &rule["annotations"];
        let page = format!("https://github.com/capo-rs/capo-rs/blob/main/docs/runbooks/{alert}.md");
        assert_eq!(annotations["runbook_url"], page);
        for field in ["summary", "description"] {
            assert!(
                annotations[field]
                    .as_str()
                    .is_some_and(|text| text.ends_with('.')),
                "{alert}: {field}"
            );
        }
        assert!(
            ["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()),
            "{alert}"
        );
        let text = std::fs::read_to_string(format!("{pages}/{alert}.md"))
            .unwrap_or_else(|e| panic!("{alert}: {e}"));
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(
            headings,
            [
                &format!("# {alert}"),
                "## Meaning",
                "## Impact",
                "## Diagnosis",
                "## Mitigation"
            ]
        );
        let commands = |heading: &str| {
            let part = text.split_once(heading).unwrap().1;
            part.split("\n## ")
                .next()
                .unwrap()
                .lines()
                .filter(|line| line.starts_with("    "))
                .count()
        };
        assert!(
            commands("## Diagnosis") > 0,
            "{alert}: no command in Diagnosis"
        );
    }
    let written: BTreeSet<String> = std::fs::read_dir(pages)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(written, alerts());
}

//! The rules, the scrape configuration and the exposition, as promtool reads them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use capo_rs::metrics::{Metrics, Settings};
use serde_json::Value;
use test_support::{
    monitoring::{findings, rules::alerts},
    repository,
};

use crate::env::prometheus::promtool;

fn run(folder: &Path, arguments: &[&str]) {
    let output = promtool(folder, arguments, "").unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&printed)
    );
}

#[test]
fn promtool_takes_the_rules() {
    run(
        &repository("dashboards"),
        &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
    );
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let folder = repository("dashboards/rules-tests");
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
fn the_plain_scrape_configuration_is_taken_by_promtool() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(repository("deploy/prometheus-scrape.yaml")).unwrap();
    // The token is looked for where the Pod has it.
    let token = folder.path().join("token");
    std::fs::write(&token, "t").unwrap();
    let text = text.replace(
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        &token.display().to_string(),
    );
    // Debian's Prometheus is built without the discovery of Pods.
    let (before, discovery) = text.split_once("  kubernetes_sd_configs:\n").unwrap();
    let (_, after) = discovery.split_once("  relabel_configs:\n").unwrap();
    let text = format!("{before}  relabel_configs:\n{after}");
    std::fs::create_dir(folder.path().join("capo-rs")).unwrap();
    std::fs::copy(
        repository("dashboards/rules.yaml"),
        folder.path().join("capo-rs/rules.yaml"),
    )
    .unwrap();
    std::fs::write(folder.path().join("prometheus.yml"), text).unwrap();
    run(folder.path(), &["check", "config", "prometheus.yml"]);
}

#[test]
fn label_values_from_outside_are_escaped_as_promtool_expects() {
    let mut clusters = findings::clusters(1, 3, &[6443, 9345]);
    let one = Arc::make_mut(&mut clusters[0].1);
    for name in ["quo\"te", "new\nline", "back\\slash", "} 1\ninjected 1"] {
        let mut stranger = findings::member(name, 6443, "ACTIVE");
        stranger.id = Some(name.into());
        one.members.push(stranger);
    }
    let metrics = Metrics::new(Settings::default()).unwrap();
    let text = metrics.render_findings(&clusters).unwrap();
    let output = promtool(Path::new("."), &["check", "metrics"], &text).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

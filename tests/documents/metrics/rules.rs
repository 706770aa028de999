//! Every alert has a runbook.

use std::collections::BTreeSet;

use test_support::{
    monitoring::rules::{alerts, rules},
    repository,
};

#[test]
fn every_alert_has_a_page_that_can_be_followed() {
    let pages = repository("docs/runbooks");
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
        let text = std::fs::read_to_string(pages.join(format!("{alert}.md")))
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

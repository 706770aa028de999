//! A parser of Prometheus's text format.

use std::collections::{BTreeMap, BTreeSet};

use capo_rs::metrics::catalogue::ALL;

/// A family as scraped.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub kind: String,
    pub help: String,
    /// Names of labels, without `le`.
    pub labels: BTreeSet<String>,
    /// Lines with a value.
    pub series: usize,
}

/// The families of a scrape, by name. Fails the test if a line has a form that the format does not know.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        {
            let family = families.entry(name.to_owned()).or_default();
            help.clone_into(&mut family.help);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let family = families.entry(name.to_owned()).or_default();
            kind.clone_into(&mut family.kind);
        } else {
            let name_end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
            let (name, rest) = line.split_at(name_end);
            let (labels, value) = labels(rest);
            assert!(value.trim().parse::<f64>().is_ok(), "{line}");
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|end| name.strip_suffix(end))
                .find(|family| families.get(*family).is_some_and(|f| f.kind == "histogram"))
                .unwrap_or(name);
            let family = families.entry(family.to_owned()).or_default();
            family.series += 1;
            family
                .labels
                .extend(labels.into_iter().filter(|label| label != "le"));
        }
    }
    families
}

/// The names of the labels, and the text after the closing brace.
fn labels(text: &str) -> (Vec<String>, &str) {
    let Some(mut rest) = text.strip_prefix('{') else {
        return (Vec::new(), text);
    };
    let mut names = Vec::new();
    loop {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        names.push(name.to_owned());
        let mut escaped = false;
        let end = value
            .char_indices()
            .find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            })
            .unwrap_or_else(|| panic!("{text}"))
            .0;
        let after = &value[end + 1..];
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => {
                return (
                    names,
                    after.strip_prefix('}').unwrap_or_else(|| panic!("{text}")),
                );
            }
        }
    }
}

/// Compares a scrape with the catalogue: names, kinds, help texts and labels. With `everything`, every metric must be
/// there.
pub fn matches_the_catalogue(scrape: &str, everything: bool) {
    let found = families(scrape);
    for (name, family) in &found {
        let metric = ALL.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the catalogue"));
        assert_eq!(metric.kind.as_str(), family.kind, "{name}");
        assert_eq!(metric.help, family.help, "{name}");
        let labels: BTreeSet<String> = metric
            .labels
            .iter()
            .map(|&label| label.to_owned())
            .collect();
        assert_eq!(labels, family.labels, "{name}");
    }
    let missing: BTreeMap<&str, &str> = ALL
        .iter()
        .filter(|metric| !found.contains_key(metric.name))
        .filter(|metric| everything || metric.once.is_empty())
        .map(|metric| (metric.name, metric.once))
        .collect();
    assert!(missing.is_empty(), "not in the scrape: {missing:?}");
}

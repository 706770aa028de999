//! docs/rollouts.md: written from the results of `make rollout`, with every scenario.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use serde_json::Value;
use test_support::{repository, rollout};

const PAGE: &str = "docs/rollouts.md";
const SCENARIOS: &str = "tests/rollout/scenarios";
/// The results that measure the cost of the gate, and belong to no scenario.
const COST: &str = "cost";
const HEAD: &str = "\
# Rollouts, measured

Written by `make rollout`; [how they are made](https://github.com/capo-rs/capo-rs/blob/main/tests/rollout/README.md). Real Cluster API managers replace control-plane machines
behind the fake cloud's load balancer while a client sends 20 requests a second through it. The Octavia calls are those that were made while the
client was sending. A dash means that no client was sending, because the Cluster is deleted or offline anyway. Scenarios whose names begin with
`off-` run with `--load-balancer-gate=off` and show what happens without the gate; two of them end when 100 requests have failed. In `balancer-lost`
another client deletes the load balancer, so that no machine can serve until it is created again. No request may take longer than 1 s unless the API
servers themselves answer as slowly at that moment; in `on-early` and `off-early` new API servers accept connections 3 s before they answer, and without
the gate requests wait for them. In the scenarios with `haproxy` in their names a real HAProxy carries the connections, in all others the fake cloud. The last column is the git id of the folder `src` that was measured; where \"or before\" follows it, the id was not kept
yet, and it is that of the commit which brought the figures. `.ci/figures` names the scenarios that were measured with other sources than those of today.

| scenario | what happens | machines replaced | longest hold | requests sent | failed | Octavia calls | seconds | sources |
|---|---|---:|---|---:|---:|---:|---:|---|
";

/// The text before a scenario's name in its code.
const NAMED: [&str; 7] = [
    "name: \"",
    "one_machine(\"",
    "through_haproxy(\"",
    "(one(\"",
    "= held(\"",
    "lets_go(\"",
    "without_retries(\"",
];

/// The description of each scenario by its name, taken from the test.
fn scenarios() -> BTreeMap<String, String> {
    let mut scenarios = BTreeMap::new();
    for file in fs::read_dir(repository(SCENARIOS)).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let mut what = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line
                .strip_prefix("async fn ")
                .and_then(|rest| rest.split('(').next())
            {
                what = name.replace('_', " ");
            }
            let named = NAMED
                .iter()
                .find_map(|before| line.split_once(before))
                .and_then(|(_, rest)| rest.split('"').next());
            if let Some(name) = named {
                scenarios.insert(name.to_owned(), what.clone());
            }
        }
    }
    scenarios
}

/// One line of the table, from the figures of a scenario that succeeded.
fn row(what: &str, result: &Value) -> String {
    let seconds = |key: &str| result[key].as_f64().unwrap_or_default();
    let hold = result["why"].as_str().map_or("-".to_owned(), |why| {
        format!("{:.0} s, {why}", seconds("longest_hold"))
    });
    let (sent, failed) = if result["sent"] == 0 {
        ("-".to_owned(), "-".to_owned())
    } else {
        (result["sent"].to_string(), result["failed"].to_string())
    };
    format!(
        "| {} | {what} | {} | {hold} | {sent} | {failed} | {} | {:.0} | {} |",
        result["scenario"].as_str().unwrap(),
        result["replaced"],
        result["octavia_calls"],
        seconds("seconds"),
        result["sources"].as_str().unwrap(),
    )
}

/// Whether this is what a result says about its sources.
fn is_id(text: &str) -> bool {
    let id = text.strip_suffix(" or before").unwrap_or(text);
    id.len() == 12 && id.chars().all(|c| c.is_ascii_hexdigit())
}

#[test]
fn the_page_lists_every_scenario_and_no_other() {
    let scenarios = scenarios();
    assert!(scenarios.len() > 10, "{scenarios:?}");
    if std::env::var_os("CAPO_RS_WRITE_ROLLOUTS").is_some() {
        let mut page = HEAD.to_owned();
        let results = rollout::folder("results");
        for result in fs::read_dir(&results).unwrap() {
            let result = result.unwrap().path();
            let name = result.file_stem().unwrap().to_string_lossy().into_owned();
            let known = name == COST || scenarios.contains_key(&name);
            assert!(known, "the result of a scenario that is not listed: {name}");
        }
        let mut slowest = (0.0, "");
        for (name, what) in &scenarios {
            let file = results.join(format!("{name}.json"));
            let text = fs::read_to_string(&file).unwrap_or_else(|error| {
                panic!("{name} did not end well: {}: {error}", file.display())
            });
            let result: Value = serde_json::from_str(&text).unwrap();
            let _ = writeln!(page, "{}", row(what, &result));
            let took = result["slowest"].as_f64().unwrap();
            if took > slowest.0 && !name.starts_with("off-") {
                slowest = (took, name);
            }
        }
        let cost = fs::read_to_string(results.join(format!("{COST}.json"))).unwrap();
        let cost: Value = serde_json::from_str(&cost).unwrap();
        let texts = ["text", "sources"].map(|key| cost[key].as_str().unwrap());
        let _ = writeln!(page, "\n{} Sources: {}.", texts[0], texts[1]);
        let (took, name) = slowest;
        let _ = writeln!(
            page,
            "\nThe slowest request with the gate took {took:.1} s, in `{name}`, on a machine that ran three scenarios at once."
        );
        fs::write(repository(PAGE), page).unwrap();
    }
    let page = fs::read_to_string(repository(PAGE)).unwrap();
    assert!(
        page.starts_with(HEAD),
        "{PAGE} is not what make rollout writes"
    );
    let listed: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .skip(1)
        .collect();
    let wanted: Vec<&str> = scenarios.keys().map(String::as_str).collect();
    assert_eq!(listed, wanted, "make rollout writes {PAGE}");
    for line in page.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let sources = line.trim_end_matches(" |").rsplit(" | ").next();
        assert!(sources.is_some_and(is_id), "{PAGE}: no sources: {line}");
    }
    let cost = page
        .split_once(" longer for each machine. Sources: ")
        .and_then(|(_, rest)| rest.split_once(".\n"))
        .map(|(sources, _)| sources);
    assert!(
        cost.is_some_and(is_id),
        "{PAGE} does not say what the gate costs, or of which sources"
    );
}

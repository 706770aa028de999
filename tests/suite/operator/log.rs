//! The log: a line for every change of a member and every decision of a gate, and none for a read.

use serde_json::{Value, json};

/// Goes through a log in JSON; `reads` is how often the load balancer was read meanwhile.
pub(super) fn contains_only_changes(log: &str, (cluster, machine): (&str, &str), reads: usize) {
    // The manager may be writing the last line.
    let (whole, _) = log.rsplit_once('\n').unwrap_or_default();
    let lines: Vec<Value> = whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .filter(|line: &Value| line["OpenStackMachine"] == machine)
        .collect();
    let members: Vec<&Value> = lines
        .iter()
        .filter(|line| line["message"] == "Member changed")
        .collect();
    let mut last = json!("absent");
    for line in &members {
        assert_eq!(line["level"], "INFO", "{line}");
        assert_eq!(line["OpenStackCluster"], cluster, "{line}");
        assert_eq!(line["port"], 6443, "{line}");
        assert_eq!(line["from"], last, "{line}");
        assert_ne!(line["to"], last, "{line}");
        last = line["to"].clone();
    }
    assert!(
        last.as_str().unwrap().starts_with("ACTIVE"),
        "it ends as {last}"
    );

    // A decision has these fields and no other line has both of them, so a new text of a decision is found here as
    // well.
    let decisions: Vec<&Value> = lines
        .iter()
        .filter(|line| !line["gate"].is_null() && !line["why"].is_null())
        .collect();
    let content = |line: &Value| {
        ["message", "gate", "reason", "why"].map(|key| line[key].as_str().unwrap().to_owned())
    };
    for pair in decisions.windows(2) {
        assert_ne!(content(pair[0]), content(pair[1]), "decided twice");
    }
    // A change of what an ordinary hold waits for is not logged as a decision.
    let begins = decisions.first().map(|line| &line["message"]);
    let ends = decisions
        .last()
        .map(|line| (&line["message"], &line["reason"]));
    assert_eq!(begins, Some(&json!("Holding")));
    assert_eq!(ends, Some((&json!("Opening"), &json!("MembersActive"))));
    assert!(
        members.len() < reads,
        "{} lines for {reads} reads",
        members.len()
    );
}

//! The result of the demo, computed from what was recorded.

use std::{collections::BTreeMap, fmt::Write as _};

use fake_cloud::Service;

use crate::{invariants::Rule, rollout::proof::RolloutResult};

/// The summary of a run and of its calls to OpenStack.
pub(crate) fn text(result: &RolloutResult, calls: &BTreeMap<(Service, String), u64>) -> String {
    let figures = &result.figures;
    let mut text = "Summary\n".to_owned();
    let _ = writeln!(
        text,
        "  {} machines replaced in {:.0} s; requests sent {}, failed {}; {} watches cut, {} lost an event",
        figures.replaced,
        figures.lasted.as_secs_f64(),
        figures.answered + figures.failed,
        figures.failed,
        figures.watch_cuts,
        figures.watches_failed,
    );
    for hold in &figures.holds {
        let longest = if figures.longest_hold() == Some(hold) {
            "  <- the longest"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "  {:<12} {:<9} held {:>5.1} s  {}{longest}",
            hold.machine,
            hold.gate,
            hold.lasted.as_secs_f64(),
            hold.reasons.join(" > "),
        );
        if !hold.members.is_empty() {
            let _ = writeln!(text, "  {:<35} (member: {})", "", hold.members.join(" > "));
        }
    }
    let mut services: BTreeMap<String, u64> = BTreeMap::new();
    for ((service, _), count) in calls {
        *services.entry(format!("{service:?}")).or_default() += count;
    }
    let shown: Vec<String> = services
        .iter()
        .map(|(service, count)| format!("{service} {count}"))
        .collect();
    let _ = writeln!(
        text,
        "  OpenStack calls: {} ({}); to Octavia for each machine replaced: {:.1}",
        services.values().sum::<u64>(),
        shown.join(", "),
        figures.calls_per_machine(),
    );
    let left = result
        .broken
        .iter()
        .filter(|violation| violation.rule == Rule::Leftovers);
    let _ = writeln!(text, "  Left behind after deletion: {}", left.count());
    for violation in &result.broken {
        let _ = writeln!(text, "  VIOLATION {violation}");
    }
    let _ = write!(text, "  violations: {}", result.broken.len());
    text
}

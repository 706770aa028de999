//! The figures of every scenario that succeeded, for docs/rollouts.md: one file each.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::{figures::source, invariants::figures::Figures, rollout::folder};

/// How long a rolling update takes with the gate and without.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// With the gate.
    pub with_gate: Duration,
    /// Without it.
    pub without_gate: Duration,
    /// The number of machines that were replaced, which is the same in both.
    pub replaced: u32,
}

impl Cost {
    /// The additional time per machine.
    pub fn for_each(&self) -> Duration {
        self.with_gate.saturating_sub(self.without_gate) / self.replaced
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
        write!(
            f,
            "One after the other, a rolling update of {} machines took {} with the gate and {} without: {} longer for each machine.",
            self.replaced,
            seconds(self.with_gate),
            seconds(self.without_gate),
            seconds(self.for_each()),
        )
    }
}

/// Records the cost of the gate.
pub fn write_cost(cost: &Cost) {
    keep("cost", json!({"text": cost.to_string()}));
}

/// Writes the figures of a scenario to its file.
pub fn write(scenario: &str, figures: &Figures) {
    let hold = figures.longest_hold();
    let result = json!({
        "scenario": scenario,
        "seconds": figures.lasted.as_secs_f64(),
        "replaced": figures.replaced,
        "longest_hold": hold.map(|hold| hold.lasted.as_secs_f64()),
        "why": hold.map(|hold| format!("{} ({})", hold.gate, longest_reason(&hold.reasons))),
        "sent": figures.answered + figures.failed,
        "failed": figures.failed,
        "slowest": figures.slowest.as_secs_f64(),
        "octavia_calls": figures.octavia_calls,
    });
    keep(scenario, result);
}

/// Writes a result to its file, with the git id of the sources that it was measured with.
fn keep(name: &str, mut result: Value) {
    result["sources"] = source().into();
    let results = folder("results");
    std::fs::create_dir_all(&results).unwrap();
    let file = results.join(format!("{name}.json"));
    std::fs::write(file, result.to_string()).unwrap();
}

/// The most specific reason: the last one that is neither the beginning nor the end of an ordinary change.
fn longest_reason(reasons: &[String]) -> &str {
    let ordinary = ["NotYetObserved", "MembersActive", "ServerNotReady"];
    reasons
        .iter()
        .rev()
        .map(String::as_str)
        .find(|reason| !ordinary.contains(reason))
        .unwrap_or("MembersActive")
}

//! `explain REASON|ALERT`: the long text about a reason of conditions, events and metrics, or about an alert.

use std::process::ExitCode;

use clap::Args;

use super::{cluster::wrapped, complain, print};
use crate::status::explanation;
use capo_core::Reason;

/// Alerts and their runbooks.
const RUNBOOKS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/runbooks.rs"));
/// Columns of the text.
const WIDTH: usize = 80;

/// The options of `explain`.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// A reason, an event or an alert; without one, all of them are listed
    name: Option<String>,
}

/// Prints the text, or similar names.
pub(super) fn run(choices: &Choices) -> ExitCode {
    let Some(name) = &choices.name else {
        return print(&list());
    };
    if let Some(text) = text(name) {
        return print(&text);
    }
    let meant = similar(name);
    complain(&if meant.is_empty() {
        format!("{name:?} is no reason, event or alert; capo-rs explain lists all of them")
    } else {
        format!(
            "{name:?} is no reason, event or alert; similar names: {}",
            meant.join(", ")
        )
    });
    ExitCode::from(2)
}

/// The text about `name`, whose letters may be upper or lower case.
fn text(name: &str) -> Option<String> {
    let reason = Reason::ALL
        .iter()
        .find(|reason| reason.as_str().eq_ignore_ascii_case(name));
    if let Some(reason) = reason {
        return Some(of_reason(*reason));
    }
    let (_, page) = RUNBOOKS
        .iter()
        .find(|(alert, _)| alert.eq_ignore_ascii_case(name))?;
    Some((*page).to_owned())
}

fn of_reason(reason: Reason) -> String {
    let explained = explanation(reason);
    let mut lines = vec![reason.as_str().to_owned()];
    for (head, text) in [
        ("", reason.meaning()),
        ("What was seen", explained.seen),
        ("What ends it", explained.ends),
    ] {
        lines.push(String::new());
        if !head.is_empty() {
            lines.push(head.to_owned());
        }
        lines.extend(wrapped(text, WIDTH, "  "));
    }
    lines.join("\n") + "\n"
}

fn list() -> String {
    let mut lines = vec!["Reasons of conditions, gates and events".to_owned()];
    let widest = |names: &mut dyn Iterator<Item = &str>| names.map(str::len).max().unwrap_or(0);
    let width = widest(&mut Reason::ALL.iter().map(|reason| reason.as_str()));
    for reason in Reason::ALL {
        let indent = " ".repeat(width + 4);
        let meaning = wrapped(reason.meaning(), WIDTH, &indent).join("\n");
        lines.push(format!(
            "  {:<width$}  {}",
            reason.as_str(),
            meaning.trim_start()
        ));
    }
    if !RUNBOOKS.is_empty() {
        lines.push("\nAlerts".to_owned());
    }
    lines.extend(RUNBOOKS.iter().map(|(alert, _)| format!("  {alert}")));
    lines.join("\n") + "\n"
}

/// Names that are spelled similarly.
fn similar(name: &str) -> Vec<&'static str> {
    let name = name.to_ascii_lowercase();
    Reason::ALL
        .iter()
        .map(|reason| reason.as_str())
        .chain(RUNBOOKS.iter().map(|(alert, _)| *alert))
        .filter(|known| {
            let known = known.to_ascii_lowercase();
            known.contains(&name) || strsim::damerau_levenshtein(&known, &name) <= 2
        })
        .take(8)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_text_that_fits_a_terminal() {
        for reason in Reason::ALL {
            let text = text(&reason.as_str().to_lowercase()).unwrap();
            assert!(text.starts_with(reason.as_str()));
            assert!(text.contains("What ends it"), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    #[test]
    fn every_alert_has_a_runbook_with_its_four_parts() {
        let rules = include_str!("../../../../dashboards/rules.yaml");
        let alerts: Vec<&str> = rules
            .lines()
            .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("alert:"))
            .map(str::trim)
            .collect();
        assert!(alerts.len() > 10, "{alerts:?}");
        for alert in alerts {
            let text = text(alert).unwrap_or_else(|| panic!("{alert} is not explained"));
            for part in ["Meaning", "Impact", "Diagnosis", "Mitigation"] {
                assert!(text.contains(part), "{alert} has no {part}");
            }
        }
    }

    #[test]
    fn a_typing_error_has_similar_names() {
        assert_eq!(similar("MemberPendnig"), ["MemberPending"]);
        assert!(similar("throttle").contains(&"Throttled"));
        assert!(similar("xyzzy").is_empty());
    }
}

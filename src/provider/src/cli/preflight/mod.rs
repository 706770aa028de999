//! `preflight`: reads, without writing, what prevents capo-rs from taking over an installation.

mod facts;
mod finding;
mod findings;
mod managers;

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::plan::{Form, NOT_KNOWN, printed};
use crate::manager::{self, Settings};
use facts::Facts;
use finding::{Finding, Level};
use findings::CLUSTER_API;

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
    #[command(flatten)]
    settings: Box<Settings>,
}

/// What is printed with `-o json`.
#[derive(Debug, Serialize)]
struct PreflightReport {
    findings: Vec<Finding>,
}

/// Returns the exit code 0 if nothing is in the way, 1 if something is, and 2 if not everything could be read.
pub(super) fn run(choices: &Choices) -> ExitCode {
    let settings = &choices.settings;
    let gathered = async {
        let facts = Facts::gather(settings).await?;
        // Without that version, Cluster API's objects can't be listed, and the plan would only fail.
        let listable = facts.cluster_api.iter().any(|one| one == CLUSTER_API);
        let plan = if listable {
            let plan = manager::plan::plan(settings).await;
            plan.map_err(|error| error.to_string())?
        } else {
            manager::plan::Plan::default()
        };
        let reach = managers::Reach::of(settings);
        let findings = findings::assess(&facts, &reach, &plan);
        Ok::<_, String>(PreflightReport { findings })
    };
    let report = printed(settings, choices.output, gathered, text);
    let worst = |report: PreflightReport| report.findings.iter().map(|it| it.level).max();
    match report.map(worst) {
        Some(None | Some(Level::Note)) => ExitCode::SUCCESS,
        Some(Some(Level::Problem)) => ExitCode::FAILURE,
        None | Some(Some(Level::Unknown)) => ExitCode::from(NOT_KNOWN),
    }
}

/// The findings as text, grouped by the object that they are about.
fn text(PreflightReport { findings }: &PreflightReport) -> String {
    let mut out = String::new();
    let mut about = None;
    for finding in findings {
        if about != Some(&finding.about) {
            let _ = writeln!(out, "{}", finding.about);
            about = Some(&finding.about);
        }
        let level = match finding.level {
            Level::Note => "note",
            Level::Problem => "problem",
            Level::Unknown => "unknown",
        };
        let _ = writeln!(
            out,
            "  {level}: {}: {}",
            finding.code.as_str(),
            finding.message
        );
    }
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    let _ = writeln!(
        out,
        "Problems: {}, not known: {}, notes: {}",
        count(Level::Problem),
        count(Level::Unknown),
        count(Level::Note)
    );
    out
}

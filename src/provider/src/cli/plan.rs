//! `plan` and the manager's `--dry-run` print what the manager would change, and change nothing.

use std::{
    fmt::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::manager::{
    self, Settings,
    plan::{Assessment, Plan},
};

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Form of the plan
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
    #[command(flatten)]
    settings: Box<Settings>,
}

/// The form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

/// The exit code if not everything is known.
pub(super) const NOT_KNOWN: u8 = 2;

/// Returns the exit code 0 if nothing would be changed, 1 if something would, and 2 if this is not known for every
/// object.
pub(super) fn run(choices: &Choices) -> ExitCode {
    print_plan(&choices.settings, choices.output)
}

/// Plans with the settings of the manager.
pub(super) fn print_plan(settings: &Settings, form: Form) -> ExitCode {
    let plan = printed(settings, form, manager::plan::plan(settings), text);
    match plan.map(|plan| (plan.unknown(), plan.changes())) {
        Some((0, (0, 0))) => ExitCode::SUCCESS,
        Some((0, _)) => ExitCode::FAILURE,
        _ => ExitCode::from(NOT_KNOWN),
    }
}

/// Does `work` with the settings of the manager, and prints the result, which `text` formats for people. `None` if the
/// work or the printing failed.
pub(super) fn printed<T: Serialize, E: fmt::Display>(
    settings: &Settings,
    form: Form,
    work: impl Future<Output = Result<T, E>>,
    text: fn(&T) -> String,
) -> Option<T> {
    let checked = settings.check().map_err(|error| error.to_string());
    let done = checked.and_then(|()| {
        // Only warnings and errors are logged, because the rest is in the printed result.
        manager::start_logging(0, settings.logging_format);
        super::wait_for(work).map_err(|error| error.to_string())
    });
    let report = match done {
        Ok(report) => report,
        Err(error) => {
            super::complain(&error);
            return None;
        }
    };
    let output = match form {
        Form::Text => text(&report),
        Form::Json => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
    };
    (super::print(&output) == ExitCode::SUCCESS).then_some(report)
}

fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for object in &plan.objects {
        let quiet = object.refusals.is_empty()
            && object.openstack.is_empty()
            && object.kubernetes.is_empty()
            && object.result == Assessment::Completed;
        if quiet {
            continue;
        }
        let _ = writeln!(out, "{}", object.object);
        for write in &object.openstack {
            let _ = write!(
                out,
                "  OpenStack: {} {} {}",
                write.service, write.method, write.path
            );
            let _ = match &write.body {
                serde_json::Value::Null => writeln!(out),
                body => writeln!(out, " {body}"),
            };
        }
        for write in &object.kubernetes {
            let _ = match &write.content {
                serde_json::Value::Null => writeln!(out, "  Kubernetes: {}", write.verb),
                content => writeln!(out, "  Kubernetes: {} {content}", write.verb),
            };
        }
        for refusal in &object.refusals {
            let _ = writeln!(
                out,
                "  left as it is: {}: {}",
                refusal.reason, refusal.message
            );
        }
        let _ = match &object.result {
            Assessment::Completed => Ok(()),
            Assessment::Waiting { reason, message } => {
                writeln!(out, "  waits: {reason}: {message}")
            }
            Assessment::Failed { reason, message } => {
                writeln!(out, "  changes are not known: {reason}: {message}")
            }
            Assessment::NotReached => {
                writeln!(out, "  changes are not known: it had no pass in time")
            }
        };
    }
    let (openstack, kubernetes) = plan.changes();
    let reports = plan.objects.iter().filter(|object| object.updates_status);
    let _ = writeln!(
        out,
        "Calls that change OpenStack: {openstack}, changes in Kubernetes: {kubernetes}, updates of a status: {}, \
         objects: {}, of which not judged: {}",
        reports.count(),
        plan.objects.len(),
        plan.unknown(),
    );
    if openstack > 0 {
        out += "Only the first call of each step is listed: what follows depends on its answer.\n";
    }
    out
}

//! `plan` and the manager's `--dry-run`: what the manager would change, and nothing is changed.

use std::{fmt::Write as _, process::ExitCode};

use clap::{Args, ValueEnum};

use crate::manager::{
    self, Settings,
    plan::{Judgement, Plan},
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

/// Ends with 0 where nothing would be changed, 1 where something would, 2 where this is not known of every object.
pub(super) fn run(choices: &Choices) -> ExitCode {
    print_plan(&choices.settings, choices.output)
}

/// Plans with the settings of the manager.
pub(super) fn print_plan(settings: &Settings, form: Form) -> ExitCode {
    const NOT_KNOWN: u8 = 2;
    if let Err(contradiction) = settings.check() {
        super::complain(&contradiction.to_string());
        return ExitCode::from(NOT_KNOWN);
    }
    // Warnings and errors only: the plan has the rest.
    manager::start_logging(0, settings.logging_format);
    let plan = match super::wait_for(manager::plan::plan(settings)) {
        Ok(plan) => plan,
        Err(error) => {
            super::complain(&error.to_string());
            return ExitCode::from(NOT_KNOWN);
        }
    };
    let shown = match form {
        Form::Text => text(&plan),
        Form::Json => serde_json::to_string_pretty(&plan).unwrap_or_default() + "\n",
    };
    let printed = super::print(&shown);
    if printed != ExitCode::SUCCESS {
        return ExitCode::from(NOT_KNOWN);
    }
    match (plan.unknown(), plan.changes()) {
        (0, (0, 0)) => ExitCode::SUCCESS,
        (0, _) => ExitCode::FAILURE,
        _ => ExitCode::from(NOT_KNOWN),
    }
}

fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for object in &plan.objects {
        let quiet = object.refusals.is_empty()
            && object.openstack.is_empty()
            && object.kubernetes.is_empty()
            && object.result == Judgement::Judged;
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
            Judgement::Judged => Ok(()),
            Judgement::Waiting { reason, message } => {
                writeln!(out, "  waits: {reason}: {message}")
            }
            Judgement::Failed { reason, message } => {
                writeln!(out, "  changes are not known: {reason}: {message}")
            }
            Judgement::NotReached => {
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

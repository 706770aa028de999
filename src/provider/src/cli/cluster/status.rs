//! `status CLUSTER`: prints the state of a cluster once.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::{Screen, direct, snapshot::Objects, table, view::View};
use crate::cli::{CommandError, connection::Connection, print_or_complain, wait_for};

/// The options of `status`.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Choices {
    /// The Cluster's name
    cluster: String,
    #[command(flatten)]
    connection: Connection,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Also read Octavia, with the cluster's credentials: needs the right to get
    /// their Secret, and access to the cloud
    #[arg(long)]
    direct: bool,
    /// No colours; NO_COLOR has the same effect
    #[arg(long)]
    no_color: bool,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Gate, members by machine and port, conditions, latest events
    Table,
    /// The same with address, ID and message of every member
    Wide,
    /// Everything, for programs
    Json,
    /// Everything, for programs
    Yaml,
}

/// Reads the cluster once and prints its state.
pub(in crate::cli) fn run(choices: &Choices) -> ExitCode {
    let outcome = wait_for(async {
        let (client, namespace) = choices.connection.open().await?;
        let objects = Objects::new(&client, &namespace, &choices.cluster);
        let mut snapshot = objects.read().await?;
        if choices.direct {
            direct::read(&client, &mut snapshot).await?;
        }
        Ok::<_, String>(View::of(&snapshot))
    });
    let text = outcome.and_then(|view| rendered(&view, choices));
    print_or_complain(text)
}

/// The view in the format that `--output` names.
fn rendered(view: &View, choices: &Choices) -> Result<String, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::Failed(error.to_string());
    let wide = match choices.output {
        Output::Json => {
            let text = serde_json::to_string_pretty(view).map_err(|error| failed(&error))?;
            return Ok(text + "\n");
        }
        Output::Yaml => return serde_saphyr::to_string(view).map_err(|error| failed(&error)),
        Output::Table => false,
        Output::Wide => true,
    };
    let screen = Screen::of_stdout(choices.no_color);
    // The wide table is not cut.
    let screen = Screen {
        width: screen.width.filter(|_| !wide),
        ..screen
    };
    let sections = table::sections(view, wide, screen, Timestamp::now());
    Ok(table::lines(&sections, screen).join("\n") + "\n")
}

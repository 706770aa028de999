//! `status CLUSTER`: one look.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::{Screen, board, direct, seen::Place, view::View};
use crate::cli::{connection::Connection, print_or_complain, wait_for};

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Choices {
    /// The Cluster's name
    cluster: String,
    #[command(flatten)]
    connection: Connection,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Ask Octavia too, with the cluster's credentials: needs the right to get
    /// their Secret, and a way to the cloud
    #[arg(long)]
    direct: bool,
    /// No colours; NO_COLOR says the same
    #[arg(long)]
    no_color: bool,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Gate, members by machine and port, conditions, last events
    Table,
    /// The same with address, ID and message of every member
    Wide,
    /// Everything, for programs
    Json,
    /// Everything, for programs
    Yaml,
}

/// Looks once and prints.
pub(in crate::cli) fn run(choices: &Choices) -> ExitCode {
    let outcome = wait_for(async {
        let (client, namespace) = choices.connection.open().await?;
        let place = Place::new(&client, &namespace, &choices.cluster);
        let mut seen = place.read().await?;
        if choices.direct {
            direct::ask(&client, &mut seen).await?;
        }
        Ok(View::of(&seen))
    });
    let text = outcome.and_then(|view| {
        let wide = match choices.output {
            Output::Json => {
                return serde_json::to_string_pretty(&view)
                    .map(|text| text + "\n")
                    .map_err(|error| error.to_string());
            }
            Output::Yaml => {
                return serde_saphyr::to_string(&view).map_err(|error| error.to_string());
            }
            Output::Table => false,
            Output::Wide => true,
        };
        let screen = Screen::of_stdout(choices.no_color);
        // What is asked for in full is not cut.
        let screen = Screen {
            width: screen.width.filter(|_| !wide),
            ..screen
        };
        let parts = board::board(&view, wide, screen, Timestamp::now());
        Ok(board::lines(&parts, screen).join("\n") + "\n")
    });
    print_or_complain(text)
}

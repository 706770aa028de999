//! Subcommands. Without one, the manager runs.

mod crds;
pub mod manifests;
mod migrate_storage;
pub mod version;

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use clap::{Parser, Subcommand, error::ErrorKind};

use crate::manager::{self, Settings, settings::normalise};

/// Threads that run tasks: the work is waiting, not computing.
const WORKER_THREADS: usize = 2;

/// Cluster API infrastructure provider for OpenStack.
///
/// Without a command it runs the manager. Flags have the names of Cluster API Provider OpenStack; Go's
/// spelling (-v=4, --leader_elect) is understood.
#[derive(Debug, Parser)]
#[command(name = "capo-rs", version = version::LONG, max_term_width = 80, args_conflicts_with_subcommands = true, args_override_self = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the custom resource definitions
    Crds(crds::Choices),
    /// Print everything that a deployment takes
    Manifests(manifests::Choices),
    /// Rewrite stored objects in the storage version, then exit
    ///
    /// The leading manager does it by itself too, where it has the rights of capo-storage-migration-role.
    MigrateStorage(migrate_storage::Choices),
}

/// Parses `arguments` and does what they say.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let line = match CommandLine::try_parse_from(normalise(arguments)) {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(2),
            };
        }
    };
    match line.command {
        Some(Command::Crds(choices)) => match crds::yaml(choices) {
            Ok(text) => print(&text),
            Err(error) => {
                complain(&error.to_string());
                ExitCode::FAILURE
            }
        },
        Some(Command::Manifests(choices)) => print(&manifests::yaml(&choices)),
        Some(Command::MigrateStorage(choices)) => migrate_storage::run(&choices),
        None => run_manager(line.settings),
    }
}

fn run_manager(settings: Settings) -> ExitCode {
    if let Err(contradiction) = settings.check() {
        complain(&contradiction);
        return ExitCode::from(2);
    }
    manager::start_logging(settings.verbosity, settings.logging_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        // Blocking work is name resolution and reading small files.
        .max_blocking_threads(8)
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(manager::run(settings));
            // A hung name resolution must not hold up the end.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(format!("can't start the runtime: {error}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "Stopping");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has gone, as `| head` does.
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "error: {text}");
}

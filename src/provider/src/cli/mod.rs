//! Subcommands. Without one, the manager runs.
//!
//! If the program's file is named `kubectl-capo` or `clusterctl-capo` (a symlink is enough), it is a plugin of that
//! tool and has only the commands for operators.

mod cluster;
mod connection;
mod crds;
mod explain;
pub mod manifests;
mod migrate_storage;
mod plan;
mod preflight;
mod release_hooks;

use std::{ffi::OsString, io::Write as _, path::Path, process::ExitCode};

use capo_core::build_info;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, error::ErrorKind};

use crate::manager::{self, Settings, settings::normalise};

/// The number of threads that run tasks. Two are enough, because the tasks mostly wait.
pub(crate) const WORKER_THREADS: usize = 2;

/// Cluster API infrastructure provider for OpenStack.
///
/// Without a command it runs the manager. Flags have the names of Cluster API Provider OpenStack; Go's
/// notation (-v=4, --leader_elect) is accepted.
#[derive(Debug, Parser)]
#[command(name = "capo-rs", version = build_info::LONG, max_term_width = 80, args_conflicts_with_subcommands = true, args_override_self = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

/// Show the state of clusters' load balancers and their gates
///
/// Needs the rights of the ClusterRole capo-viewer-role.
#[derive(Debug, Parser)]
#[command(version = build_info::LONG, max_term_width = 80)]
struct PluginLine {
    #[command(subcommand)]
    command: Inspect,
}

/// Commands for operators.
#[derive(Debug, Subcommand)]
enum Inspect {
    /// Show a cluster's gate, members, conditions and latest events
    Status(cluster::status::Choices),
    /// Follow a cluster's gate and members, with --until=open until the gate is open
    Watch(cluster::watch::Choices),
    /// Explain a reason, an event or an alert
    Explain(explain::Choices),
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Inspect(Inspect),
    /// Print the custom resource definitions
    Crds(crds::Choices),
    /// Print the manifests of an installation
    Manifests(manifests::Choices),
    /// Show what the manager would change, and change nothing
    ///
    /// Runs the manager's passes once over an installation of capo-rs or of CAPO 0.12 to 0.14, with the manager's
    /// flags. It ends with 0 where nothing would be changed, 1 where something would, 2 where this is not known of
    /// every object.
    Plan(plan::Choices),
    /// List what stands between an installation of CAPO and capo-rs, and change nothing
    ///
    /// Reads the management cluster and its clouds with the manager's flags. It ends with 0 where nothing stands in the
    /// way, 1 where something does, 2 where not everything could be read.
    Preflight(preflight::Choices),
    /// Rewrite stored objects in the storage version, then exit
    ///
    /// The leading manager also does it by itself, if it has the rights of capo-storage-migration-role.
    MigrateStorage(migrate_storage::Choices),
    /// Remove the deletion hooks from all Machines, before capo-rs is uninstalled
    ///
    /// Also puts back in service the load balancer members that capo-rs disabled or drained. Needs no
    /// running manager, and refuses to run beside one that would add the hooks again, unless --force is given.
    ReleaseHooks(release_hooks::Choices),
}

/// The command line with every flag and command, for the page that lists them.
pub fn command_line() -> clap::Command {
    CommandLine::command()
}

/// Parses `arguments` and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = normalise(arguments);
    if let Some(name) = arguments.first().and_then(plugin) {
        let line = PluginLine::command().name("capo").bin_name(name);
        let parsed = line
            .try_get_matches_from(arguments)
            .and_then(|matches| PluginLine::from_arg_matches(&matches));
        return match parsed {
            Ok(line) => inspect(&line.command),
            Err(error) => usage(&error),
        };
    }
    let line = match CommandLine::try_parse_from(arguments) {
        Ok(line) => line,
        Err(error) => return usage(&error),
    };
    match line.command {
        Some(Command::Inspect(command)) => inspect(&command),
        Some(Command::Crds(choices)) => print_or_complain(crds::yaml(&choices)),
        Some(Command::Manifests(choices)) => print_or_complain(manifests::yaml(&choices)),
        Some(Command::Plan(choices)) => plan::run(&choices),
        Some(Command::Preflight(choices)) => preflight::run(&choices),
        Some(Command::MigrateStorage(choices)) => migrate_storage::run(&choices),
        Some(Command::ReleaseHooks(choices)) => release_hooks::run(&choices),
        None => run_manager(line.settings),
    }
}

/// `kubectl capo` if the program's file is named `kubectl-capo`; `None` if it has its own name.
fn plugin(program: &OsString) -> Option<String> {
    let name = Path::new(program).file_name()?.to_str()?;
    let (host, own) = name.split_once('-')?;
    ["kubectl", "clusterctl"]
        .contains(&host)
        .then(|| format!("{host} {}", own.replace('_', "-")))
}

/// Prints the help if the user requested it, and an error otherwise.
fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    }
}

fn inspect(command: &Inspect) -> ExitCode {
    match command {
        Inspect::Status(choices) => cluster::status::run(choices),
        Inspect::Watch(choices) => cluster::watch::run(choices),
        Inspect::Explain(choices) => explain::run(choices),
    }
}

/// Why a command failed, for standard error.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("can't start the runtime: {0}")]
    Runtime(std::io::Error),
    #[error("{0}")]
    Failed(String),
}

/// Runs `work` to its end on this thread.
fn wait_for<T, E: std::fmt::Display>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Runtime)?
        .block_on(work)
        .map_err(|error| CommandError::Failed(error.to_string()))
}

fn run_manager(settings: Settings) -> ExitCode {
    if settings.dry_run {
        return plan::print_plan(&settings, plan::Form::Text);
    }
    if let Err(contradiction) = settings.check() {
        complain(&contradiction.to_string());
        return ExitCode::from(2);
    }
    manager::start_logging(settings.verbosity, settings.logging_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        // Blocking work is name resolution, reading small files, and one large review of a webhook at a time.
        .max_blocking_threads(8)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&CommandError::Runtime(error).to_string());
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(manager::run(settings));
    // A name resolution or a review that does not return must not delay the exit.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "Stopping");
            ExitCode::FAILURE
        }
    }
}

fn print_or_complain<E: std::fmt::Display>(text: Result<String, E>) -> ExitCode {
    match text {
        Ok(text) => print(&text),
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, as `| head` does.
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "error: {text}");
}

fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {text}");
}

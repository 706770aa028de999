//! Structured logs, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use super::settings::LoggingFormat;

/// Installs the process's log on standard error. Levels follow Cluster API's habit: 2 is what an operator
/// wants to see every day, 4 is for finding faults; verbosity never changes what is kept secret.
pub fn start(verbosity: u8, format: LoggingFormat) {
    let ours = match verbosity {
        0 => "warn",
        1..=3 => "info",
        4 => "debug",
        _ => "trace",
    };
    // Of the libraries only what goes wrong: their debug output repeats requests.
    let filter = EnvFilter::new(format!("warn,capo_rs={ours}"));
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // A second start in one process, as tests do it, keeps the first.
    let _ = match format {
        LoggingFormat::Text => registry
            .with(lines.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
        LoggingFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}

//! Structured logs, as text or JSON.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, fmt, prelude::*};

use super::settings::LoggingFormat;
use crate::metrics::CountLogLines;

/// The crates whose log lines `--v` selects.
const OURS: [&str; 5] = [
    "capo_rs",
    "capo_openstack",
    "capo_gate",
    "capo_api",
    "capo_core",
];

/// Installs the process's log on standard error. Levels follow Cluster API's convention: 2 is for daily operation, 4
/// for debugging. No level shows secrets.
pub fn start(verbosity: u8, format: LoggingFormat) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1..=3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Libraries log only failures, because their debug output contains requests.
    let filter = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(OURS.map(|name| (name, level)));
    let registry = tracing_subscriber::registry()
        .with(filter)
        .with(CountLogLines);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    log_panics();
    // A second start in one process, as in tests, keeps the first log.
    let _ = match format {
        LoggingFormat::Text => registry
            .with(lines.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
        LoggingFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}

/// Writes panics as lines of the log, with the object of the pass in which they happened.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or_default();
        tracing::error!(location, message, "A task panicked");
    }));
}

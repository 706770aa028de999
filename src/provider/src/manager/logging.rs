//! Structured logs, as text or JSON.

use std::{
    io::IsTerminal as _,
    sync::atomic::{AtomicU64, Ordering},
};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{EnvFilter, Layer, fmt, layer::Context, prelude::*};

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
    let registry = tracing_subscriber::registry().with(filter).with(Count);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // A second start in one process, as tests do it, keeps the first.
    let _ = match format {
        LoggingFormat::Text => registry
            .with(lines.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
        LoggingFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}

/// Lines by level. The log is the process's, and so is their number.
static LINES: [(Level, &str, AtomicU64); 5] = [
    (Level::ERROR, "error", AtomicU64::new(0)),
    (Level::WARN, "warn", AtomicU64::new(0)),
    (Level::INFO, "info", AtomicU64::new(0)),
    (Level::DEBUG, "debug", AtomicU64::new(0)),
    (Level::TRACE, "trace", AtomicU64::new(0)),
];

/// How many lines of each level were logged by this process.
pub fn messages() -> [(&'static str, u64); 5] {
    LINES
        .each_ref()
        .map(|(_, name, lines)| (*name, lines.load(Ordering::Relaxed)))
}

/// Counts what the filter lets through.
struct Count;

impl<S: Subscriber> Layer<S> for Count {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = event.metadata().level();
        if let Some((_, _, lines)) = LINES.iter().find(|(one, _, _)| one == level) {
            lines.fetch_add(1, Ordering::Relaxed);
        }
    }
}

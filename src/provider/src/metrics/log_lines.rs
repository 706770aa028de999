//! The number of lines in the log. The log belongs to the whole process, and so does this number.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{Layer, layer::Context};

static LINES: [(Level, &str, AtomicU64); 5] = [
    (Level::ERROR, "error", AtomicU64::new(0)),
    (Level::WARN, "warn", AtomicU64::new(0)),
    (Level::INFO, "info", AtomicU64::new(0)),
    (Level::DEBUG, "debug", AtomicU64::new(0)),
    (Level::TRACE, "trace", AtomicU64::new(0)),
];

/// The number of lines that this process logged at each level.
pub(super) fn log_lines() -> [(&'static str, u64); 5] {
    LINES
        .each_ref()
        .map(|(_, name, lines)| (*name, lines.load(Ordering::Relaxed)))
}

/// A layer of the log that counts the lines which its filter lets through.
pub struct CountLogLines;

impl<S: Subscriber> Layer<S> for CountLogLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = event.metadata().level();
        if let Some((_, _, lines)) = LINES.iter().find(|(one, _, _)| one == level) {
            lines.fetch_add(1, Ordering::Relaxed);
        }
    }
}

//! The output of the demo: one live table on a terminal, one line for each change elsewhere.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{IsTerminal as _, Write as _, stdout},
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};

use crate::snapshot::{Client, Row, Snapshot};

/// The space before every row, as wide as a time.
const INDENT: &str = "         ";
/// The width of a terminal that does not tell its width.
const WIDTH: usize = 120;

/// Prints snapshots as they change.
pub(crate) struct Table {
    begun: Instant,
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    drawn: usize,
    last: Snapshot,
    printed: BTreeMap<String, Row>,
}

impl Table {
    /// A table whose clock starts now.
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            terminal: stdout().is_terminal(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn time(&self) -> String {
        format!("{:>6.1}s  ", self.begun.elapsed().as_secs_f64())
    }

    /// Prints a line that is not a row: above the table on a terminal.
    pub(crate) fn say(&self, text: &str) {
        let mut state = self.state();
        let mut out = erase(&mut state);
        let _ = writeln!(out, "{}{text}", self.time());
        self.draw(&mut state, &mut out);
        print(&out);
    }

    /// Shows the present snapshot.
    pub(crate) fn show(&self, snapshot: Snapshot) {
        let mut state = self.state();
        if self.terminal {
            let mut out = erase(&mut state);
            state.last = snapshot;
            self.draw(&mut state, &mut out);
            print(&out);
            return;
        }
        let requests = snapshot.client.as_ref().map(requests).unwrap_or_default();
        for row in snapshot.machines {
            let row = Row { held: None, ..row };
            if state.printed.get(&row.machine) != Some(&row) {
                println!("{}{requests}{}", self.time(), line(&row));
                state.printed.insert(row.machine.clone(), row);
            }
        }
        state.last.client = snapshot.client;
    }

    /// Leaves the last table on the screen. Later output is below it.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if let Some(client) = state.last.client.as_ref().filter(|_| !self.terminal) {
            println!("{}{}", self.time(), whole(client));
        }
        state.drawn = 0;
    }

    fn draw(&self, state: &mut State, out: &mut String) {
        if !self.terminal || state.last.machines.is_empty() {
            return;
        }
        let width = terminal_size::terminal_size()
            .map_or(WIDTH, |(width, _)| usize::from(width.0))
            .saturating_sub(1);
        let mut rows = vec![format!(
            "{}{:<12} {:<9} {:<28} {:<12} REASON",
            self.time(),
            "MACHINE",
            "SERVER",
            "MEMBER",
            "GATE"
        )];
        rows.extend(
            state
                .last
                .machines
                .iter()
                .map(|row| format!("{INDENT}{}", line(row))),
        );
        if let Some(client) = &state.last.client {
            rows.push(format!("{INDENT}{}", whole(client)));
        }
        for row in &rows {
            let shown: String = row.chars().take(width).collect();
            let _ = writeln!(out, "{shown}");
        }
        state.drawn = rows.len();
    }
}

/// The control sequence that moves up by the drawn lines and clears the screen from there.
fn erase(state: &mut State) -> String {
    match std::mem::take(&mut state.drawn) {
        0 => String::new(),
        drawn => format!("\x1b[{drawn}A\x1b[J"),
    }
}

/// Writes everything at once, so that nothing flickers.
fn print(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

fn line(row: &Row) -> String {
    let gate = match row.held.filter(|_| row.gate == "held") {
        Some(held) => format!("held {:.1} s", held.as_secs_f64()),
        None => row.gate.to_owned(),
    };
    let why = if row.gate == "held" && !row.message.is_empty() {
        // Only the first sentence of the message is shown. The others tell what an operator may do.
        let first = row.message.split(". ").next().unwrap_or_default();
        format!("{}: {first}", row.reason)
    } else {
        row.reason.clone()
    };
    format!(
        "{:<12} {:<9} {:<28} {gate:<12} {why}",
        row.machine, row.server, row.members
    )
}

/// Requests before a line.
fn requests(client: &Client) -> String {
    format!("{:>5} ok {:>2} failed  ", client.answered, client.failed)
}

fn whole(client: &Client) -> String {
    let longest = client.longest.as_ref().map(|(longest, machine)| {
        format!(", longest hold {:.1} s ({machine})", longest.as_secs_f64())
    });
    format!(
        "client       {} requests answered, {} failed{}",
        client.answered,
        client.failed,
        longest.unwrap_or_default()
    )
}

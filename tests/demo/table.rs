//! What a person watches: one live table on a terminal, one line per change elsewhere.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _, stdout},
    time::Instant,
};

/// A control-plane machine as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The machine's name.
    pub machine: String,
    /// Nova's state of its server.
    pub server: String,
    /// Octavia's provisioning status of its member, per port.
    pub members: BTreeMap<u16, String>,
    /// Whether Cluster API may go on.
    pub gate: &'static str,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

impl Row {
    fn members(&self) -> String {
        let shown: Vec<String> = self
            .members
            .iter()
            .map(|(port, status)| format!("{port}:{status}"))
            .collect();
        if shown.is_empty() {
            "-".to_owned()
        } else {
            shown.join(" ")
        }
    }

    fn line(&self) -> String {
        format!(
            "{:<12} {:<8} {:<22} {:<6} {:<18} {}",
            self.machine,
            self.server,
            self.members(),
            self.gate,
            self.reason,
            self.message
        )
    }
}

/// Prints rows as they change.
pub(crate) struct Table {
    begun: Instant,
    terminal: bool,
    drawn: usize,
    last: BTreeMap<String, Row>,
}

impl Table {
    /// A table whose clock starts now.
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            terminal: stdout().is_terminal(),
            drawn: 0,
            last: BTreeMap::new(),
        }
    }

    /// Something that is not a row: above the table on a terminal.
    pub(crate) fn say(&mut self, text: &str) {
        self.erase();
        println!("{:>6.1}s  {text}", self.begun.elapsed().as_secs_f64());
        self.draw();
    }

    /// The rows as they are now.
    pub(crate) fn show(&mut self, rows: Vec<Row>) {
        if self.terminal {
            self.erase();
            self.last = rows
                .into_iter()
                .map(|row| (row.machine.clone(), row))
                .collect();
            self.draw();
            return;
        }
        for row in rows {
            if self.last.get(&row.machine) != Some(&row) {
                println!(
                    "{:>6.1}s  {}",
                    self.begun.elapsed().as_secs_f64(),
                    row.line()
                );
                self.last.insert(row.machine.clone(), row);
            }
        }
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            // Up as many lines as were drawn, and clear from there.
            print!("\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }

    fn draw(&mut self) {
        if !self.terminal || self.last.is_empty() {
            return;
        }
        let width = 100;
        println!(
            "{:>6.1}s  {:<12} {:<8} {:<22} {:<6} REASON",
            self.begun.elapsed().as_secs_f64(),
            "MACHINE",
            "SERVER",
            "MEMBERS",
            "GATE"
        );
        for row in self.last.values() {
            let line: String = row.line().chars().take(width).collect();
            println!("         {line}");
        }
        self.drawn = self.last.len() + 1;
        let _ = stdout().flush();
    }
}

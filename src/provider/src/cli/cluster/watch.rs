//! `watch CLUSTER`: a live view on a terminal, one line per change elsewhere, until the gate is open or the time is up.

use std::{
    collections::HashMap,
    io::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::{
    Screen,
    follow::Follower,
    gates::GateView,
    snapshot::Objects,
    table::{self, Section},
    view::View,
};
use crate::{
    cli::{complain, connection::Connection, wait_for},
    manager::settings::parse_duration,
};
use capo_core::GateState;

/// The exit code when the time is up.
const TIMEOUT: u8 = 3;
/// The exit code after a Ctrl-C, as shells have it for SIGINT.
const INTERRUPTED: u8 = 130;
/// How long a changed cell stands out.
const FRESH: Duration = Duration::from_secs(5);
/// Changes within this time of each other are shown together.
const TOGETHER: Duration = Duration::from_millis(100);

/// The options of `watch`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 the gate is open, 1 an error, 2 wrong usage, 3 the time is up."
)]
pub(in crate::cli) struct Choices {
    /// The Cluster's name
    cluster: String,
    #[command(flatten)]
    connection: Connection,
    /// End when the gate is open
    #[arg(long, value_enum)]
    until: Option<Until>,
    /// End after this time, such as 30m, with exit code 3 unless the gate is open
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Also show the address, ID and message of every member
    #[arg(long)]
    wide: bool,
    /// No colours; NO_COLOR has the same effect
    #[arg(long)]
    no_color: bool,
}

/// The states for which `--until` can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Until {
    /// No gate of the cluster is held
    Open,
}

/// Watches the cluster, and ends with one of the exit codes of the help text.
pub(in crate::cli) fn run(choices: &Choices) -> ExitCode {
    match wait_for(watch(choices)) {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn watch(choices: &Choices) -> Result<ExitCode, String> {
    let deadline = choices
        .timeout
        .map(|timeout| tokio::time::Instant::now() + timeout);
    let timeout = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let mut timeout = std::pin::pin!(timeout);
    // One future serves all rounds, so that a Ctrl-C between two waits is not lost: once it has been polled, the signal
    // does not end the process by itself any more.
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    let begin = async {
        let (client, namespace) = choices.connection.open().await?;
        let objects = Objects::new(&client, &namespace, &choices.cluster);
        Follower::follow(&objects).await
    };
    let follower = tokio::select! {
        follower = begin => follower?,
        () = &mut timeout => return Ok(ExitCode::from(TIMEOUT)),
        _ = &mut interrupt => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let mut display = Display::new(choices);
    loop {
        let Some(snapshot) = follower.snapshot() else {
            return Err(format!("Cluster {} is gone", choices.cluster));
        };
        let trouble = follower.trouble();
        if let Some(trouble) = trouble.as_ref().filter(|trouble| trouble.is_final) {
            return Err(trouble.text.clone());
        }
        let view = View::of(&snapshot);
        display.show(&view, trouble.as_ref().map(|trouble| trouble.text.as_str()));
        let open = matches!(view.gate.state, GateState::Open | GateState::Bypassed);
        if open && choices.until == Some(Until::Open) && trouble.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = follower.changed() => tokio::time::sleep(TOGETHER).await,
            () = tokio::time::sleep(display.pause()) => {}
            () = &mut timeout => {
                let code = if open { 0 } else { TIMEOUT };
                return Ok(ExitCode::from(code));
            }
            _ = &mut interrupt => return Ok(ExitCode::from(INTERRUPTED)),
        }
    }
}

/// Where the state of the cluster is shown.
enum Display {
    Terminal(Box<Terminal>),
    Lines(Box<Lines>),
}

#[derive(Default)]
struct Lines {
    last: Option<View>,
    trouble: String,
}

struct Terminal {
    wide: bool,
    no_colour: bool,
    /// The cells that were drawn last.
    cells: HashMap<CellKey, DrawnCell>,
    last: Vec<String>,
}

/// The place of a cell on the screen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CellKey {
    /// The index of the section that has the table.
    section: usize,
    /// The name of the row.
    row: String,
    /// The index of the column.
    column: usize,
}

/// A cell that was drawn.
struct DrawnCell {
    text: String,
    /// The time at which the text last changed.
    changed: Option<Instant>,
}

impl Display {
    fn new(choices: &Choices) -> Self {
        if Screen::of_stdout(true).width.is_none() {
            return Self::Lines(Box::default());
        }
        // The alternate screen, without a cursor: the terminal gets its old content back at the end.
        put("\x1b[?1049h\x1b[?25l");
        Self::Terminal(Box::new(Terminal {
            wide: choices.wide,
            no_colour: choices.no_color,
            cells: HashMap::new(),
            last: Vec::new(),
        }))
    }

    /// How long to wait for a change before the ages are drawn again.
    fn pause(&self) -> Duration {
        match self {
            Self::Terminal(_) => Duration::from_secs(1),
            Self::Lines(_) => Duration::from_hours(1),
        }
    }

    fn show(&mut self, view: &View, trouble: Option<&str>) {
        match self {
            Self::Terminal(terminal) => terminal.draw(view, trouble),
            Self::Lines(lines) => lines.write(view, trouble.unwrap_or_default()),
        }
    }
}

impl Lines {
    fn write(&mut self, view: &View, trouble: &str) {
        let now = Timestamp::now()
            .round(jiff::Unit::Second)
            .unwrap_or_default();
        let mut lines = changes(self.last.as_ref(), view);
        if trouble != self.trouble {
            lines.push(if trouble.is_empty() {
                "connected again".to_owned()
            } else {
                format!("not up to date: {trouble}")
            });
            trouble.clone_into(&mut self.trouble);
        }
        for line in lines {
            // Text from outside must not control the terminal that shows these lines.
            let line = line.replace(|c: char| c.is_control(), " ");
            put(&format!("{now}  {line}\n"));
        }
        self.last = Some(view.clone());
    }
}

impl Terminal {
    fn draw(&mut self, view: &View, trouble: Option<&str>) {
        let screen = Screen::of_stdout(self.no_colour);
        let mut sections = table::sections(view, self.wide, screen, Timestamp::now());
        let now = Instant::now();
        for (index, section) in sections.iter_mut().enumerate() {
            if let Section::Table(table) = section {
                table.freshen(|row, column, text| {
                    let cell = CellKey {
                        section: index,
                        row: row.to_owned(),
                        column,
                    };
                    self.is_fresh(cell, text, now)
                });
            }
        }
        let mut lines = table::lines(&sections, screen);
        let foot = trouble.map_or_else(
            || "Ctrl-C ends.".to_owned(),
            |trouble| format!("Not up to date: {trouble}"),
        );
        let room = screen.height.unwrap_or(usize::MAX).saturating_sub(2).max(1);
        if lines.len() > room {
            lines.truncate(room.saturating_sub(1));
            lines.push("… more on a taller terminal".to_owned());
        }
        self.last.clone_from(&lines);
        let foot = foot.chars().take(screen.width.unwrap_or(80)).collect();
        lines.extend([String::new(), foot]);
        // Each line is cleared to its end, then everything below, so that nothing flickers.
        put(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")));
    }

    fn is_fresh(&mut self, cell: CellKey, text: &str, now: Instant) -> bool {
        // The first drawing of a cell does not count as a change.
        let first = self.last.is_empty();
        let drawn = self.cells.entry(cell).or_insert_with(|| DrawnCell {
            text: text.to_owned(),
            changed: (!first).then_some(now),
        });
        if drawn.text != text {
            *drawn = DrawnCell {
                text: text.to_owned(),
                changed: Some(now),
            };
        }
        drawn
            .changed
            .is_some_and(|changed| now.duration_since(changed) < FRESH)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        put(&format!("\x1b[?25h\x1b[?1049l{}\n", self.last.join("\n")));
    }
}

fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// One line for each thing that differs between `before` and `after`. Without a `before`, all of `after` is listed.
pub(super) fn changes(before: Option<&View>, after: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let gate = |view: &View| {
        let gate = &view.gate;
        (gate.state, gate.reason.clone(), gate.message.clone())
    };
    if before.map(gate) != Some(gate(after)) {
        let (state, reason, message) = gate(after);
        lines.push(format!("gate {} {reason}: {message}", state.as_str()));
    }
    for machine in after
        .machines
        .iter()
        .filter(|machine| machine.control_plane)
    {
        let old = before.and_then(|view| view.machines.iter().find(|old| old.name == machine.name));
        let text = machine.gate.as_ref().map(sentence);
        let text_before = old.and_then(|old| old.gate.as_ref()).map(sentence);
        if text != text_before {
            let text = text.unwrap_or_else(|| "waits for no gate any more".to_owned());
            lines.push(format!("{} {text}", machine.name));
        }
        for (port, member) in &machine.members {
            let status = format!("{} {}", member.provisioning_status, member.operating_status);
            let was = old.and_then(|old| old.members.get(port)).map(|member| {
                format!("{} {}", member.provisioning_status, member.operating_status)
            });
            if was.as_ref() != Some(&status) {
                let was = was.map(|was| format!(" (was {was})")).unwrap_or_default();
                lines.push(format!("{}:{port} {status}{was}", machine.name));
            }
        }
        for port in old.iter().flat_map(|old| old.members.keys()) {
            if !machine.members.contains_key(port) {
                lines.push(format!("{}:{port} is gone", machine.name));
            }
        }
    }
    for old in before.iter().flat_map(|view| &view.machines) {
        if old.control_plane
            && !after
                .machines
                .iter()
                .any(|machine| machine.name == old.name)
        {
            lines.push(format!("{} is gone", old.name));
        }
    }
    // Events from before the first read are not listed.
    if let Some(before) = before {
        for event in &after.events {
            if !before.events.contains(event) {
                lines.push(format!(
                    "event {} {}: {}",
                    event.reason, event.object, event.note
                ));
            }
        }
    }
    lines
}

fn sentence(gate: &GateView) -> String {
    let name = gate.name.unwrap_or_default();
    let state = gate.state.as_str();
    format!("{name} {state} {}: {}", gate.reason, gate.message)
}

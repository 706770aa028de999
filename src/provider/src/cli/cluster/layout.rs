//! Tables of cells with a tone; the widest cell of a column sets its width.

use anstyle::{AnsiColor, Style};
use capo_core::GateState;
use jiff::Timestamp;

/// The meaning of a cell, shown as its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Waiting,
    Bad,
    Faint,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Waiting => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

/// A piece of text in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    tone: Tone,
    /// The cell changed less than five seconds ago and stands out.
    fresh: bool,
    /// The text is an age. Its growth does not count as a change of the cell.
    pub(super) ticks: bool,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text: String = text.into();
        // Text from outside must not control the terminal.
        let text = text.replace(|c: char| c.is_control(), " ");
        Self {
            text,
            tone,
            fresh: false,
            ticks: false,
        }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    /// A cell that shows an age.
    pub(super) fn age(text: impl Into<String>) -> Self {
        Self {
            ticks: true,
            ..Self::plain(text)
        }
    }

    fn drawn(&self, width: Option<usize>, colour: bool) -> String {
        let text = width.map_or_else(|| self.text.clone(), |width| fit(&self.text, width));
        let mut style = self.tone.style();
        if self.fresh {
            style = style.invert();
        }
        if colour && !style.is_plain() && !text.trim().is_empty() {
            let (shown, rest) = text.split_at(text.trim_end().len());
            format!("{style}{shown}{style:#}{rest}")
        } else {
            text
        }
    }
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Identifies the row from one drawing to the next.
    pub(super) key: String,
    pub(super) cells: Vec<Cell>,
}

/// A table. Its last column gets the rest of the width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Row>,
}

impl Table {
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|text| text.chars().count()).collect();
        for row in &self.rows {
            for (cell, width) in row.cells.iter().zip(&mut widths) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        widths
    }

    /// The width at which no cell is cut.
    pub(super) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    /// Marks the cells whose text changed recently, which `changed` decides.
    pub(super) fn freshen(&mut self, mut changed: impl FnMut(&str, usize, &str) -> bool) {
        for row in &mut self.rows {
            for (column, cell) in row.cells.iter_mut().enumerate() {
                cell.fresh = !cell.ticks && changed(&row.key, column, &cell.text);
            }
        }
    }

    /// The lines of the table, cut at `width`.
    pub(super) fn lines(&self, width: Option<usize>, colour: bool) -> Vec<String> {
        let widths = self.widths();
        let last = widths.len().saturating_sub(1);
        let before: usize = widths.iter().take(last).map(|width| width + 2).sum();
        let room = width.map(|width| width.saturating_sub(before).max(1));
        let line = |cells: &mut dyn Iterator<Item = &Cell>| {
            let mut line = String::new();
            for ((column, cell), width) in cells.enumerate().zip(&widths) {
                if column == last {
                    let whole = cell.text.chars().count();
                    line += &cell.drawn(room.map(|room| room.min(whole)), colour);
                } else {
                    line += &cell.drawn(Some(*width), colour);
                    line += "  ";
                }
            }
            line.trim_end().to_owned()
        };
        let head: Vec<Cell> = self
            .head
            .iter()
            .map(|text| Cell::new(text.clone(), Tone::Faint))
            .collect();
        let mut lines = vec![line(&mut head.iter())];
        lines.extend(self.rows.iter().map(|row| line(&mut row.cells.iter())));
        lines
    }
}

/// `text` in exactly `width` columns, cut or filled up.
fn fit(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        format!("{text}{}", " ".repeat(width - length))
    } else {
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        format!("{kept}…")
    }
}

/// `text` in lines of at most `width` columns, each after `indent`.
pub(in crate::cli) fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let room = width.saturating_sub(indent.len()).max(20);
    let text = text.replace(|c: char| c.is_control() && c != '\n', " ");
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let longer = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && longer > room {
                lines.push(format!("{indent}{line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(format!("{indent}{line}").trim_end().to_owned());
    }
    lines
}

/// The heads of a table's columns.
pub(super) fn heads(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The tone in which the state of a gate is shown.
pub(super) fn tone_of_gate(state: GateState) -> Tone {
    match state {
        GateState::Open => Tone::Good,
        GateState::Held => Tone::Waiting,
        GateState::Bypassed | GateState::Unknown => Tone::Bad,
    }
}

/// The age of `since`, or a dash if it is unknown.
pub(super) fn age_since(now: Timestamp, since: Option<Timestamp>) -> String {
    since.map_or_else(|| "-".to_owned(), |since| age(now, since))
}

/// The time from `since` to `now`, in the notation of kubectl.
pub(super) fn age(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

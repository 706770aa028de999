//! Tables of cells with a tone, laid out by the widest cell of a column.

/// How a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Waiting,
    Bad,
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "32",
            Self::Waiting => "33",
            Self::Bad => "31",
            Self::Faint => "2",
        }
    }
}

/// A piece of text in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    tone: Tone,
    /// It changed a moment ago.
    fresh: bool,
    /// It grows with time: never called changed.
    pub(super) ticks: bool,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text: String = text.into();
        // Text from outside must not steer the terminal.
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

    /// A text that grows with time.
    pub(super) fn age(text: impl Into<String>) -> Self {
        Self {
            ticks: true,
            ..Self::plain(text)
        }
    }

    fn drawn(&self, width: Option<usize>, colour: bool) -> String {
        let text = width.map_or_else(|| self.text.clone(), |width| fit(&self.text, width));
        let mut codes = self.tone.code().to_owned();
        if self.fresh {
            codes = if codes.is_empty() {
                "7".to_owned()
            } else {
                format!("{codes};7")
            };
        }
        if colour && !codes.is_empty() && !text.trim().is_empty() {
            let end = text.trim_end().len();
            let (shown, rest) = text.split_at(end);
            format!("\x1b[{codes}m{shown}\x1b[0m{rest}")
        } else {
            text
        }
    }
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// What it is about, the same from one drawing to the next.
    pub(super) key: String,
    pub(super) cells: Vec<Cell>,
}

/// A table. Its last column takes what is left of the width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Row>,
}

impl Grid {
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|text| text.chars().count()).collect();
        for row in &self.rows {
            for (cell, width) in row.cells.iter().zip(&mut widths) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        widths
    }

    /// The columns it needs to show every cell whole.
    pub(super) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    /// Marks the cells whose text `changed` calls changed a moment ago.
    pub(super) fn freshen(&mut self, mut changed: impl FnMut(&str, usize, &str) -> bool) {
        for row in &mut self.rows {
            for (column, cell) in row.cells.iter_mut().enumerate() {
                cell.fresh = !cell.ticks && changed(&row.key, column, &cell.text);
            }
        }
    }

    /// Its lines, cut at `width`.
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

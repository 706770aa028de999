//! `status` and `watch`: how a cluster's load balancer and its gates stand, from the Kubernetes API alone.
//!
//! Objects are read ([`seen`]), put into one picture ([`view`], [`gates`]: plain functions), and drawn
//! ([`board`] on [`grid`]). Nothing is asked of OpenStack unless that is wanted ([`direct`]): a viewer's rights are enough.

mod board;
mod direct;
mod gates;
mod grid;
mod live;
mod seen;
pub(super) mod status;
mod view;
pub(super) mod watch;

#[cfg(test)]
mod tests;

pub(super) use grid::wrapped;

use std::io::IsTerminal as _;

/// What can be drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Screen {
    /// Columns of the terminal; `None` where there is none: then nothing is cut.
    width: Option<usize>,
    /// Rows of the terminal.
    height: Option<usize>,
    /// Colours are welcome.
    colour: bool,
}

impl Screen {
    /// What standard output is. `NO_COLOR` and `--no-color` are obeyed.
    fn of_stdout(no_colour: bool) -> Self {
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal();
        let size = terminal_size::terminal_size_of(&stdout).filter(|_| terminal);
        let refused =
            no_colour || std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty());
        Self {
            width: size.map(|(width, _)| usize::from(width.0)),
            height: size.map(|(_, height)| usize::from(height.0)),
            colour: terminal && !refused,
        }
    }
}

//! `status` and `watch`: the state of a cluster's load balancer and its gates, from the Kubernetes API alone.
//!
//! Objects are read once ([`snapshot`]) or followed ([`follow`]), put into one view ([`view`], [`gates`]: plain
//! functions) and printed as tables ([`table`], [`layout`]). OpenStack is read only with `--direct` ([`direct`]), so a
//! viewer's rights are enough otherwise.

mod direct;
mod follow;
mod gates;
mod layout;
mod member_table;
mod snapshot;
pub(super) mod status;
mod table;
mod view;
pub(super) mod watch;

#[cfg(test)]
mod tests;

pub(super) use layout::wrapped;

use std::io::IsTerminal as _;

/// Where tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Screen {
    /// Columns of the terminal. `None` without a terminal: then nothing is cut.
    width: Option<usize>,
    /// Rows of the terminal.
    height: Option<usize>,
    /// Whether colours are used.
    colour: bool,
}

impl Screen {
    /// The screen of standard output. `NO_COLOR` and `--no-color` turn colours off.
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

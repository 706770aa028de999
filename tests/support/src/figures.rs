//! Figures that a command measured, in a file from which `make figures` writes docs/figures.md.

use std::{fs, path::PathBuf, process::Command};

use serde::{Deserialize, Serialize};

use crate::repository;

/// One figure, and what was promised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub unit: String,
    pub measured: f64,
    /// The most that it may be.
    pub promised: f64,
}

/// What one command measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// The command that a user types to measure again.
    pub command: String,
    /// The git id of `src` that was measured.
    pub source: String,
    pub figures: Vec<Figure>,
}

/// Where the files are.
pub fn folder() -> PathBuf {
    repository("target/figures")
}

/// The git id of `src` in the last commit.
pub fn source() -> String {
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD:src"])
        .current_dir(repository("."))
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// Keeps what `command` measured under `name`.
pub fn record(name: &str, command: &str, figures: &[(&str, &str, f64, f64)]) {
    let figures = figures
        .iter()
        .map(|&(what, unit, measured, promised)| Figure {
            what: what.to_owned(),
            unit: unit.to_owned(),
            measured,
            promised,
        })
        .collect();
    let figures = Figures {
        command: command.to_owned(),
        source: source(),
        figures,
    };
    fs::create_dir_all(folder()).unwrap();
    let text = serde_json::to_string_pretty(&figures).unwrap();
    fs::write(folder().join(format!("{name}.json")), text).unwrap();
}

//! Figures that a command measured, in a file from which `make figures` writes docs/figures.md.

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::LazyLock,
};

use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::repository;

/// One figure, and the limit that was promised.
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

/// The folder of the files.
pub fn folder() -> PathBuf {
    repository("target/figures")
}

/// The git id of the folder `src` as it was when this process asked for the first time; empty if this folder is not a
/// git checkout.
pub fn source() -> &'static str {
    static SOURCE: LazyLock<String> = LazyLock::new(|| {
        let output = Command::new(repository(".ci/sources")).output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    });
    &SOURCE
}

/// Runs a benchmark, which returns whether it kept what is promised. `cargo test --benches` and `cargo bench -- --list`
/// also start its binary, but then the benchmark does not run.
pub fn benchmark(keeps_the_promises: impl FnOnce(&Runtime) -> bool) -> ExitCode {
    let is_given = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    if !is_given("--bench") || is_given("--list") {
        return ExitCode::SUCCESS;
    }
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    if keeps_the_promises(&runtime) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Records what `command` measured under `name`.
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
        source: source().to_owned(),
        figures,
    };
    fs::create_dir_all(folder()).unwrap();
    let text = serde_json::to_string_pretty(&figures).unwrap();
    fs::write(folder().join(format!("{name}.json")), text).unwrap();
}

//! The status of objects according to the library kstatus, which many tools use.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::Value;

use super::{Error, programs};

/// The library's result for one object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ObjectStatus {
    /// `InProgress`, `Failed`, `Current`, `Terminating`, `NotFound` or `Unknown`.
    pub status: String,
    /// Why, for people.
    pub message: String,
}

/// The library's results for `objects`, in their order.
pub fn compute(objects: &[Value]) -> Result<Vec<ObjectStatus>, Error> {
    let mut program = Command::new(programs::kstatus()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = program.stdin.take().ok_or("no standard input")?;
    let output = program.stdout.take().ok_or("no standard output")?;
    let reading = std::thread::spawn(move || -> Result<Vec<ObjectStatus>, String> {
        BufReader::new(output)
            .lines()
            .map(|line| {
                let line = line.map_err(|error| error.to_string())?;
                serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))
            })
            .collect()
    });
    for object in objects {
        writeln!(input, "{object}")?;
    }
    drop(input);
    let verdicts = reading.join().map_err(|_| "the reader panicked")??;
    let ended = program.wait()?;
    if !ended.success() || verdicts.len() != objects.len() {
        return Err(format!(
            "kstatus ended with {ended} after {} verdicts on {} objects",
            verdicts.len(),
            objects.len()
        )
        .into());
    }
    Ok(verdicts)
}

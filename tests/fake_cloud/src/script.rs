//! Scripts: commands as JSON or YAML, one a line, or as one document with a list.

use serde_json::Value;

use crate::command::{Command, CommandError};

/// Reads commands: a JSON or YAML list, a single command, or one command a line with `#` comments.
pub fn parse(text: &str) -> Result<Vec<Command>, CommandError> {
    if let Ok(whole) = serde_json::from_str::<Value>(text) {
        return match whole {
            Value::Array(list) => list.into_iter().map(one).collect(),
            single => Ok(vec![one(single)?]),
        };
    }
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(place, line)| (place + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let by_line: Result<Vec<Command>, CommandError> = lines
        .iter()
        .map(|&(line, text)| {
            let value = serde_json::from_str(text)
                .or_else(|_| serde_saphyr::from_str(text))
                .map_err(|error| at_line(line, error))?;
            one(value).map_err(|error| at_line(line, error))
        })
        .collect();
    match by_line {
        Ok(commands) => Ok(commands),
        // The text does not have one command a line. It may be one YAML document.
        Err(error) => match serde_saphyr::from_str::<Value>(text) {
            Ok(Value::Array(list)) => list.into_iter().map(one).collect(),
            Ok(single @ Value::Object(_)) => Ok(vec![one(single)?]),
            _ => Err(error),
        },
    }
}

fn at_line(line: usize, error: impl std::error::Error + Send + Sync + 'static) -> CommandError {
    let error = Box::new(error);
    CommandError::Line { line, error }
}

fn one(value: Value) -> Result<Command, CommandError> {
    Ok(serde_json::from_value(value)?)
}

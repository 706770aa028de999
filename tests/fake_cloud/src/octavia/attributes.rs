//! Checks of attributes in a body, with the error texts of Octavia's type system.

use serde_json::Value;

use super::errors::octavia_error;
use crate::wire::{Reply, Row};

/// An integer attribute within bounds, with the error texts of Octavia's type system.
pub(super) fn integer(body: &Row, name: &str, low: u64, high: u64) -> Result<Option<u64>, Reply> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            match number {
                Some(number) if (low..=high).contains(&number) => Ok(Some(number)),
                Some(number) => {
                    let bound = if number < low {
                        format!("greater or equal to {low}")
                    } else {
                        format!("lower or equal to {high}")
                    };
                    Err(octavia_error(
                        400,
                        format!(
                            "Invalid input for field/attribute {name}. Value: '{number}'. Value should be {bound}"
                        ),
                    ))
                }
                None => Err(octavia_error(
                    400,
                    format!(
                        "Invalid input for field/attribute {name}. Value: '{}'. unable to convert to int",
                        value.as_str().unwrap_or("?")
                    ),
                )),
            }
        }
    }
}

pub(super) fn mandatory(body: &Row, names: &[&str]) -> Result<(), Reply> {
    match names
        .iter()
        .find(|name| matches!(body.get(**name), None | Some(Value::Null)))
    {
        Some(name) => Err(octavia_error(
            400,
            format!(
                "Invalid input for field/attribute {name}. Value: 'None'. Mandatory field missing."
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses attributes that the type does not have.
pub(super) fn only(body: &Row, kind: &str, names: &[&str]) -> Result<(), Reply> {
    match body.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(octavia_error(
            400,
            format!("Unknown attribute for argument {kind}_.{kind}: {key}"),
        )),
        None => Ok(()),
    }
}

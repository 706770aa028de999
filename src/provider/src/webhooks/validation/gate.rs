//! The gate override annotation. It is validated only when it is written, because a bypass that has expired must not
//! prevent the next update of its object.

use jiff::Timestamp;
use serde_json::Value;

use super::{FieldError, ObjectChange, annotation};
use capo_core::{GateOverride, gate_override};

pub(super) fn validate(change: &ObjectChange<'_>, now: Timestamp, errors: &mut Vec<FieldError>) {
    let written = annotation(change.new, gate_override::KEY);
    let before = change
        .old
        .and_then(|old| annotation(old, gate_override::KEY));
    let Some(text) = written.filter(|_| written != before) else {
        return;
    };
    if let GateOverride::Refused { message } = gate_override::parse(text, now) {
        errors.push(FieldError::invalid(
            format!("metadata.annotations[{}]", gate_override::KEY),
            &Value::from(text),
            message,
        ));
    }
}

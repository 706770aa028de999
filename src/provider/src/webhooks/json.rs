//! Functions for JSON trees of unknown form.

use std::fmt;

use serde_json::Value;

/// The place in an object. It is built on the way down without allocations, and written out only in errors.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Root(&'a str),
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(super) fn root(field: &'a str) -> Self {
        Self {
            parent: None,
            segment: Segment::Root(field),
        }
    }

    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Self {
            parent: Some(self),
            segment: Segment::Field(name),
        }
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            segment: Segment::Index(index),
        }
    }

    /// The entry `key` of a map with free keys.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self {
            parent: Some(self),
            segment: Segment::Key(key),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Root(name) => f.write_str(name),
            Segment::Field(name) => write!(f, ".{name}"),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{}]", excerpt(&Value::from(key))),
        }
    }
}

/// The value has another type than its schema defines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct WrongType {
    /// The field, such as `spec.bastion`.
    pub path: String,
    /// The type that it must have.
    pub expected: &'static str,
    /// The type that it has.
    pub found: &'static str,
}

/// The name of a JSON type, with its article.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value for an error: JSON, cut after 120 characters.
pub(super) fn excerpt(value: &Value) -> String {
    /// A few times the length of an id or a name, so that the rest of the message stays easy to find.
    const LIMIT: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(LIMIT) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

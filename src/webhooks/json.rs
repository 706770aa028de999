//! Walking JSON trees whose shape nobody has checked yet.

use std::fmt;

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Where in an object we are. Built on the way down without allocating, written out only in errors.
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
            Segment::Key(key) => write!(f, "[{}]", shown(&Value::from(key))),
        }
    }
}

/// Something has another type than its schema says.
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

impl WrongType {
    pub(super) fn new(path: &Path<'_>, expected: &'static str, found: &Value) -> Self {
        Self {
            path: path.to_string(),
            expected,
            found: type_name(found),
        }
    }
}

/// The name of a JSON type as people say it.
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

/// The object at `key`; `None` where it is absent or null.
pub(super) fn object<'a>(
    parent: &'a mut Object,
    key: &str,
    path: &Path<'_>,
) -> Result<Option<&'a mut Object>, WrongType> {
    match parent.get_mut(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(WrongType::new(&path.field(key), "an object", other)),
    }
}

/// The list at `key`; `None` where it is absent or null.
pub(super) fn list<'a>(
    parent: &'a mut Object,
    key: &str,
    path: &Path<'_>,
) -> Result<Option<&'a mut Vec<Value>>, WrongType> {
    match parent.get_mut(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(WrongType::new(&path.field(key), "a list", other)),
    }
}

/// Calls `visit` with every object of the list at `key`.
pub(super) fn each_object(
    parent: &mut Object,
    key: &str,
    path: &Path<'_>,
    mut visit: impl FnMut(&mut Object, &Path<'_>) -> Result<(), WrongType>,
) -> Result<(), WrongType> {
    let items = list(parent, key, path)?;
    let path = path.field(key);
    for (index, item) in items.into_iter().flatten().enumerate() {
        let path = path.index(index);
        match item {
            Value::Object(object) => visit(object, &path)?,
            other => return Err(WrongType::new(&path, "an object", other)),
        }
    }
    Ok(())
}

/// Moves the value at `from` of one object to `to` of another.
pub(super) fn shift(from: &mut Object, key: &str, to: &mut Object, new_key: &str) {
    if let Some(value) = from.remove(key) {
        to.insert(new_key.to_owned(), value);
    }
}

/// Like [`shift`], for a boolean that means the opposite under its other name.
pub(super) fn shift_inverted(
    from: &mut Object,
    key: &str,
    to: &mut Object,
    new_key: &str,
    path: &Path<'_>,
) -> Result<(), WrongType> {
    match from.remove(key) {
        None => {}
        Some(Value::Bool(value)) => {
            to.insert(new_key.to_owned(), Value::Bool(!value));
        }
        Some(Value::Null) => {
            to.insert(new_key.to_owned(), Value::Null);
        }
        Some(other) => return Err(WrongType::new(&path.field(key), "a boolean", &other)),
    }
    Ok(())
}

/// Gives a key of an object another name.
pub(super) fn rename(object: &mut Object, key: &str, new_key: &str) {
    if let Some(value) = object.remove(key) {
        object.insert(new_key.to_owned(), value);
    }
}

/// Like [`rename`], for a boolean that means the opposite under its other name.
pub(super) fn rename_inverted(
    object: &mut Object,
    key: &str,
    new_key: &str,
    path: &Path<'_>,
) -> Result<(), WrongType> {
    match object.remove(key) {
        None => {}
        Some(Value::Bool(value)) => {
            object.insert(new_key.to_owned(), Value::Bool(!value));
        }
        Some(Value::Null) => {
            object.insert(new_key.to_owned(), Value::Null);
        }
        Some(other) => return Err(WrongType::new(&path.field(key), "a boolean", &other)),
    }
    Ok(())
}

/// A value as it is shown in an error: JSON, cut after 120 characters.
pub(super) fn shown(value: &Value) -> String {
    const LIMIT: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(LIMIT) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

//! JSON that is parsed only where a conversion reads it. The rest is copied as text: it is not built as a tree, and its
//! numbers are not rounded. `make bench` compares this with a tree of `serde_json`.

mod deserialize;

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use crate::webhooks::json::{Path, WrongType, type_name};

/// A value.
#[derive(Debug)]
pub(super) enum Node<'a> {
    /// The original text, which is valid JSON and is not parsed.
    Text(&'a str),
    /// A parsed object.
    Object(Object<'a>),
    /// A parsed list.
    List(Vec<Node<'a>>),
    /// A value that the conversion created.
    Made(Value),
}

/// An object: its fields in order. If a name occurs twice, the last one counts.
#[derive(Debug, Default)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, Node<'a>)>);

impl<'a> Node<'a> {
    /// A string that the conversion created.
    pub(super) fn string(text: impl Into<String>) -> Self {
        Self::Made(Value::String(text.into()))
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Text("null") | Self::Made(Value::Null))
    }

    /// Whether the value is the number 0 in its usual notation.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Text(text) => *text == "0",
            Self::Made(value) => value.as_u64() == Some(0),
            _ => false,
        }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Text("true") | Self::Made(Value::Bool(true)) => Some(true),
            Self::Text("false") | Self::Made(Value::Bool(false)) => Some(false),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => text_of(text),
            Self::Made(Value::String(text)) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    /// Parses one level of the value, if it is an object or a list.
    fn parse_level(&mut self) {
        match self {
            Self::Text(text) if text.starts_with('{') => {
                if let Ok(object) = serde_json::from_str(text) {
                    *self = Self::Object(object);
                }
            }
            Self::Text(text) if text.starts_with('[') => {
                if let Ok(list) = serde_json::from_str::<Vec<&'a RawValue>>(text) {
                    *self = Self::List(list.into_iter().map(|raw| Self::Text(raw.get())).collect());
                }
            }
            Self::Made(Value::Object(map)) => {
                let fields = std::mem::take(map).into_iter();
                let made = fields.map(|(key, value)| (Cow::Owned(key), Self::Made(value)));
                *self = Self::Object(Object(made.collect()));
            }
            Self::Made(Value::Array(list)) => {
                let items = std::mem::take(list).into_iter();
                *self = Self::List(items.map(Self::Made).collect());
            }
            _ => {}
        }
    }

    /// The object, or an error that names `path` if the value is not an object.
    pub(super) fn object(&mut self, path: &Path<'_>) -> Result<&mut Object<'a>, WrongType> {
        self.parse_level();
        match self {
            Self::Object(object) => Ok(object),
            other => Err(other.wrong(path, "an object")),
        }
    }

    /// Like [`Node::object`], by value.
    pub(super) fn into_object(mut self, path: &Path<'_>) -> Result<Object<'a>, WrongType> {
        self.parse_level();
        match self {
            Self::Object(object) => Ok(object),
            other => Err(other.wrong(path, "an object")),
        }
    }

    /// The list, or an error that names `path` if the value is not a list.
    pub(super) fn list(&mut self, path: &Path<'_>) -> Result<&mut Vec<Self>, WrongType> {
        self.parse_level();
        match self {
            Self::List(list) => Ok(list),
            other => Err(other.wrong(path, "a list")),
        }
    }

    /// The error of a type other than `expected`.
    pub(super) fn wrong(&self, path: &Path<'_>, expected: &'static str) -> WrongType {
        let found = match self {
            Self::Made(value) => type_name(value),
            Self::Object(_) => "an object",
            Self::List(_) => "a list",
            Self::Text(text) => match text.as_bytes().first() {
                Some(b'{') => "an object",
                Some(b'[') => "a list",
                Some(b'"') => "a string",
                Some(b't' | b'f') => "a boolean",
                Some(b'n') => "null",
                _ => "a number",
            },
        };
        WrongType {
            path: path.to_string(),
            expected,
            found,
        }
    }

    /// Writes the value as JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Object(object) => object.write(out),
            Self::List(list) => {
                out.push(b'[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Made(value) => write_made(value, out),
        }
    }
}

/// Writing to memory fails only for maps whose keys are not strings, and these types have none.
fn write_made<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

/// The string that a JSON text holds, without its escapes.
fn text_of(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(text).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

impl<'a> Object<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node<'a>> {
        let field = self.0.iter().rfind(|(name, _)| name == key);
        field.map(|(_, node)| node)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Node<'a>> {
        let field = self.0.iter_mut().rfind(|(name, _)| name == key);
        field.map(|(_, node)| node)
    }

    /// The string at `key`.
    pub(super) fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)?.as_str()
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether `key` is absent or null.
    pub(super) fn lacks(&self, key: &str) -> bool {
        self.get(key).is_none_or(Node::is_null)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Node<'a>> {
        let last = self.0.iter().rposition(|(name, _)| name == key)?;
        let (_, node) = self.0.remove(last);
        if self.contains(key) {
            self.0.retain(|(name, _)| name != key);
        }
        Some(node)
    }

    pub(super) fn insert(&mut self, key: impl Into<Cow<'a, str>>, node: Node<'a>) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(there) => *there = node,
            None => self.0.push((key, node)),
        }
    }

    pub(super) fn insert_if_absent(&mut self, key: impl Into<Cow<'a, str>>, node: Node<'a>) {
        let key = key.into();
        if !self.contains(&key) {
            self.0.push((key, node));
        }
    }

    /// The fields of the object.
    pub(super) fn into_fields(self) -> impl Iterator<Item = (Cow<'a, str>, Node<'a>)> {
        self.0.into_iter()
    }

    /// The object at `key`, which is `path`. If it is absent or null, an empty one is created.
    pub(super) fn object_at(
        &mut self,
        key: &'static str,
        path: &Path<'_>,
    ) -> Result<&mut Self, WrongType> {
        if self.lacks(key) {
            self.insert(key, Node::Object(Self::default()));
        }
        match self.get_mut(key) {
            Some(node) => node.object(path),
            None => Err(Node::Made(Value::Null).wrong(path, "an object")),
        }
    }

    /// The object at `key`, below `path`; `None` if it is absent or null.
    pub(super) fn object(
        &mut self,
        key: &str,
        path: &Path<'_>,
    ) -> Result<Option<&mut Self>, WrongType> {
        self.child(key, &path.field(key))
    }

    /// The object at `key`, which is `path`; `None` if it is absent or null.
    pub(super) fn child(
        &mut self,
        key: &str,
        path: &Path<'_>,
    ) -> Result<Option<&mut Self>, WrongType> {
        match self.get_mut(key) {
            Some(node) if !node.is_null() => node.object(path).map(Some),
            _ => Ok(None),
        }
    }

    /// The list at `key`; `None` if it is absent or null.
    pub(super) fn list(
        &mut self,
        key: &str,
        path: &Path<'_>,
    ) -> Result<Option<&mut Vec<Node<'a>>>, WrongType> {
        match self.get_mut(key) {
            Some(node) if !node.is_null() => node.list(&path.field(key)).map(Some),
            _ => Ok(None),
        }
    }

    /// Calls `visit` with every object of the list at `key`.
    pub(super) fn each_object(
        &mut self,
        key: &str,
        path: &Path<'_>,
        mut visit: impl FnMut(&mut Self, &Path<'_>) -> Result<(), WrongType>,
    ) -> Result<(), WrongType> {
        let items = self.list(key, path)?;
        let path = path.field(key);
        for (index, item) in items.into_iter().flatten().enumerate() {
            let path = path.index(index);
            visit(item.object(&path)?, &path)?;
        }
        Ok(())
    }

    /// Moves the value at `key` to `new_key` of another object.
    pub(super) fn shift(&mut self, key: &str, to: &mut Self, new_key: &'static str) {
        if let Some(node) = self.remove(key) {
            to.insert(new_key, node);
        }
    }

    /// Like [`Object::shift`], for a boolean that means the opposite under its other name.
    pub(super) fn shift_inverted(
        &mut self,
        key: &str,
        to: &mut Self,
        new_key: &'static str,
        path: &Path<'_>,
    ) -> Result<(), WrongType> {
        if let Some(node) = self.remove(key) {
            to.insert(new_key, inverted(node, &path.field(key))?);
        }
        Ok(())
    }

    /// Gives a key another name.
    pub(super) fn rename(&mut self, key: &str, new_key: &'static str) {
        if let Some(node) = self.remove(key) {
            self.insert(new_key, node);
        }
    }

    /// Like [`Object::rename`], for a boolean that means the opposite under its other name.
    pub(super) fn rename_inverted(
        &mut self,
        key: &str,
        new_key: &'static str,
        path: &Path<'_>,
    ) -> Result<(), WrongType> {
        if let Some(node) = self.remove(key) {
            self.insert(new_key, inverted(node, &path.field(key))?);
        }
        Ok(())
    }

    /// Writes the object as JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (key, node)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_made(key.as_ref(), out);
            out.push(b':');
            node.write(out);
        }
        out.push(b'}');
    }
}

fn inverted<'a>(node: Node<'a>, path: &Path<'_>) -> Result<Node<'a>, WrongType> {
    match node.as_bool() {
        Some(true) => Ok(Node::Text("false")),
        Some(false) => Ok(Node::Text("true")),
        None if node.is_null() => Ok(node),
        None => Err(node.wrong(path, "a boolean")),
    }
}

impl<'a, K: Into<Cow<'a, str>>> FromIterator<(K, Node<'a>)> for Object<'a> {
    fn from_iter<T: IntoIterator<Item = (K, Node<'a>)>>(fields: T) -> Self {
        let fields = fields.into_iter();
        Self(fields.map(|(key, node)| (key.into(), node)).collect())
    }
}

//! Fields with their attributes, from a file of facts and from a schema.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

pub(super) type Attributes = BTreeMap<String, String>;
pub(super) type Fields = BTreeMap<String, Attributes>;

pub(super) struct Facts {
    pub(super) head: BTreeMap<String, String>,
    pub(super) kind: String,
    pub(super) columns: Vec<(String, String, String)>,
    pub(super) fields: Fields,
}

const KEYS: &[&str] = &[
    "required",
    "default",
    "enum",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "format",
    "nullable",
    "list-type",
    "map-type",
    "keys",
    "rules",
    "int-or-string",
];

fn attributes(text: &str) -> Attributes {
    let mut found = Attributes::new();
    let mut last: Option<String> = None;
    for word in text.split(' ') {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if KEYS.contains(&key) {
            found.insert(key.to_owned(), value.to_owned());
            last = Some(key.to_owned());
        } else if let Some(last) = &last {
            // A blank inside a value, such as in a pattern.
            let value = found.get_mut(last).unwrap();
            *value = format!("{value} {word}");
        } else {
            assert!(word.is_empty(), "unknown attribute {word}");
        }
    }
    found
}

pub(super) fn read(path: &Path) -> Facts {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let mut words = lines.next().unwrap().trim_start_matches("# ").split(' ');
    let kind = words.next().unwrap().to_owned();
    let mut head = BTreeMap::from([("version".to_owned(), words.next().unwrap().to_owned())]);
    head.extend(words.map(|word| {
        let (key, value) = word.split_once('=').unwrap();
        (key.to_owned(), value.to_owned())
    }));
    let mut facts = Facts {
        head,
        kind,
        columns: Vec::new(),
        fields: Fields::new(),
    };
    for line in lines {
        if let Some(column) = line.strip_prefix("# column: ") {
            let (column, _priority) = column.rsplit_once(' ').unwrap();
            let (column, path) = column.rsplit_once(' ').unwrap();
            let (name, kind) = column.rsplit_once(' ').unwrap();
            facts
                .columns
                .push((name.to_owned(), kind.to_owned(), path.to_owned()));
            continue;
        }
        let mut parts = line.splitn(3, '\t');
        let (path, kind) = (parts.next().unwrap(), parts.next().unwrap());
        let mut field = attributes(parts.next().unwrap_or(""));
        field.insert("type".to_owned(), kind.to_owned());
        facts.fields.insert(path.to_owned(), normal(field));
    }
    facts
}

/// Different notations of the same meaning become equal: a list is replaced as a whole unless the schema sets another
/// type, integers have 64 bits unless the schema sets another format, and a field with a default is never missing.
fn normal(mut field: Attributes) -> Attributes {
    if field.get("list-type").is_some_and(|kind| kind == "atomic") {
        field.remove("list-type");
    }
    if field.get("format").is_some_and(|format| format == "int64") {
        field.remove("format");
    }
    if field.contains_key("default") {
        field.remove("required");
    }
    field
}

pub(super) fn flatten(path: &str, schema: &Value, required: bool, fields: &mut Fields) {
    let text = |value: &Value| match value {
        Value::String(text) if text.is_empty() => "''".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let list = |value: &Value| {
        let items = value.as_array().unwrap();
        items.iter().map(text).collect::<Vec<_>>().join("|")
    };
    let mut field = Attributes::new();
    field.insert(
        "type".to_owned(),
        schema["type"].as_str().unwrap_or("any").to_owned(),
    );
    if required {
        field.insert("required".to_owned(), String::new());
    }
    for (key, value) in schema.as_object().unwrap() {
        let (name, value) = match key.as_str() {
            "enum" => ("enum", list(value)),
            "x-kubernetes-list-map-keys" => ("keys", list(value).replace('|', ",")),
            "x-kubernetes-list-type" => ("list-type", text(value)),
            "x-kubernetes-map-type" => ("map-type", text(value)),
            "x-kubernetes-validations" => ("rules", value.as_array().unwrap().len().to_string()),
            "x-kubernetes-int-or-string" => ("int-or-string", "True".to_owned()),
            "minimum" | "maximum" => (key.as_str(), value.as_f64().unwrap().to_string()),
            other if KEYS.contains(&other) && other != "required" => (other, text(value)),
            _ => continue,
        };
        field.insert(name.to_owned(), value);
    }
    let required_names: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !path.is_empty() {
        fields.insert(path.to_owned(), normal(field));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if path.is_empty() && !["spec", "status"].contains(&name.as_str()) {
            continue;
        }
        let inner = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        flatten(
            &inner,
            property,
            required_names.contains(name.as_str()),
            fields,
        );
    }
    if schema["items"].is_object() {
        flatten(&format!("{path}[]"), &schema["items"], false, fields);
    }
    if schema["additionalProperties"].is_object() {
        flatten(
            &format!("{path}{{}}"),
            &schema["additionalProperties"],
            false,
            fields,
        );
    }
}

/// A schema that accepts every object that either of two schemas accepts.
pub(super) fn either(one: &Fields, other: &Fields) -> Fields {
    let mut all = Fields::new();
    for path in one.keys().chain(other.keys()) {
        let field = match (one.get(path), other.get(path)) {
            (Some(one), Some(other)) => one
                .iter()
                .filter_map(|(key, value)| {
                    let second = other.get(key);
                    let number = |text: &str| text.parse::<f64>().unwrap();
                    match key.as_str() {
                        "default" => Some((key.clone(), value.clone())),
                        "maxLength" | "maximum" => second.map(|second| {
                            (key.clone(), number(value).max(number(second)).to_string())
                        }),
                        _ if second == Some(value) => Some((key.clone(), value.clone())),
                        _ => None,
                    }
                })
                .collect(),
            (Some(field), None) | (None, Some(field)) => {
                let mut field = field.clone();
                field.remove("required");
                field
            }
            (None, None) => continue,
        };
        all.insert(path.clone(), field);
    }
    all
}

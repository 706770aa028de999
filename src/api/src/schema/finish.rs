//! Turns the schemas that schemars generates into schemas that Kubernetes accepts.

use serde_json::{Map, Value};

use super::{API_DEFAULT, Form, SINCE_V1BETA2};

/// Turns a schema that schemars generated into one that Kubernetes accepts: without null and references, with the
/// defaults of the API alone, and with the bounds of `form`.
pub(crate) fn finish(schema: &mut Value, form: Form) {
    let Value::Object(node) = schema else { return };
    unwrap_option(node);
    for keyword in ["$schema", "title", "nullable", "default"] {
        node.remove(keyword);
    }
    if let Some(Value::String(format)) = node.get("format")
        && format.starts_with("uint")
    {
        node.remove("format");
    }
    if let Some(restriction) = node.remove(SINCE_V1BETA2)
        && form == Form::V1Beta2
    {
        merge_into(node, restriction);
    }
    if let Some(value) = node.remove(API_DEFAULT) {
        node.insert("default".into(), value);
    }
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = reflow(description);
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        for property in properties.values_mut() {
            finish(property, form);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = node.get_mut(keyword) {
            finish(inner, form);
        }
    }
    drop_required_with_default(node);
}

/// A property with a default is never missing, so it is not required.
fn drop_required_with_default(node: &mut Map<String, Value>) {
    let Some(Value::Array(mut required)) = node.remove("required") else {
        return;
    };
    if let Some(Value::Object(properties)) = node.get("properties") {
        required.retain(|name| {
            name.as_str()
                .and_then(|name| properties.get(name))
                .is_none_or(|property| property.get("default").is_none())
        });
    }
    if !required.is_empty() {
        node.insert("required".into(), Value::Array(required));
    }
}

/// Replaces the choice between a type and null, which schemars writes for an `Option`, by the type.
fn unwrap_option(node: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = node.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [kind] = types.as_slice() {
            let kind = kind.clone();
            node.insert("type".into(), kind);
        }
    }
    if let Some(Value::Array(words)) = node.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    let is_option = matches!(
        node.get("anyOf"),
        Some(Value::Array(choices)) if choices.iter().any(|choice| choice["type"] == "null")
    );
    if !is_option {
        return;
    }
    let Some(Value::Array(choices)) = node.remove("anyOf") else {
        return;
    };
    let own = std::mem::take(node);
    for choice in choices {
        if choice["type"] != "null" {
            merge_into(node, choice);
        }
    }
    merge_into(node, Value::Object(own));
}

pub(super) fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => merge_into(into, Value::Object(from)),
        (into, from) => *into = from,
    }
}

fn merge_into(into: &mut Map<String, Value>, from: Value) {
    let Value::Object(from) = from else { return };
    for (key, value) in from {
        match into.get_mut(&key) {
            Some(present) => merge(present, value),
            None => {
                into.insert(key, value);
            }
        }
    }
}

/// Lines of a doc comment joined to paragraphs, without the marks of code.
fn reflow(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n\n")
        .replace('`', "")
}

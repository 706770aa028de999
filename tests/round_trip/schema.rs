//! Objects made from a CRD's schema, and objects held against one.
//!
//! The bytes that a property test draws decide about every field. So a failing case shrinks: fewer and
//! smaller bytes make smaller objects.

use std::sync::LazyLock;

use capo_api::{ConversionTarget, crds};
use serde_json::{Map, Value, json};

/// The schema of one version of one kind.
pub(crate) fn of(kind: &str, version: &str) -> &'static Value {
    static ALL: LazyLock<Vec<(String, String, Value)>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for crd in crds(&ConversionTarget::Unconverted).unwrap() {
            for version in crd.spec.versions {
                let schema = version.schema.unwrap().open_api_v3_schema.unwrap();
                let schema = serde_json::to_value(schema).unwrap();
                all.push((crd.spec.names.kind.clone(), version.name, schema));
            }
        }
        all
    });
    ALL.iter()
        .find(|(of_kind, of_version, _)| of_kind == kind && of_version == version)
        .map(|(_, _, schema)| schema)
        .unwrap()
}

/// Bytes to decide by; zeros once they are used up.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

const UUIDS: [&str; 2] = [
    "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d",
    "00000000-0000-4000-8000-000000000000",
];
const TIMES: [&str; 2] = ["2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z"];
const WORDS: [&str; 6] = [
    "a",
    "m1.small",
    "Ready",
    "NoReason",
    "ü\u{1f600}\u{0}",
    "APIServerIngressReady",
];

/// A whole object of that kind and version.
pub(crate) fn object(kind: &str, version: &str, choices: &mut Choices<'_>) -> Value {
    let mut object = value(of(kind, version), choices);
    object["apiVersion"] = json!(format!("infrastructure.cluster.x-k8s.io/{version}"));
    object["kind"] = json!(kind);
    object["metadata"] = match choices.below(3) {
        0 => json!({"name": "x", "namespace": "y"}),
        1 => json!({"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}),
        _ => json!({"name": "x", "generation": 7}),
    };
    object
}

fn value(schema: &Value, choices: &mut Choices<'_>) -> Value {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return choices.pick(&[json!("16Gi"), json!(4)]).clone();
    }
    match schema["type"].as_str().unwrap() {
        "object" => object_of(schema, choices),
        "array" => list(schema, choices),
        "string" => Value::from(text(schema, choices)),
        "integer" => integer(schema, choices),
        "boolean" => Value::from(choices.below(2) == 1),
        other => panic!("a schema of type {other}"),
    }
}

fn object_of(schema: &Value, choices: &mut Choices<'_>) -> Value {
    let mut object = Map::new();
    if let Some(values) = schema.get("additionalProperties") {
        for _ in 0..choices.below(3) {
            let key = (*choices.pick(&["a", "b.c/d", "e"])).to_owned();
            object.insert(key, value(values, choices));
        }
    }
    let Some(properties) = schema["properties"].as_object() else {
        return Value::Object(object);
    };
    let names: Vec<&String> = properties.keys().collect();
    if schema["maxProperties"] == json!(1) {
        let name = *choices.pick(&names);
        object.insert(name.clone(), value(&properties[name], choices));
        return Value::Object(object);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in properties {
        if required.contains(&json!(name)) || choices.below(3) == 1 {
            object.insert(name.clone(), value(property, choices));
        }
    }
    if schema["minProperties"] == json!(1) && object.is_empty() {
        let name = *choices.pick(&names);
        object.insert(name.clone(), value(&properties[name], choices));
    }
    Value::Object(object)
}

fn list(schema: &Value, choices: &mut Choices<'_>) -> Value {
    let length = choices.below(4).min(
        schema["maxItems"]
            .as_u64()
            .map_or(4, |max| usize::try_from(max).unwrap()),
    );
    let mut list: Vec<Value> = (0..length)
        .map(|_| value(&schema["items"], choices))
        .collect();
    let keys: Vec<String> =
        serde_json::from_value(schema["x-kubernetes-list-map-keys"].clone()).unwrap_or_default();
    let key = |item: &Value| -> Vec<Value> { keys.iter().map(|key| item[key].clone()).collect() };
    let mut kept: Vec<Value> = Vec::new();
    for item in list.drain(..) {
        let twice = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => kept.contains(&item),
            Some("map") => kept.iter().any(|other| key(other) == key(&item)),
            _ => false,
        };
        if !twice {
            kept.push(item);
        }
    }
    Value::Array(kept)
}

fn text(schema: &Value, choices: &mut Choices<'_>) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return choices.pick(words).as_str().unwrap().to_owned();
    }
    match schema["format"].as_str() {
        Some("uuid") => return (*choices.pick(&UUIDS)).to_owned(),
        Some("date-time") => return (*choices.pick(&TIMES)).to_owned(),
        Some("ipv4") => return "203.0.113.5".to_owned(),
        _ => {}
    }
    let least = schema["minLength"].as_u64().unwrap_or(0);
    // Patterns forbid commas, spaces, or all but the letters of a condition's type and reason.
    let free = schema.get("pattern").is_none();
    match choices.below(8) {
        0 if least == 0 && free => String::new(),
        0 | 1 => (*choices.pick(&WORDS[..4])).to_owned(),
        2 if free => (*choices.pick(&WORDS)).to_owned(),
        3 => "x"
            .repeat(usize::try_from(schema["maxLength"].as_u64().unwrap_or(60).min(300)).unwrap()),
        _ => format!("w{}", choices.byte()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a bound beyond an i64 becomes the largest or smallest i64"
)]
fn integer(schema: &Value, choices: &mut Choices<'_>) -> Value {
    let (low, high) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    // Bounds are numbers with a point in the CRD's own type.
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    let (low, high) = (
        bound("minimum").unwrap_or(low),
        bound("maximum").unwrap_or(high),
    );
    let near = low.saturating_add(i64::from(choices.byte())).min(high);
    Value::from(*choices.pick(&[near, low, high, 0.clamp(low, high)]))
}

/// What `value` has that its schema does not allow: other types, unknown fields, missing fields, bounds.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    compare(schema, value, "", &mut faults);
    faults
}

fn compare(schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return;
    }
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if schema["type"] != found {
        faults.push(format!("{path}: {found} instead of {}", schema["type"]));
        return;
    }
    match value {
        Value::Object(object) => {
            let count = object.len() as u64;
            if schema["minProperties"]
                .as_u64()
                .is_some_and(|min| count < min)
                || schema["maxProperties"]
                    .as_u64()
                    .is_some_and(|max| count > max)
            {
                faults.push(format!("{path}: {count} properties"));
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                if !object.contains_key(name.as_str().unwrap()) {
                    faults.push(format!("{path}: {name} is missing"));
                }
            }
            for (key, value) in object {
                let of_key = schema["properties"]
                    .get(key)
                    .or_else(|| schema.get("additionalProperties"));
                match of_key {
                    Some(schema) => compare(schema, value, &format!("{path}.{key}"), faults),
                    None if path == ".metadata" => {}
                    None => faults.push(format!("{path}.{key}: not in the schema")),
                }
            }
        }
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                compare(&schema["items"], item, &format!("{path}[{index}]"), faults);
            }
        }
        Value::String(text) => {
            let length = text.chars().count() as u64;
            if schema["minLength"].as_u64().is_some_and(|min| length < min)
                || schema["maxLength"].as_u64().is_some_and(|max| length > max)
            {
                faults.push(format!("{path}: {length} characters"));
            }
            if schema["enum"]
                .as_array()
                .is_some_and(|words| !words.contains(value))
            {
                faults.push(format!("{path}: {text:?} is not one of {}", schema["enum"]));
            }
        }
        _ => {}
    }
}

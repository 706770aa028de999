//! Objects with every field that their schema has.

use capo_api::{ConversionTarget, GROUP, crds};
use serde_json::{Map, Value, json};

/// An object with every field, except that it has only one choice of each union.
pub struct Full {
    pub kind: String,
    pub version: String,
    pub object: Value,
}

/// For every kind and version, as many objects as its widest union has choices.
pub fn objects() -> Vec<Full> {
    let mut all = Vec::new();
    for definition in crds(&ConversionTarget::default()).unwrap() {
        for version in definition.spec.versions {
            let kind = definition.spec.names.kind.clone();
            let schema = serde_json::to_value(version.schema).unwrap();
            for choice in 0..3 {
                let properties = &schema["openAPIV3Schema"]["properties"];
                let mut object = json!({
                    "apiVersion": format!("{GROUP}/{}", version.name),
                    "kind": kind,
                    "metadata": {"name": format!("full-{}-{choice}", version.name)},
                    "spec": sample(&properties["spec"], "spec", choice),
                });
                if properties["status"].is_object() {
                    object["status"] = sample(&properties["status"], "status", choice);
                }
                all.push(Full {
                    kind: kind.clone(),
                    version: version.name.clone(),
                    object,
                });
            }
        }
    }
    all
}

fn sample(schema: &Value, name: &str, choice: usize) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1");
    }
    match schema["type"].as_str() {
        // Without an external network, many other fields would not be allowed.
        Some("boolean") => json!(name != "disableExternalNetwork"),
        Some("integer") => json!(schema["minimum"].as_f64().map_or(1, |least| {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the minimum of an integer is an integer"
            )]
            let least = least as i64;
            least.max(1)
        })),
        Some("string") => match schema["format"].as_str() {
            Some("uuid") => json!("6d3b1a0e-52a5-4b6c-9f4c-0a5a6f5e9d11"),
            Some("ipv4") => json!("192.0.2.7"),
            Some("date-time") => json!("2026-01-01T00:00:00Z"),
            _ => json!(name),
        },
        Some("array") => json!([sample(&schema["items"], name, choice)]),
        Some("object") => object(schema, choice),
        other => panic!("{name} is of type {other:?}"),
    }
}

fn object(schema: &Value, choice: usize) -> Value {
    let Some(properties) = schema["properties"].as_object() else {
        return json!({"key": sample(&schema["additionalProperties"], "value", choice)});
    };
    let is_hint = properties.contains_key("number") && properties.contains_key("bool");
    let is_union = schema["maxProperties"] == 1.0;
    let chosen = choice % properties.len();
    let fields: Map<String, Value> = properties
        .iter()
        .enumerate()
        .filter(|(index, _)| !is_union || *index == chosen)
        // A server is in one group only.
        .filter(|(_, (name, _))| *name != "serverGroup" || choice > 0)
        .filter(|(_, (name, _))| *name != "managedServerGroup" || choice == 0)
        // The first type of a hint is Bool.
        .filter(|(_, (name, _))| !is_hint || ["type", "bool"].contains(&name.as_str()))
        .map(|(_, (name, property))| (name.clone(), sample(property, name, choice)))
        .collect();
    Value::Object(fields)
}

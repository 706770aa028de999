//! What a Rust type can't say of a field: list types, bounds of one version only, defaults, rules.
//!
//! The functions are used as `#[schemars(transform = schema::…)]` beside the field or type they
//! restrict. [`finish`] then makes a schema of one API version that Kubernetes takes.

use schemars::{Schema, SchemaGenerator, json_schema, transform::Transform};
use serde_json::{Map, Value, json};

/// Bounds that hold from v1beta2 on. CAPO's v1beta1 and v1alpha1 know them not, and objects with
/// longer or emptier values are stored.
const SINCE_V1BETA2: &str = "x-since-v1beta2";

/// A default that is part of the API, unlike those that Rust needs to read old objects.
const API_DEFAULT: &str = "x-default";

const RULES: &str = "x-kubernetes-validations";

/// Which form of the shared types an API version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// v1beta1 and v1alpha1, as CAPO up to 0.14 stores them.
    Stored,
    /// v1beta2.
    V1Beta2,
}

/// A list without duplicates.
pub(crate) fn set(property: &mut Schema) {
    property.insert("x-kubernetes-list-type".into(), json!("set"));
}

/// A list that is replaced as a whole.
pub(crate) fn atomic(property: &mut Schema) {
    property.insert("x-kubernetes-list-type".into(), json!("atomic"));
}

/// An object that is replaced as a whole.
pub(crate) fn atomic_map(property: &mut Schema) {
    property.insert("x-kubernetes-map-type".into(), json!("atomic"));
}

/// A list whose entries are told apart by one of their fields.
pub(crate) fn map_by(key: &'static str) -> impl Transform {
    move |property: &mut Schema| map_by_keys(property, &[key])
}

/// The list of members: one entry for each machine and port.
pub(crate) fn map_by_machine_and_port(property: &mut Schema) {
    map_by_keys(property, &["machine", "port"]);
}

fn map_by_keys(property: &mut Schema, keys: &[&str]) {
    property.insert("x-kubernetes-list-type".into(), json!("map"));
    property.insert("x-kubernetes-list-map-keys".into(), json!(keys));
}

/// An object with exactly one of its fields set.
pub(crate) fn one_choice(object: &mut Schema) {
    object.insert("minProperties".into(), json!(1));
    object.insert("maxProperties".into(), json!(1));
}

/// An object with at least one of its fields set.
pub(crate) fn at_least_one(object: &mut Schema) {
    object.insert("minProperties".into(), json!(1));
}

/// A text that is not empty.
pub(crate) fn non_empty(property: &mut Schema) {
    property.insert("minLength".into(), json!(1));
}

/// A TCP port.
pub(crate) fn port(property: &mut Schema) {
    property.insert("minimum".into(), json!(1));
    property.insert("maximum".into(), json!(65535));
}

/// One of the given words.
pub(crate) fn one_of(words: &'static [&'static str]) -> impl Fn(&mut Schema) {
    move |property| {
        property.insert("enum".into(), json!(words));
    }
}

/// An OpenStack id.
pub(crate) fn uuid(property: &mut Schema) {
    property.insert("format".into(), json!("uuid"));
}

/// An IPv4 address.
pub(crate) fn ipv4(property: &mut Schema) {
    property.insert("format".into(), json!("ipv4"));
}

/// A number of 32 bits. The Rust type has 64 so that no number that is stored is unreadable.
pub(crate) fn int32(property: &mut Schema) {
    property.insert("format".into(), json!("int32"));
}

/// Numbers of 32 bits.
pub(crate) fn int32_items(property: &mut Schema) {
    property.insert("items".into(), json!({"format": "int32"}));
}

/// Neutron tags: a set of texts without a comma.
pub(crate) fn tags(property: &mut Schema) {
    set(property);
    property.insert(
        "items".into(),
        json!({"type": "string", "minLength": 1, "pattern": "^[^,]+$"}),
    );
}

/// The generation a status belongs to: -1 in an object no controller has looked at.
pub(crate) fn observed_generation(property: &mut Schema) {
    property.insert("minimum".into(), json!(-1));
}

/// A default that is part of the API.
pub(crate) fn default_to(value: impl Into<Value>) -> impl Transform {
    let value = value.into();
    move |property: &mut Schema| {
        property.insert(API_DEFAULT.into(), value.clone());
    }
}

/// A list that is there even when empty.
pub(crate) fn default_to_list(property: &mut Schema) {
    property.insert(API_DEFAULT.into(), json!([]));
}

/// A restriction that holds from v1beta2 on.
pub(crate) fn since_v1beta2(restrict: impl Fn(&mut Schema)) -> impl Transform {
    move |property: &mut Schema| {
        let mut restriction = Schema::default();
        restrict(&mut restriction);
        let kept = property
            .ensure_object()
            .entry(SINCE_V1BETA2)
            .or_insert_with(|| json!({}));
        merge(kept, restriction.to_value());
    }
}

/// A CEL rule and what is said when it is broken.
pub(crate) fn rule(expression: &'static str, message: &'static str) -> impl Transform {
    move |object: &mut Schema| {
        let rule = json!({"rule": expression, "message": message});
        if let Some(Value::Array(rules)) = object.get_mut(RULES) {
            rules.push(rule);
        } else {
            object.insert(RULES.into(), json!([rule]));
        }
    }
}

/// Conditions in the form of Kubernetes.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    let mut list = json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One thing that is true of the object or not.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "What it is about.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"]
                },
                "reason": {
                    "description": "Why, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "message": {
                    "description": "Why, for people.",
                    "type": "string",
                    "maxLength": 32768
                },
                "lastTransitionTime": {
                    "description": "When status last changed.",
                    "type": "string",
                    "format": "date-time"
                },
                "observedGeneration": {
                    "description": "Generation of the object the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                }
            }
        }
    });
    map_by_keys(&mut list, &["type"]);
    list
}

/// Conditions in the form of Kubernetes, or in that of Cluster API v1beta1 which CAPO up to 0.14 stores.
pub(crate) fn conditions_of_either_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One thing that is true of the object or not.",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "type": {
                    "description": "What it is about.",
                    "type": "string",
                    "maxLength": 316
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string"
                },
                "severity": {
                    "description": "How grave it is when False. Not set any more.",
                    "type": "string",
                    "maxLength": 32
                },
                "reason": {
                    "description": "Why, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024
                },
                "message": {
                    "description": "Why, for people.",
                    "type": "string",
                    "maxLength": 32768
                },
                "lastTransitionTime": {
                    "description": "When status last changed.",
                    "type": "string",
                    "format": "date-time"
                },
                "observedGeneration": {
                    "description": "Generation of the object the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                }
            }
        }
    })
}

/// Amounts of resources by name.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"
        }
    })
}

/// A choice of objects by their labels.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that must have these values.",
                "type": "object",
                "additionalProperties": {"type": "string"}
            },
            "matchExpressions": {
                "description": "Further requirements on labels. All of them must hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "description": "A requirement on one label.",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"description": "Name of the label.", "type": "string"},
                        "operator": {"description": "In, NotIn, Exists or DoesNotExist.", "type": "string"},
                        "values": {
                            "description": "Values for In and NotIn.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string"}
                        }
                    }
                }
            }
        }
    })
}

/// Makes a schema that Kubernetes takes out of one that schemars generated: no null, no reference, no
/// default but those of the API, and the bounds of `form`.
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

/// A property with a default is never missing, so nobody is required to give it.
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

/// schemars writes an `Option` as a choice between the type and null.
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

fn merge(into: &mut Value, from: Value) {
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

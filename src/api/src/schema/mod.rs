//! What a Rust type can't express about a field: list types, bounds of one version only, defaults, rules.
//!
//! The functions are used as `#[schemars(transform = schema::…)]` beside the field or type they restrict. [`finish()`]
//! then turns the result into a schema of one API version that Kubernetes accepts.

mod finish;
mod kubernetes;

use schemars::{Schema, transform::Transform};
use serde_json::{Value, json};

pub(super) use finish::finish;
pub(super) use kubernetes::{conditions, conditions_of_either_form, label_selector, quantities};

/// Bounds that hold from v1beta2 on. CAPO's v1beta1 and v1alpha1 do not have them, so stored objects may have longer or
/// empty values.
const SINCE_V1BETA2: &str = "x-since-v1beta2";

/// A default that is part of the API, unlike those that Rust needs to read old objects.
const API_DEFAULT: &str = "x-default";

const RULES: &str = "x-kubernetes-validations";

/// The form of the shared types in an API version.
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

/// A list whose entries differ in one of their fields.
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

/// A string that is not empty.
pub(crate) fn non_empty(property: &mut Schema) {
    property.insert("minLength".into(), json!(1));
}

/// A TCP port.
pub(crate) fn port(property: &mut Schema) {
    property.insert("minimum".into(), json!(1));
    property.insert("maximum".into(), json!(65535));
}

/// One of the given strings.
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

/// A number of 32 bits. The Rust type has 64 bits so that every stored number can be read.
pub(crate) fn int32(property: &mut Schema) {
    property.insert("format".into(), json!("int32"));
}

/// Numbers of 32 bits.
pub(crate) fn int32_items(property: &mut Schema) {
    property.insert("items".into(), json!({"format": "int32"}));
}

/// Neutron tags: a set of strings without commas.
pub(crate) fn tags(property: &mut Schema) {
    set(property);
    property.insert(
        "items".into(),
        json!({"type": "string", "minLength": 1, "pattern": "^[^,]+$"}),
    );
}

/// The generation to which a status belongs: -1 in an object that no controller has reconciled.
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

/// A list that is present even when it is empty.
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
        finish::merge(kept, restriction.to_value());
    }
}

/// A CEL rule and the message of a violation.
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

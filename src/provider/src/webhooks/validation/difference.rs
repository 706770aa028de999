//! Where two JSON trees differ.

use serde_json::Value;

static NOTHING: Value = Value::Null;

/// One place in which two trees differ. `Null` stands for an absent value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Difference<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
}

/// Objects that v1beta1 does not have. In v1beta1 their fields appear and disappear one by one, so each field is
/// compared by itself.
const WRAPPERS: [&str; 3] = [".apiServer", ".managedNetwork", ".managedRouter"];

/// Calls `report` with the path and both sides of every difference. The path is the deepest one if lists keep their
/// length. Absent values, null, empty lists and empty objects are equal.
pub(super) fn differences<'a>(
    path: &str,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    report: &mut dyn FnMut(&str, Difference<'a>),
) {
    let (old, new) = (old.unwrap_or(&NOTHING), new.unwrap_or(&NOTHING));
    match (old, new) {
        _ if old == new || (is_nothing(old) && is_nothing(new)) => {}
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                differences(
                    &format!("{path}.{key}"),
                    Some(value),
                    after.get(key),
                    report,
                );
            }
            for (key, value) in after {
                if !before.contains_key(key) {
                    differences(&format!("{path}.{key}"), None, Some(value), report);
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                differences(
                    &format!("{path}[{index}]"),
                    Some(before),
                    Some(after),
                    report,
                );
            }
        }
        (Value::Null, Value::Object(fields)) if is_wrapper(path) => {
            for (key, value) in fields {
                differences(&format!("{path}.{key}"), None, Some(value), report);
            }
        }
        (Value::Object(fields), Value::Null) if is_wrapper(path) => {
            for (key, value) in fields {
                differences(&format!("{path}.{key}"), Some(value), None, report);
            }
        }
        _ => report(path, Difference { old, new }),
    }
}

fn is_wrapper(path: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| path.ends_with(wrapper))
}

/// Whether the value is absent, empty, or contains only such values.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.values().all(is_nothing),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

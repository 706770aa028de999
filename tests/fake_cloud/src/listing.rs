//! The common parts of lists: filters, tag filters, sorting, paging and field selection over JSON rows.

use std::cmp::Ordering;

use serde_json::Value;

use crate::wire::{Row, strings, truthy};

/// Query keys that never name an attribute.
pub(crate) const AUXILIARY: [&str; 8] = [
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "sort",
    "page_reverse",
    "fields",
    "all_tenants",
];

/// The four tag filters.
pub(crate) const TAG_FILTERS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// Whether a JSON value equals a query value.
pub(crate) fn equals(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Bool(flag) => truthy(wanted) == *flag,
        Value::Number(number) => number.to_string() == wanted,
        Value::Null => wanted.is_empty() || wanted == "null" || wanted == "None",
        Value::Array(values) => values.iter().any(|value| equals(value, wanted)),
        Value::Object(_) => false,
    }
}

/// Whether a row passes a tag filter; `None` when `key` is none of the four.
pub(crate) fn tags_match(row: &Row, key: &str, wanted: &str) -> Option<bool> {
    let tags = strings(row, "tags");
    let mut wanted = wanted.split(',').map(str::to_owned);
    Some(match key {
        "tags" => wanted.all(|tag| tags.contains(&tag)),
        "tags-any" => wanted.any(|tag| tags.contains(&tag)),
        "not-tags" => !wanted.all(|tag| tags.contains(&tag)),
        "not-tags-any" => !wanted.any(|tag| tags.contains(&tag)),
        _ => return None,
    })
}

/// Compares two JSON scalars for sorting.
pub(crate) fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => left
            .as_f64()
            .partial_cmp(&right.as_f64())
            .unwrap_or(Ordering::Equal),
        (left, right) => {
            let show = |value: Option<&Value>| match value {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                Some(other) => other.to_string(),
            };
            show(left).cmp(&show(right))
        }
    }
}

/// Keeps only the named fields; without names, all.
pub(crate) fn select(row: &mut Row, query: &[(String, String)]) {
    let wanted: Vec<&str> = query
        .iter()
        .filter(|(key, _)| key == "fields")
        .map(|(_, value)| value.as_str())
        .collect();
    if !wanted.is_empty() {
        row.retain(|key, _| wanted.contains(&key.as_str()));
    }
}

/// Encodes a query value for a link.
pub(crate) fn encode(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

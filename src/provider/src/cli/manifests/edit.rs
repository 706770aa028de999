//! Changes of single documents. Documents that are not changed are printed as they are in `deploy/`, with their
//! comments.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::ManifestError;

/// The annotation by which cert-manager fills in the certificate authority.
const INJECT: &str = "cert-manager.io/inject-ca-from";

/// Applies `change` to the document of this kind and name.
pub(super) fn edit(
    documents: &mut [String],
    kind: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<(), ManifestError> {
    let (kind, name) = (format!("\nkind: {kind}\n"), format!("\n  name: {name}\n"));
    let found = documents
        .iter_mut()
        .find(|text| text.contains(&kind) && text.contains(&name));
    if let Some(text) = found {
        let mut value: Value = serde_saphyr::from_str(text)?;
        change(&mut value);
        *text = written(&value)?;
    }
    Ok(())
}

/// A document as YAML.
pub(super) fn written(value: &Value) -> Result<String, ManifestError> {
    let mut text = serde_saphyr::to_string(value)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Sets `key` in the object at `path`.
pub(super) fn insert(value: &mut Value, path: &[&str], key: &str, new: Value) {
    let mut object = value;
    for step in path {
        object = &mut object[*step];
    }
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    object[key] = new;
}

/// Appends to the list at `key` of `value`.
pub(super) fn append(value: &mut Value, key: &str, more: impl IntoIterator<Item = Value>) {
    if let Some(list) = value[key].as_array_mut() {
        list.extend(more);
    }
}

/// Makes the API server trust webhook certificates that this authority, in PEM, has signed.
pub(super) fn trust(documents: &mut [String], authority: &str) -> Result<(), ManifestError> {
    let bundle = Value::from(STANDARD.encode(authority));
    edit(
        documents,
        "ValidatingWebhookConfiguration",
        "capo-validating-webhook-configuration",
        |configuration| {
            if let Some(annotations) = configuration["metadata"]["annotations"].as_object_mut() {
                annotations.remove(INJECT);
            }
            let webhooks = configuration["webhooks"].as_array_mut();
            for webhook in webhooks.into_iter().flatten() {
                insert(webhook, &["clientConfig"], "caBundle", bundle.clone());
            }
        },
    )
}

//! The few fields that the other version can't hold, kept in one small annotation.
//!
//! An entry is bound to the field's content in the version that can't hold it. If that content was edited since, the
//! entry no longer applies and is dropped. Unlike a copy of the whole object, an entry therefore can't restore old
//! content.

use serde_json::{Map, Value};

use super::{
    Version,
    lazy_json::{Node, Object},
};
use crate::webhooks::json::{Path, WrongType};
use capo_api::CAPO_STASH;

/// Annotation of a v1beta2 object: fields that only v1beta1 has, as JSON from path to value.
pub const V1BETA1_FIELDS: &str = "infrastructure.cluster.x-k8s.io/v1beta1-fields";

/// Annotation of a v1beta1 object: fields that only v1beta2 has, as JSON from path to value.
pub const V1BETA2_FIELDS: &str = "infrastructure.cluster.x-k8s.io/v1beta2-fields";

/// The fields that were kept for the version converted to, and those to keep for the version converted from.
pub(super) struct KeptFields<'a> {
    /// Fields of the version converted to.
    found: Map<String, Value>,
    /// CAPO's copy, in the version converted to.
    capo_copy: Option<Value>,
    /// Fields of the version converted from.
    leftover: Object<'a>,
    annotation: &'static str,
}

impl<'a> KeptFields<'a> {
    /// Removes the annotations from `object`, which is being converted from `from`. Content that can't be read is
    /// dropped, because a user has edited the annotation.
    pub(super) fn take(object: &mut Object<'a>, from: Version) -> Result<Self, WrongType> {
        let (found_in, annotation) = match from {
            Version::V1Beta1 => (V1BETA2_FIELDS, V1BETA1_FIELDS),
            Version::V1Beta2 => (V1BETA1_FIELDS, V1BETA2_FIELDS),
        };
        let mut this = Self {
            found: Map::new(),
            capo_copy: None,
            leftover: Object::default(),
            annotation,
        };
        let root = Path::root("metadata");
        let Some(metadata) = top(object, "metadata")? else {
            return Ok(this);
        };
        // Annotations of another type were not written by capo-rs.
        let Ok(Some(annotations)) = metadata.object("annotations", &root) else {
            return Ok(this);
        };
        let before = annotations.len();
        annotations.remove(annotation);
        if let Some(node) = annotations.remove(found_in) {
            this.found = read(&node).unwrap_or_default();
        }
        // Fields that only CAPO's copy has are read from it if they still apply.
        if let Some(node) = annotations.remove(CAPO_STASH) {
            this.capo_copy = read(&node);
        }
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
        Ok(this)
    }

    /// Keeps `node` for the conversion back.
    pub(super) fn keep(&mut self, path: &Path<'_>, node: Node<'a>) {
        self.leftover.insert(path.to_string(), node);
    }

    /// The kept content of the field at `path`.
    pub(super) fn found(&mut self, path: &Path<'_>) -> Option<Value> {
        if self.found.is_empty() {
            return None;
        }
        self.found.remove(&path.to_string())
    }

    /// The name of a flavor that was set together with the flavor id `id` at `path`, a machine's spec.
    pub(super) fn flavor_beside(&mut self, path: &Path<'_>, id: &str) -> Option<String> {
        let text =
            |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(entry) = self.found(&path.field("flavor")) {
            return (text(&entry, "id").as_deref() == Some(id))
                .then(|| text(&entry, "name"))
                .flatten();
        }
        let copied = self
            .capo_copy
            .as_ref()?
            .pointer(&format!("/{}", path.to_string().replace('.', "/")))?;
        (text(copied, "flavorID").as_deref() == Some(id))
            .then(|| text(copied, "flavor"))
            .flatten()
    }

    /// `spec.template.metadata` of an OpenStackClusterTemplate, which CAPO's v1beta1 lacks and that of capo-rs has.
    pub(super) fn template_metadata_of_capo(&self) -> Option<Value> {
        self.capo_copy
            .as_ref()?
            .pointer("/spec/template/metadata")
            .filter(|metadata| metadata.is_object())
            .cloned()
    }

    /// Writes the fields to keep on the converted object.
    pub(super) fn write(self, object: &mut Object<'a>) -> Result<(), WrongType> {
        if self.leftover.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        self.leftover.write(&mut text);
        let root = Path::root("metadata");
        let metadata = object.object_at("metadata", &root)?;
        let annotations = metadata.object_at("annotations", &root.field("annotations"))?;
        let text = String::from_utf8_lossy(&text);
        annotations.insert(self.annotation, Node::string(text));
        Ok(())
    }
}

/// The JSON in a text.
fn read<T: serde::de::DeserializeOwned>(node: &Node<'_>) -> Option<T> {
    serde_json::from_str(&node.as_str()?).ok()
}

/// An object right below the root.
pub(super) fn top<'o, 'a>(
    object: &'o mut Object<'a>,
    key: &'static str,
) -> Result<Option<&'o mut Object<'a>>, WrongType> {
    object.child(key, &Path::root(key))
}

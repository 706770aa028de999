//! Decides which objects must be rewritten so that no object is stored as v1beta1 any more, and when a CRD's
//! `storedVersions` may be cleaned.
//!
//! The functions are pure: they read a CRD and the metadata of its objects and return the next step, which [`super`]
//! carries out. Every step is independent of the others, so a migration may end anywhere and start again. An object
//! that was rewritten costs nothing the second time, because the API server writes nothing if the bytes are the same.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};

use crate::webhooks::conversion;
use capo_api::{CAPO_STASH, GROUP};

/// The parts of a migration, named as in CAPO's `--skip-crd-migration-phases`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Rewrites objects that may be stored in another version, then cleans `status.storedVersions`.
    StorageVersionMigration,
    /// Drops managed fields of versions that are not served any more: the API server refuses to apply
    /// to objects that carry them.
    CleanupManagedFields,
}

/// The name of a phase that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is no migration phase; allowed are All, StorageVersionMigration and CleanupManagedFields"
)]
pub struct UnknownPhase {
    found: String,
}

/// The phases that are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// See [`Phase::StorageVersionMigration`].
    pub storage_version: bool,
    /// See [`Phase::CleanupManagedFields`].
    pub managed_fields: bool,
}

impl Phases {
    /// Both phases.
    pub const ALL: Self = Self {
        storage_version: true,
        managed_fields: true,
    };

    /// All phases except the named ones. Each item is a name, or several names with commas.
    pub fn without<S: AsRef<str>>(skipped: &[S]) -> Result<Self, UnknownPhase> {
        let mut phases = Self::ALL;
        for name in skipped.iter().flat_map(|item| item.as_ref().split(',')) {
            match name.trim() {
                "" => {}
                "All" => {
                    phases.storage_version = false;
                    phases.managed_fields = false;
                }
                "StorageVersionMigration" => phases.storage_version = false,
                "CleanupManagedFields" => phases.managed_fields = false,
                other => {
                    return Err(UnknownPhase {
                        found: other.chars().take(64).collect(),
                    });
                }
            }
        }
        Ok(phases)
    }

    /// Whether no phase is left.
    pub fn is_none(self) -> bool {
        !self.storage_version && !self.managed_fields
    }
}

/// The fields of a CRD that a migration uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The CRD's name, `<plural>.<group>`.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// The version that objects are written in.
    pub storage: String,
    /// The versions that are served.
    pub served: Vec<String>,
    /// The versions that objects may be stored in.
    pub stored: Vec<String>,
    /// The CRD's resource version.
    pub resource_version: Option<String>,
}

impl Definition {
    /// `None` for a CRD of another group, or one without a storage version.
    pub fn of(crd: &CustomResourceDefinition) -> Option<Self> {
        if crd.spec.group != GROUP {
            return None;
        }
        let storage = crd.spec.versions.iter().find(|version| version.storage)?;
        Some(Self {
            name: crd.metadata.name.clone()?,
            kind: crd.spec.names.kind.clone(),
            plural: crd.spec.names.plural.clone(),
            storage: storage.name.clone(),
            served: crd
                .spec
                .versions
                .iter()
                .filter(|version| version.served)
                .map(|version| version.name.clone())
                .collect(),
            stored: crd
                .status
                .as_ref()
                .and_then(|status| status.stored_versions.clone())
                .unwrap_or_default(),
            resource_version: crd.metadata.resource_version.clone(),
        })
    }

    /// Whether objects may be stored in a version other than the storage version.
    pub fn has_old_objects(&self) -> bool {
        self.stored.iter().any(|version| *version != self.storage)
    }

    /// The patch of the CRD's status after every object was rewritten. It names the resource version of the CRD that
    /// was read, so that it fails if the CRD has changed since.
    pub fn forget_old_versions(&self) -> Value {
        json!({
            "metadata": {"resourceVersion": self.resource_version},
            "status": {"storedVersions": [self.storage]},
        })
    }
}

/// The reason why objects can't be stored in a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{definition} does not serve {wanted}; it serves {served}")]
pub struct NotServed {
    definition: String,
    wanted: &'static str,
    served: String,
}

/// Sets `wanted` as the version in which a definition stores objects. Returns whether that changed the definition.
pub fn store_as(definition: &mut Value, wanted: conversion::Version) -> Result<bool, NotServed> {
    let wanted = wanted.name();
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let name = name.to_owned();
    let mut none = Vec::new();
    let versions = definition["spec"]["versions"].as_array_mut();
    let versions = versions.unwrap_or(&mut none);
    let is_wanted = |version: &Value| version["name"] == wanted && version["served"] == true;
    if !versions.iter().any(is_wanted) {
        let served = versions.iter().filter(|version| version["served"] == true);
        let served: Vec<&str> = served
            .filter_map(|version| version["name"].as_str())
            .collect();
        return Err(NotServed {
            definition: name,
            wanted,
            served: served.join(", "),
        });
    }
    let mut changed = false;
    for version in versions {
        let stored = json!(version["name"] == wanted);
        changed |= version["storage"] != stored;
        version["storage"] = stored;
    }
    Ok(changed)
}

/// The step to take for one object. It has no content of the object, because the steps of all objects of a kind are
/// decided before the first one is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// The object needs no step.
    None,
    /// Read the whole object, then patch it with [`without_stash`].
    DropStash,
    /// Read the object's metadata, then patch it with [`without_unserved_managers`].
    CleanManagedFields,
    /// Send an empty merge patch. It makes the API server write the object in its storage version.
    Store,
}

/// Judges an object by its metadata.
pub fn rewrite(definition: &Definition, metadata: &ObjectMeta, phases: Phases) -> Rewrite {
    let stashed = metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(CAPO_STASH));
    // CAPO 0.15 writes the copy only on v1beta2 objects, and reads it when it converts back.
    if phases.storage_version
        && stashed
        && definition.storage == conversion::Version::V1Beta2.name()
    {
        return Rewrite::DropStash;
    }
    if phases.managed_fields && without_unserved_managers(definition, metadata).is_some() {
        return Rewrite::CleanManagedFields;
    }
    if phases.storage_version && definition.has_old_objects() {
        return Rewrite::Store;
    }
    Rewrite::None
}

/// The merge patch that removes managed fields of versions of this API group that are not served. `None` if the object
/// has no such fields.
pub fn without_unserved_managers(definition: &Definition, metadata: &ObjectMeta) -> Option<Value> {
    let entries = metadata.managed_fields.as_ref()?;
    let is_served = |api_version: &str| match api_version.split_once('/') {
        Some((GROUP, version)) => definition.served.iter().any(|served| served == version),
        _ => true,
    };
    let left: Vec<&_> = entries
        .iter()
        .filter(|entry| entry.api_version.as_deref().is_none_or(is_served))
        .collect();
    if left.len() == entries.len() {
        return None;
    }
    let left = match serde_json::to_value(&left) {
        // One empty entry resets the list. The API server ignores an empty list.
        Ok(Value::Array(left)) if left.is_empty() => json!([{}]),
        Ok(left) => left,
        Err(_) => return None,
    };
    Some(json!({
        "metadata": {"resourceVersion": metadata.resource_version, "managedFields": left},
    }))
}

/// The merge patch that removes CAPO's copy of the other version from a v1beta2 object, and keeps the fields that only
/// that copy has.
pub fn without_stash(object: &Value) -> Result<Value, conversion::ConversionError> {
    let v1beta1 = conversion::convert(object.clone(), conversion::Version::V1Beta1.api_version())?;
    let cleaned = conversion::convert(v1beta1, conversion::Version::V1Beta2.api_version())?;
    let kept = cleaned
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(conversion::V1BETA1_FIELDS))
        .cloned()
        .unwrap_or_default();
    Ok(json!({
        "metadata": {
            "resourceVersion": object.pointer("/metadata/resourceVersion"),
            "annotations": {
                (CAPO_STASH): null,
                (conversion::V1BETA1_FIELDS): kept,
            },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(stored: &[&str]) -> Definition {
        Definition {
            name: "openstackmachines.infrastructure.cluster.x-k8s.io".to_owned(),
            kind: "OpenStackMachine".to_owned(),
            plural: "openstackmachines".to_owned(),
            storage: "v1beta2".to_owned(),
            served: vec!["v1beta1".to_owned(), "v1beta2".to_owned()],
            stored: stored.iter().map(|&version| version.to_owned()).collect(),
            resource_version: Some("7".to_owned()),
        }
    }

    fn metadata(value: Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn phases_are_skipped_by_name() {
        let without = |names: &[&str]| Phases::without(names);
        assert_eq!(without(&[]), Ok(Phases::ALL));
        assert!(without(&["All"]).unwrap().is_none());
        assert!(
            without(&["StorageVersionMigration,CleanupManagedFields"])
                .unwrap()
                .is_none()
        );
        let left = without(&["CleanupManagedFields"]).unwrap();
        assert!(left.storage_version && !left.managed_fields);
        let message = without(&["Storage"]).unwrap_err().to_string();
        assert!(message.contains("\"Storage\"") && message.contains("CleanupManagedFields"));
    }

    #[test]
    fn objects_are_rewritten_while_an_old_version_may_be_stored() {
        let plain = metadata(json!({"name": "a"}));
        let old = definition(&["v1beta1", "v1beta2"]);
        assert_eq!(rewrite(&old, &plain, Phases::ALL), Rewrite::Store);
        let new = definition(&["v1beta2"]);
        assert!(!new.has_old_objects());
        assert_eq!(rewrite(&new, &plain, Phases::ALL), Rewrite::None);
        let skipped = Phases::without(&["StorageVersionMigration"]).unwrap();
        assert_eq!(rewrite(&old, &plain, skipped), Rewrite::None);
        assert_eq!(
            old.forget_old_versions(),
            json!({"metadata": {"resourceVersion": "7"}, "status": {"storedVersions": ["v1beta2"]}})
        );
    }

    #[test]
    fn the_stored_version_is_one_that_is_served() {
        let versions = json!([
            {"name": "v1beta1", "served": true, "storage": false}, {"name": "v1beta2", "served": true, "storage": true}]);
        let mut definition = json!({"metadata": {"name": "d"}, "spec": {"versions": versions}});
        assert_eq!(
            store_as(&mut definition, conversion::Version::V1Beta2),
            Ok(false)
        );
        assert_eq!(
            store_as(&mut definition, conversion::Version::V1Beta1),
            Ok(true)
        );
        let stored =
            |definition: &Value, at: usize| definition["spec"]["versions"][at]["storage"].clone();
        assert_eq!(
            (stored(&definition, 0), stored(&definition, 1)),
            (json!(true), json!(false))
        );
        let mut of_capo = json!({"metadata": {"name": "d"}, "spec": {"versions": [
            {"name": "v1beta1", "served": true, "storage": true}]}});
        let before = of_capo.clone();
        let error = store_as(&mut of_capo, conversion::Version::V1Beta2)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "d does not serve v1beta2; it serves v1beta1");
        assert_eq!(of_capo, before);
    }

    #[test]
    fn managed_fields_of_unserved_versions_are_removed() {
        let entry = |version: &str| json!({"manager": "kubectl", "operation": "Apply", "apiVersion": version});
        let (old, new, other) = (
            entry("infrastructure.cluster.x-k8s.io/v1alpha7"),
            entry("infrastructure.cluster.x-k8s.io/v1beta1"),
            entry("v1"),
        );
        let definition = definition(&["v1beta2"]);
        let of = |entries: &[&Value]| {
            let object = metadata(json!({"resourceVersion": "3", "managedFields": entries}));
            (
                rewrite(&definition, &object, Phases::ALL),
                without_unserved_managers(&definition, &object),
            )
        };
        let leaves = |left: Value| {
            let patch = json!({"metadata": {"resourceVersion": "3", "managedFields": left}});
            (Rewrite::CleanManagedFields, Some(patch))
        };
        assert_eq!(of(&[&new, &other]), (Rewrite::None, None));
        assert_eq!(of(&[&old, &new]), leaves(json!([new])));
        assert_eq!(of(&[&old]), leaves(json!([{}])));
    }

    #[test]
    fn fields_that_only_the_copy_has_are_kept() {
        let stash = json!({"spec": {"flavor": "m1.small", "flavorID": "f-1"}}).to_string();
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "metadata": {
                "name": "a", "resourceVersion": "9",
                "annotations": {"cluster.x-k8s.io/conversion-data": stash, "mine": "stays"},
            },
            "spec": {"flavor": {"id": "f-1"}},
        });
        let patch = without_stash(&object).unwrap();
        let annotations = &patch["metadata"]["annotations"];
        assert_eq!(annotations[CAPO_STASH], Value::Null);
        assert_eq!(annotations.get("mine"), None);
        let kept: Value =
            serde_json::from_str(annotations[conversion::V1BETA1_FIELDS].as_str().unwrap())
                .unwrap();
        assert_eq!(
            kept,
            json!({"spec.flavor": {"name": "m1.small", "id": "f-1"}})
        );
    }
}

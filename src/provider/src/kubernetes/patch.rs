//! Writes a status only if the write changes something.

use super::replaced_versions::ReplacedVersions;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// The number of attempts if other clients write between the read and the write. The next pass tries again.
const TRIES: usize = 4;

/// The name under which the API server records the writes of capo-rs.
pub const FIELD_MANAGER: &str = "capo-rs";

/// The result of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Written<K> {
    /// The object already had this status.
    Unchanged,
    /// The status was written; this is the object as the API server returned it, with the generation that the caller
    /// has reconciled.
    Changed(Box<K>),
    /// The object does not exist any more.
    Gone,
}

/// Gives `object` the status that `build` returns, by a merge patch of the difference. If another client has written in
/// between, `build` runs again with the fresh object, so that conditions of other clients are never overwritten. If
/// `object` comes from a cache that does not show our own last write yet, it is read again first: otherwise a status
/// that equals the old one would be taken for the present one and never be written.
///
/// The status was determined for the spec of `object`, so every object here has the generation of `object`: a
/// generation that another client has created in between must not appear as observed before a pass has handled it.
pub async fn write_status<K>(
    replaced: &ReplacedVersions,
    api: &Api<K>,
    object: &K,
    build: impl Fn(&K) -> Value,
) -> Result<Written<K>, kube::Error>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let with_reconciled_generation = |mut now: K| {
        now.meta_mut().generation = object.meta().generation;
        now
    };
    let mut fresh: Option<K> = None;
    let mut is_old = replaced.contains(object);
    let mut tries = 0;
    loop {
        if is_old {
            match api.get_opt(&object.name_any()).await? {
                Some(now) if now.uid() == object.uid() => {
                    fresh = Some(with_reconciled_generation(now));
                }
                _ => return Ok(Written::Gone),
            }
        }
        tries += 1;
        let current = fresh.as_ref().unwrap_or(object);
        let Some(change) = difference(&status_of(current), &build(current)) else {
            return Ok(Written::Unchanged);
        };
        let patch = json!({
            "metadata": { "resourceVersion": current.resource_version() },
            "status": change,
        });
        let params = PatchParams::apply(FIELD_MANAGER);
        let params = PatchParams {
            force: false,
            ..params
        };
        match api
            .patch_status(&current.name_any(), &params, &Patch::Merge(&patch))
            .await
        {
            Ok(written) => {
                replaced.add(object);
                replaced.add(current);
                return Ok(Written::Changed(Box::new(with_reconciled_generation(
                    written,
                ))));
            }
            Err(error) if is_conflict(&error) && tries < TRIES => is_old = true,
            Err(error) if is_not_found(&error) => return Ok(Written::Gone),
            Err(error) => return Err(error),
        }
    }
}

/// Adds or removes a finalizer, guarded by the resource version. Returns the written object, or `None` if nothing had
/// to change or the object is gone.
pub async fn set_finalizer<K>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
    present: bool,
) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut fresh: Option<K> = None;
    let mut tries = 0;
    loop {
        tries += 1;
        let current = fresh.as_ref().unwrap_or(object);
        if current.finalizers().iter().any(|f| f == finalizer) == present {
            return Ok(None);
        }
        let mut finalizers: Vec<&str> = current
            .finalizers()
            .iter()
            .map(String::as_str)
            .filter(|f| *f != finalizer)
            .collect();
        if present {
            finalizers.push(finalizer);
        }
        let patch = json!({ "metadata": {
            "resourceVersion": current.resource_version(),
            "finalizers": finalizers,
        }});
        match api
            .patch(
                &current.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await
        {
            Ok(written) => return Ok(Some(written)),
            Err(error) if is_conflict(&error) && tries < TRIES => {
                match api.get_opt(&object.name_any()).await? {
                    Some(now) if now.uid() == object.uid() => fresh = Some(now),
                    _ => return Ok(None),
                }
            }
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the API server refused a write because of another write.
pub fn is_conflict(error: &kube::Error) -> bool {
    code(error) == Some(409)
}

/// Whether the object does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

fn status_of<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object)
        .ok()
        .and_then(|mut whole| whole.get_mut("status").map(Value::take))
        .unwrap_or(Value::Null)
}

/// The merge patch (RFC 7386) that turns `before` into `after`; `None` if they are equal.
pub fn difference(before: &Value, after: &Value) -> Option<Value> {
    let empty = Map::new();
    match (before, after) {
        (before, Value::Object(after)) => {
            let before = before.as_object().unwrap_or(&empty);
            let mut patch = Map::new();
            for (key, value) in after {
                match before.get(key) {
                    Some(old) if old == value => {}
                    Some(old) => {
                        if let Some(inner) = difference(old, value) {
                            patch.insert(key.clone(), inner);
                        }
                    }
                    None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (before, after) if before == after => None,
        (_, after) => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use capo_api::v1beta2::OpenStackClusterTemplate;

    use super::*;
    use crate::kubernetes::conflict_once::ConflictOnce;

    fn template(version: &str, generation: i64) -> Value {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackClusterTemplate",
            "metadata": {"name": "t", "namespace": "n", "uid": "u", "resourceVersion": version, "generation": generation},
            "spec": {"template": {"spec": {"identityRef": {"name": "c", "cloudName": "c"}}}},
        })
    }

    #[tokio::test]
    async fn a_status_belongs_to_the_generation_that_was_reconciled_whatever_was_written_meanwhile()
    {
        // The object gets another spec before the first patch.
        let server = ConflictOnce::new(template("2", 3), template("2", 3));
        let api: Api<OpenStackClusterTemplate> = Api::namespaced(server.client(), "n");
        let judged: OpenStackClusterTemplate = serde_json::from_value(template("1", 2)).unwrap();
        let build = |fresh: &OpenStackClusterTemplate| json!({"observedGeneration": fresh.metadata.generation});
        let replaced = ReplacedVersions::default();
        let written = write_status(&replaced, &api, &judged, build).await.unwrap();
        let patch = |version: &str| json!({"metadata": {"resourceVersion": version}, "status": {"observedGeneration": 2}});
        assert_eq!(*server.patches.lock(), [patch("1"), patch("2")]);
        let Written::Changed(written) = written else {
            panic!("{written:?}")
        };
        assert_eq!(written.metadata.generation, Some(2));
    }

    /// The cache shows the object as it was before our last write, with the status that is right again now.
    #[tokio::test]
    async fn a_status_is_compared_with_what_was_written_last_and_not_with_an_older_cache() {
        let with = |version: &str, status: &str| {
            let mut object = template(version, 1);
            object["status"] = json!({"observedGeneration": status.parse::<i64>().unwrap()});
            object
        };
        let server = ConflictOnce::new(with("2", "7"), with("3", "1"));
        let api: Api<OpenStackClusterTemplate> = Api::namespaced(server.client(), "n");
        let cached: OpenStackClusterTemplate = serde_json::from_value(with("1", "1")).unwrap();
        let build = |_: &OpenStackClusterTemplate| json!({"observedGeneration": 1});
        let replaced = ReplacedVersions::default();
        let written = write_status(&replaced, &api, &cached, build).await.unwrap();
        assert_eq!(written, Written::Unchanged);
        replaced.add(&cached);
        let written = write_status(&replaced, &api, &cached, build).await.unwrap();
        assert!(matches!(written, Written::Changed(_)), "{written:?}");
        let patches = server.patches.lock().clone();
        assert_eq!(
            patches.last().unwrap()["status"],
            json!({"observedGeneration": 1})
        );
    }

    #[test]
    fn equal_values_make_no_patch() {
        for value in [json!(null), json!({}), json!({"a": [1, {"b": null}]})] {
            assert_eq!(difference(&value, &value), None);
        }
        assert_eq!(difference(&Value::Null, &json!({})), None);
    }

    #[test]
    fn only_the_difference_is_sent_and_removed_fields_are_null() {
        let before = json!({"a": 1, "b": {"c": 2, "d": [1, 2]}, "e": "x"});
        let after = json!({"a": 1, "b": {"c": 3, "d": [1, 2]}, "f": true});
        assert_eq!(
            difference(&before, &after),
            Some(json!({"b": {"c": 3}, "e": null, "f": true}))
        );
    }

    #[test]
    fn lists_are_sent_whole() {
        assert_eq!(
            difference(&json!({"l": [1, 2]}), &json!({"l": [2]})),
            Some(json!({"l": [2]}))
        );
        assert_eq!(
            difference(&Value::Null, &json!({"l": []})),
            Some(json!({"l": []}))
        );
    }
}

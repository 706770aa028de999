//! Compares every field of CAPO's schemas with those of capo-rs: the path, the type and the bounds. Differences are
//! listed here with their reasons, and an entry without a difference fails the test.

mod exceptions;
mod fields;
mod released;

use std::{collections::BTreeSet, fs, path::PathBuf};

use capo_api::{ConversionTarget, crds};
use serde_json::Value;
use test_support::repository;

use exceptions::{ADDITIONS, LOOSER, WITH_STATUS, covers};
use fields::{Facts, Fields, either, flatten, read};

fn folder() -> PathBuf {
    repository("tests/facts")
}

/// Every file of facts with its schema.
fn pairs() -> Vec<(String, Facts, Value, Value)> {
    let definitions = serde_json::to_value(crds(&ConversionTarget::default()).unwrap()).unwrap();
    let mut files: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 11);
    files
        .into_iter()
        .map(|path| {
            let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut facts = read(&path);
            let stored = folder().join("capo-0.14.7").join(path.file_name().unwrap());
            if stored.exists() {
                facts.fields = either(&facts.fields, &read(&stored).fields);
            }
            let (plural, version) = file.split_once('.').unwrap();
            let definition = definitions
                .as_array()
                .unwrap()
                .iter()
                .find(|definition| definition["spec"]["names"]["plural"] == plural)
                .unwrap_or_else(|| panic!("no definition of {plural}"))
                .clone();
            let version = definition["spec"]["versions"]
                .as_array()
                .unwrap()
                .iter()
                .find(|candidate| candidate["name"] == version)
                .unwrap_or_else(|| panic!("no {version} of {plural}"))
                .clone();
            (file, facts, definition, version)
        })
        .collect()
}

#[test]
fn every_field_of_capo_is_ours_with_the_same_bounds() {
    let mut differences = Vec::new();
    let mut used = BTreeSet::new();
    for (file, facts, _, version) in pairs() {
        let mut ours = Fields::new();
        flatten("", &version["schema"]["openAPIV3Schema"], false, &mut ours);
        // The status has a default in capo-rs only, which has a test of its own.
        if let Some(status) = ours.get_mut("status") {
            status.remove("default");
        }
        for (path, field) in &facts.fields {
            let Some(our) = ours.get(path) else {
                differences.push(format!("{file} {path}: missing"));
                continue;
            };
            for key in field.keys().chain(our.keys()).collect::<BTreeSet<_>>() {
                if field.get(key) == our.get(key) {
                    continue;
                }
                let exception = LOOSER.iter().position(|(file_part, end, attribute, _)| {
                    attribute == key
                        && our.get(key).is_none()
                        && covers(file_part, end, &file, path)
                });
                if let Some(exception) = exception {
                    used.insert(("looser", exception));
                } else {
                    differences.push(format!(
                        "{file} {path}: {key} is {:?}, CAPO has {:?}",
                        our.get(key),
                        field.get(key)
                    ));
                }
            }
        }
        for path in ours.keys().filter(|path| !facts.fields.contains_key(*path)) {
            let addition = ADDITIONS
                .iter()
                .position(|(file_part, end, _)| covers(file_part, end, &file, path));
            match addition {
                Some(addition) => {
                    used.insert(("addition", addition));
                    // A field may be required inside of an object that is an addition itself.
                    let is_inside = path
                        .rsplit_once('.')
                        .is_some_and(|(object, _)| !facts.fields.contains_key(object));
                    assert!(
                        path.contains("[]") || is_inside || !ours[path].contains_key("required"),
                        "{file} {path}: an addition must be optional"
                    );
                }
                None => differences.push(format!(
                    "{file} {path}: only capo-rs has it, and it is not in the list"
                )),
            }
        }
    }
    for (index, exception) in LOOSER.iter().enumerate() {
        if !used.contains(&("looser", index)) {
            differences.push(format!("exception that is not needed: {exception:?}"));
        }
    }
    for (index, addition) in ADDITIONS.iter().enumerate() {
        if !used.contains(&("addition", index)) {
            differences.push(format!("addition that does not exist: {addition:?}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn names_scopes_and_versions_are_those_of_capo() {
    for (file, facts, definition, version) in pairs() {
        let names = &definition["spec"]["names"];
        let list = |value: &Value| {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(names["kind"], facts.kind.as_str(), "{file}");
        assert_eq!(
            definition["spec"]["scope"],
            facts.head["scope"].as_str(),
            "{file}"
        );
        assert_eq!(
            list(&names["shortNames"]),
            facts.head["shortNames"],
            "{file}"
        );
        assert_eq!(
            list(&names["categories"]),
            facts.head["categories"],
            "{file}"
        );
        assert_eq!(version["name"], facts.head["version"].as_str(), "{file}");
        assert_eq!(version["served"], true, "{file}");
        assert_eq!(
            version["storage"],
            facts.head["storage"] == "True",
            "{file}"
        );
        assert_eq!(
            version["subresources"]["status"].is_object(),
            facts.head["status-subresource"] == "True"
                || WITH_STATUS.iter().any(|plural| file.starts_with(plural)),
            "{file}"
        );
        assert_eq!(
            definition["spec"]["conversion"]["strategy"] == "Webhook",
            facts.head["version"] != "v1alpha1",
            "{file}"
        );
        let columns = version["additionalPrinterColumns"].as_array();
        for (name, kind, path) in &facts.columns {
            assert!(
                columns.into_iter().flatten().any(|column| {
                    column["name"] == name.as_str()
                        && column["type"] == kind.as_str()
                        && column["jsonPath"] == path.as_str()
                }),
                "{file}: no column {name} {kind} {path}"
            );
        }
    }
}

#[test]
fn contract_labels_name_served_versions_only() {
    for definition in crds(&ConversionTarget::default()).unwrap() {
        let name = definition.metadata.name.unwrap();
        let labels = definition.metadata.labels.unwrap();
        assert_eq!(
            labels["cluster.x-k8s.io/provider"], "infrastructure-openstack",
            "{name}"
        );
        let versions: Vec<&str> = definition
            .spec
            .versions
            .iter()
            .map(|v| v.name.as_str())
            .collect();
        for contract in ["v1beta1", "v1beta2"] {
            let label = labels
                .get(&format!("cluster.x-k8s.io/{contract}"))
                .map(String::as_str);
            assert_eq!(
                label,
                versions.contains(&contract).then_some(contract),
                "{name}"
            );
        }
    }
}

#[test]
fn every_status_starts_at_a_generation_that_is_never_its_own() {
    for (file, _, _, version) in pairs() {
        let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
        let generation = &status["properties"]["observedGeneration"];
        assert_eq!(status["default"]["observedGeneration"], -1, "{file}");
        assert_eq!(generation["minimum"], -1.0, "{file}");
        assert_eq!(generation["format"], "int64", "{file}");
        assert!(!version.to_string().contains("\"nullable\""), "{file}");
        let ready_always =
            ["openstackclusters.v1beta1", "openstackservers.v1alpha1"].contains(&file.as_str());
        assert_eq!(
            status["default"]["ready"],
            if ready_always {
                Value::Bool(false)
            } else {
                Value::Null
            },
            "{file}"
        );
    }
}

#[test]
fn every_field_is_explained() {
    fn walk(path: &str, schema: &Value, bare: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let inner = format!("{path}.{name}");
            if property["description"]
                .as_str()
                .is_none_or(|text| text.len() < 7)
                && name != "metadata"
            {
                bare.push(inner.clone());
            }
            walk(&inner, property, bare);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                walk(path, &schema[inner], bare);
            }
        }
    }
    let mut bare = Vec::new();
    for (file, _, _, version) in pairs() {
        walk(&file, &version["schema"]["openAPIV3Schema"], &mut bare);
    }
    assert!(bare.is_empty(), "{bare:#?}");
}

//! Every field of CAPO's schemas against ours: same path, same type, same bounds. What differs is
//! listed here with its reason, and a difference that is gone has to leave the list.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use capo_rs::api::{ConversionTarget, crds};
use serde_json::Value;

/// Paths that only we have: (file, path or its end, reason).
const ADDITIONS: &[(&str, &str, &str)] = &[
    (
        "",
        "status.observedGeneration",
        "kstatus compares it with the object's generation",
    ),
    (
        "openstackclusters",
        "LoadBalancer.activeMembers",
        "members at a glance",
    ),
    (
        "openstackclusters",
        "LoadBalancer.members",
        "what is known of each member",
    ),
    (
        "openstackmachines.",
        "status.activeMembers",
        "members at a glance",
    ),
    (
        "openstackmachines.",
        "status.failureDomain",
        "Cluster API reads the actual zone there",
    ),
    (
        "v1beta1",
        "status.conditions[].observedGeneration",
        "else a v1beta1 client would lose it",
    ),
    (
        "openstackclustertemplates.v1beta1",
        "spec.template.metadata",
        "else a v1beta1 client would lose it",
    ),
];

/// Attributes that we do without on purpose: (file, path or its end, attribute, reason).
const LOOSER: &[(&str, &str, &str, &str)] = &[
    (
        "openstackclusters",
        "LoadBalancer.id",
        "required",
        "not known before the load balancer is created",
    ),
    (
        "openstackclusters",
        "LoadBalancer.id",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "openstackclusters",
        "LoadBalancer.ip",
        "required",
        "there is none without a floating IP",
    ),
    (
        "openstackclusters",
        "LoadBalancer.ip",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "openstackclusters",
        "LoadBalancer.internalIP",
        "required",
        "not known before the load balancer is created",
    ),
    (
        "openstackclusters",
        "LoadBalancer.internalIP",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "openstackclusters",
        "etwork.id",
        "required",
        "not known while the network is being made",
    ),
    (
        "openstackclusters",
        "etwork.id",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "",
        "etwork.name",
        "required",
        "Neutron allows networks without a name",
    ),
    (
        "",
        "etwork.name",
        "minLength",
        "Neutron allows networks without a name",
    ),
    (
        "",
        "subnets[].name",
        "required",
        "Neutron allows subnets without a name",
    ),
    (
        "",
        "subnets[].name",
        "minLength",
        "Neutron allows subnets without a name",
    ),
    (
        "openstackclusters",
        "router.name",
        "required",
        "Neutron allows routers without a name",
    ),
    (
        "openstackclusters",
        "router.name",
        "minLength",
        "Neutron allows routers without a name",
    ),
    (
        "v1beta1",
        "resolved.ports[].description",
        "required",
        "v1beta2 leaves it out when empty",
    ),
];

/// Whether an exception for `end` is meant for `path`. One for a whole object holds below it too.
fn covers(file_part: &str, end: &str, file: &str, path: &str) -> bool {
    file.contains(file_part)
        && (path.ends_with(end)
            || path.contains(&format!("{end}."))
            || path.contains(&format!("{end}[")))
}

type Attributes = BTreeMap<String, String>;
type Fields = BTreeMap<String, Attributes>;

struct Facts {
    head: BTreeMap<String, String>,
    kind: String,
    columns: Vec<(String, String, String)>,
    fields: Fields,
}

const KEYS: &[&str] = &[
    "required",
    "default",
    "enum",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "format",
    "nullable",
    "list-type",
    "map-type",
    "keys",
    "rules",
    "int-or-string",
];

fn attributes(text: &str) -> Attributes {
    let mut found = Attributes::new();
    let mut last: Option<String> = None;
    for word in text.split(' ') {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if KEYS.contains(&key) {
            found.insert(key.to_owned(), value.to_owned());
            last = Some(key.to_owned());
        } else if let Some(last) = &last {
            // A blank inside a value, as in a pattern.
            let value = found.get_mut(last).unwrap();
            *value = format!("{value} {word}");
        } else {
            assert!(word.is_empty(), "unknown attribute {word}");
        }
    }
    found
}

fn read(path: &Path) -> Facts {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let mut words = lines.next().unwrap().trim_start_matches("# ").split(' ');
    let kind = words.next().unwrap().to_owned();
    let mut head = BTreeMap::from([("version".to_owned(), words.next().unwrap().to_owned())]);
    head.extend(words.map(|word| {
        let (key, value) = word.split_once('=').unwrap();
        (key.to_owned(), value.to_owned())
    }));
    let mut facts = Facts {
        head,
        kind,
        columns: Vec::new(),
        fields: Fields::new(),
    };
    for line in lines {
        if let Some(column) = line.strip_prefix("# column: ") {
            let (column, _priority) = column.rsplit_once(' ').unwrap();
            let (column, path) = column.rsplit_once(' ').unwrap();
            let (name, kind) = column.rsplit_once(' ').unwrap();
            facts
                .columns
                .push((name.to_owned(), kind.to_owned(), path.to_owned()));
            continue;
        }
        let mut parts = line.splitn(3, '\t');
        let (path, kind) = (parts.next().unwrap(), parts.next().unwrap());
        let mut field = attributes(parts.next().unwrap_or(""));
        field.insert("type".to_owned(), kind.to_owned());
        facts.fields.insert(path.to_owned(), normal(field));
    }
    facts
}

/// Ways to say the same are made one: a list is replaced as a whole unless it says otherwise, integers
/// have 64 bits unless they say otherwise, and what has a default is never missing.
fn normal(mut field: Attributes) -> Attributes {
    if field.get("list-type").is_some_and(|kind| kind == "atomic") {
        field.remove("list-type");
    }
    if field.get("format").is_some_and(|format| format == "int64") {
        field.remove("format");
    }
    if field.contains_key("default") {
        field.remove("required");
    }
    field
}

fn flatten(path: &str, schema: &Value, required: bool, fields: &mut Fields) {
    let text = |value: &Value| match value {
        Value::String(text) if text.is_empty() => "''".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let list = |value: &Value| {
        let items = value.as_array().unwrap();
        items.iter().map(text).collect::<Vec<_>>().join("|")
    };
    let mut field = Attributes::new();
    field.insert(
        "type".to_owned(),
        schema["type"].as_str().unwrap_or("any").to_owned(),
    );
    if required {
        field.insert("required".to_owned(), String::new());
    }
    for (key, value) in schema.as_object().unwrap() {
        let (name, value) = match key.as_str() {
            "enum" => ("enum", list(value)),
            "x-kubernetes-list-map-keys" => ("keys", list(value).replace('|', ",")),
            "x-kubernetes-list-type" => ("list-type", text(value)),
            "x-kubernetes-map-type" => ("map-type", text(value)),
            "x-kubernetes-validations" => ("rules", value.as_array().unwrap().len().to_string()),
            "x-kubernetes-int-or-string" => ("int-or-string", "True".to_owned()),
            "minimum" | "maximum" => (key.as_str(), value.as_f64().unwrap().to_string()),
            other if KEYS.contains(&other) && other != "required" => (other, text(value)),
            _ => continue,
        };
        field.insert(name.to_owned(), value);
    }
    let required_names: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !path.is_empty() {
        fields.insert(path.to_owned(), normal(field));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if path.is_empty() && !["spec", "status"].contains(&name.as_str()) {
            continue;
        }
        let inner = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        flatten(
            &inner,
            property,
            required_names.contains(name.as_str()),
            fields,
        );
    }
    if schema["items"].is_object() {
        flatten(&format!("{path}[]"), &schema["items"], false, fields);
    }
    if schema["additionalProperties"].is_object() {
        flatten(
            &format!("{path}{{}}"),
            &schema["additionalProperties"],
            false,
            fields,
        );
    }
}

/// What takes every object that either of two schemas takes.
fn either(one: &Fields, other: &Fields) -> Fields {
    let mut all = Fields::new();
    for path in one.keys().chain(other.keys()) {
        let field = match (one.get(path), other.get(path)) {
            (Some(one), Some(other)) => one
                .iter()
                .filter_map(|(key, value)| {
                    let second = other.get(key);
                    let number = |text: &str| text.parse::<f64>().unwrap();
                    match key.as_str() {
                        "default" => Some((key.clone(), value.clone())),
                        "maxLength" | "maximum" => second.map(|second| {
                            (key.clone(), number(value).max(number(second)).to_string())
                        }),
                        _ if second == Some(value) => Some((key.clone(), value.clone())),
                        _ => None,
                    }
                })
                .collect(),
            (Some(field), None) | (None, Some(field)) => {
                let mut field = field.clone();
                field.remove("required");
                field
            }
            (None, None) => continue,
        };
        all.insert(path.clone(), field);
    }
    all
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts")
}

/// Every file of facts with the schema it is about.
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
        // The default of the status is ours, and has a test of its own.
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
                    assert!(
                        path.contains("[]") || !ours[path].contains_key("required"),
                        "{file} {path}: an addition must be optional"
                    );
                }
                None => differences.push(format!("{file} {path}: only ours, and not in the list")),
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
            facts.head["status-subresource"] == "True",
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
        if status.is_null() {
            continue;
        }
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

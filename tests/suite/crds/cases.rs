//! What a real kube-apiserver makes of objects: the table in `cases/`, with our webhooks in force.
//!
//! A case starts from the smallest object of its kind (below), puts in the values of `set` by JSON
//! pointer (null takes away), and creates it, once in each of its versions. `then` is a second change,
//! sent as an update; `status` is written to the status. The last of these is either `refused`, with
//! all of these texts in the error, or `gives` these values (null: absent).

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use capo_api::GROUP;
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::Deserialize;
use serde_json::{Value, json};
use test_support::{full_objects as full, webhooks::Served};

use crate::env::kstatus;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "case")]
    title: String,
    of: String,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    then: Option<BTreeMap<String, Value>>,
    status: Option<Value>,
    refused: Option<Value>,
    gives: Option<BTreeMap<String, Value>>,
}

/// The smallest object of a kind that is taken.
fn smallest(kind: &str, version: &str) -> Value {
    let credentials = json!({"name": "openstack", "cloudName": "cloud"});
    let image = json!({"filter": {"name": "ubuntu"}});
    let machine = if version == "v1beta1" {
        json!({"flavor": "m1.small", "image": image})
    } else {
        json!({"flavor": {"filter": {"name": "m1.small"}}, "image": image})
    };
    match kind {
        "OpenStackCluster" => json!({"identityRef": credentials}),
        "OpenStackClusterTemplate" => json!({"template": {"spec": {"identityRef": credentials}}}),
        "OpenStackMachine" => machine,
        "OpenStackMachineTemplate" => json!({"template": {"spec": machine}}),
        "OpenStackServer" => json!({
            "flavor": "m1.small", "image": image, "identityRef": credentials, "sshKeyName": "", "ports": [],
        }),
        "OpenStackFloatingIPPool" => {
            json!({"identityRef": credentials, "reclaimPolicy": "Delete"})
        }
        "OpenStackClusterIdentity" => json!({"secretRef": {"name": "a", "namespace": "b"}}),
        other => panic!("unknown kind {other}"),
    }
}

const KINDS: &[(&str, &[&str])] = &[
    ("OpenStackCluster", &["v1beta1", "v1beta2"]),
    ("OpenStackClusterIdentity", &["v1alpha1"]),
    ("OpenStackClusterTemplate", &["v1beta1", "v1beta2"]),
    ("OpenStackFloatingIPPool", &["v1alpha1"]),
    ("OpenStackMachine", &["v1beta1", "v1beta2"]),
    ("OpenStackMachineTemplate", &["v1beta1", "v1beta2"]),
    ("OpenStackServer", &["v1alpha1"]),
];

fn api(client: &Client, kind: &str, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, version, kind),
        &plural(kind),
    );
    if kind == "OpenStackClusterIdentity" {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::default_namespaced_with(client.clone(), &resource)
    }
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    lower
        .strip_suffix('y')
        .map_or_else(|| format!("{lower}s"), |stem| format!("{stem}ies"))
}

fn put(object: &mut Value, changes: &BTreeMap<String, Value>) {
    for (pointer, value) in changes {
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let mut node = &mut *object;
        for step in parent.split('/').skip(1) {
            node = match node {
                Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
                other => &mut other[step],
            };
        }
        if value.is_null() {
            if let Value::Object(fields) = node {
                fields.remove(last);
            }
        } else {
            node[last] = value.clone();
        }
    }
}

async fn send(
    api: &Api<DynamicObject>,
    case: &Case,
    mut object: Value,
) -> Result<Value, kube::Error> {
    put(&mut object, &case.set);
    let typed = |value: Value| serde_json::from_value::<DynamicObject>(value).unwrap();
    let mut stored = api.create(&PostParams::default(), &typed(object)).await?;
    let name = stored.metadata.name.clone().unwrap_or_default();
    if let Some(changes) = &case.then {
        let mut changed = serde_json::to_value(&stored).unwrap();
        put(&mut changed, changes);
        stored = api
            .replace(&name, &PostParams::default(), &typed(changed))
            .await?;
    }
    if let Some(status) = &case.status {
        let mut changed = serde_json::to_value(&stored).unwrap();
        changed["status"] = status.clone();
        stored = api
            .replace_status(&name, &PostParams::default(), &typed(changed))
            .await?;
    }
    Ok(serde_json::to_value(stored).unwrap())
}

/// What is wrong with the outcome of a case, if anything.
fn verdict(case: &Case, outcome: Result<Value, kube::Error>) -> Option<String> {
    let texts: Vec<&str> = match &case.refused {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts.iter().map(|text| text.as_str().unwrap()).collect(),
        Some(other) => panic!("{}: refused is {other}", case.title),
    };
    match (outcome, &case.gives) {
        (Err(kube::Error::Api(status)), None) => texts
            .iter()
            .find(|text| !status.message.contains(**text))
            .map(|text| {
                format!(
                    "the error should say {text:?}, and says {:?}",
                    status.message
                )
            }),
        (Err(error), _) => Some(format!("failed: {error}")),
        (Ok(_), None) => Some("was taken".to_owned()),
        (Ok(object), Some(gives)) => gives
            .iter()
            .find(|(pointer, value)| object.pointer(pointer).unwrap_or(&Value::Null) != *value)
            .map(|(pointer, value)| {
                format!(
                    "{pointer} should be {value}, and is {:?}",
                    object.pointer(pointer).map(Value::to_string)
                )
            }),
    }
}

fn table() -> Vec<Case> {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/suite/crds/cases");
    let mut cases = Vec::new();
    for file in ["cluster.yaml", "machine.yaml", "others.yaml"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        cases.extend(
            serde_saphyr::from_str::<Vec<Case>>(&text)
                .unwrap_or_else(|error| panic!("{file}: {error}")),
        );
    }
    cases
}

#[tokio::test]
async fn a_real_kube_apiserver_judges_objects_as_the_table_says() {
    let served = Served::start().await.unwrap();
    let client = served.client().await;
    let mut runs = Vec::new();
    for (index, case) in table().into_iter().enumerate() {
        assert!(
            case.refused.is_some() != case.gives.is_some(),
            "{}",
            case.title
        );
        let case = Arc::new(case);
        let (kind, versions) = case.of.split_once(' ').unwrap();
        for version in versions.split(' ') {
            let object = json!({
                "apiVersion": format!("{GROUP}/{version}"),
                "kind": kind,
                "metadata": {"name": format!("case-{index}-{version}")},
                "spec": smallest(kind, version),
            });
            runs.push((
                case.clone(),
                version.to_owned(),
                api(&client, kind, version),
                object,
            ));
        }
    }
    assert!(runs.len() > 300, "{} runs", runs.len());
    let wrong: Vec<String> = stream::iter(runs)
        .map(|(case, version, api, object)| async move {
            let outcome = send(&api, &case, object).await;
            verdict(&case, outcome).map(|wrong| format!("{version}: {}: {wrong}", case.title))
        })
        .buffer_unordered(16)
        .filter_map(|wrong| async { wrong })
        .collect()
        .await;
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );

    no_fresh_object_is_done(&client).await;
    every_field_is_kept(&client).await;
}

/// Reads new objects in every version, because a tool must not take a new object for done in any version.
async fn no_fresh_object_is_done(client: &Client) {
    let mut fresh = Vec::new();
    for (kind, versions) in KINDS {
        let version = versions[0];
        let object = json!({
            "apiVersion": format!("{GROUP}/{version}"),
            "kind": kind,
            "metadata": {"name": "fresh"},
            "spec": smallest(kind, version),
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api(client, kind, version)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        for version in *versions {
            let api = api(client, kind, version);
            let read = api.get("fresh").await.unwrap();
            let listed = api.list(&kube::api::ListParams::default()).await.unwrap();
            let listed = listed
                .items
                .into_iter()
                .find(|item| item.metadata.name.as_deref() == Some("fresh"))
                .unwrap();
            for found in [read, listed] {
                assert_eq!(
                    found.data["status"]["observedGeneration"], -1,
                    "{kind} {version}"
                );
                let mut found = serde_json::to_value(found).unwrap();
                // Objects in a list come without these.
                found["apiVersion"] = json!(format!("{GROUP}/{version}"));
                found["kind"] = json!(kind);
                fresh.push(found);
            }
        }
    }
    assert_eq!(fresh.len(), 22, "eleven versions, read and listed");
    for (object, verdict) in fresh.iter().zip(kstatus::compute(&fresh).unwrap()) {
        assert_eq!(
            verdict.status, "InProgress",
            "{object}: {}",
            verdict.message
        );
    }
}

/// Removes the fields that admission refuses beside other fields. They differ from object to object.
fn make_admissible(full: &mut full::Full) {
    if full.kind == "OpenStackMachineTemplate" {
        let machine = full.object.pointer_mut("/spec/template/spec").unwrap();
        machine.as_object_mut().unwrap().remove("providerID");
    }
    let name = full.object["metadata"]["name"].as_str().unwrap();
    let choice = usize::from(name.bytes().last().unwrap() - b'0');
    let remotes = ["remoteGroupID", "remoteIPPrefix", "remoteManagedGroups"];
    leave_one(&mut full.object["spec"], remotes[choice]);
}

/// Keeps one remote side of each security group rule, and removes the groups of a port without port security.
fn leave_one(value: &mut Value, remote: &str) {
    if let Some(fields) = value.as_object_mut() {
        let is_port = fields.contains_key("fixedIPs");
        let is_unguarded = fields.get("disablePortSecurity") == Some(&json!(true));
        fields.retain(|name, _| {
            (!name.starts_with("remote") || name == remote)
                && !(is_port && is_unguarded && name == "securityGroups")
        });
        for field in fields.values_mut() {
            leave_one(field, remote);
        }
    }
    for item in value.as_array_mut().into_iter().flatten() {
        leave_one(item, remote);
    }
}

/// Objects with every field there is come back as they were sent, spec and status.
async fn every_field_is_kept(client: &Client) {
    for mut full in full::objects() {
        make_admissible(&mut full);
        if full.version == "v1beta1" && full.object["status"].is_object() {
            // v1beta2 expresses these fields by conditions, from which the conversion back computes them.
            let status = full.object["status"].as_object_mut().unwrap();
            for field in ["ready", "failureReason", "failureMessage"] {
                status.remove(field);
            }
            for condition in status
                .get_mut("conditions")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                condition.as_object_mut().unwrap().remove("severity");
            }
        }
        let api = api(client, &full.kind, &full.version);
        let sent: DynamicObject = serde_json::from_value(full.object.clone()).unwrap();
        let created = api.create(&PostParams::default(), &sent).await.unwrap();
        assert_eq!(
            created.data["spec"], full.object["spec"],
            "{} {}",
            full.kind, full.version
        );
        if full.object["status"].is_null() {
            continue;
        }
        let mut status = sent;
        status.metadata = created.metadata;
        let name = status.metadata.name.clone().unwrap();
        let mut written = api
            .replace_status(&name, &PostParams::default(), &status)
            .await
            .unwrap();
        if full.version == "v1beta1" {
            // This field is computed from the conditions, in the kinds that have it.
            let ready = written.data["status"]
                .as_object_mut()
                .unwrap()
                .remove("ready");
            assert_ne!(ready, Some(json!(false)), "{} is provisioned", full.kind);
        }
        assert_eq!(
            written.data["status"], full.object["status"],
            "{} {}",
            full.kind, full.version
        );
    }
}

//! What CAPO leaves on its objects besides their fields, against the list of what it is known to write: a name,
//! finalizer, annotation, label, tag or description that is not in the list fails the test.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::ListParams};
use serde_json::Value;

use crate::{
    kinds::FROM_THE_USER,
    tested_cluster::{TestedCluster, Version},
};

/// The list of marks. Each line has the releases, the kind of object, the part of the object, and the value.
const LIST: &str = include_str!("../facts/written-by-capo/marks.txt");
/// Resources of OpenStack by service, path and key of their list.
const RESOURCES: [(&str, &str, &str); 13] = [
    ("network", "networks", "networks"),
    ("network", "subnets", "subnets"),
    ("network", "routers", "routers"),
    ("network", "ports", "ports"),
    ("network", "security-groups", "security_groups"),
    ("network", "floatingips", "floatingips"),
    ("network", "trunks", "trunks"),
    ("load-balancer", "loadbalancers", "loadbalancers"),
    ("load-balancer", "listeners", "listeners"),
    ("load-balancer", "pools", "pools"),
    ("load-balancer", "healthmonitors", "healthmonitors"),
    ("compute", "servers/detail", "servers"),
    ("volumev3", "volumes/detail", "volumes"),
];

/// A mark that was found on an object.
struct Mark {
    on: &'static str,
    part: &'static str,
    value: String,
}

/// Checks that the list has every mark in a cluster that CAPO has made.
pub(crate) async fn known(cluster: &TestedCluster) -> Result<(), String> {
    let unknown = unknown(cluster).await;
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "not in tests/facts/written-by-capo/marks.txt: {unknown:#?}"
    ))
}

async fn unknown(cluster: &TestedCluster) -> Vec<String> {
    let mut found = in_kubernetes(cluster).await;
    found.extend(in_openstack(cluster).await);
    let machines = cluster.servers().await;
    let mut unknown: Vec<String> = found
        .iter()
        .filter(|mark| !mark.is_known(&cluster.name, &machines))
        .map(|mark| format!("{}\t{}\t{}", mark.on, mark.part, mark.value))
        .collect();
    unknown.sort();
    unknown.dedup();
    unknown
}

impl Mark {
    fn is_known(&self, cluster: &str, machines: &[String]) -> bool {
        if self.value.is_empty() || FROM_THE_USER.contains(&self.value.as_str()) {
            return true;
        }
        let lines = LIST.lines().filter(|line| !line.starts_with('#'));
        lines.map(columns).any(|[_, on, part, value]| {
            on.trim_end_matches(" (Cluster API)") == self.on
                && part == self.part
                && expansions(value, cluster, machines).contains(&self.value)
        })
    }
}

/// The columns of a line.
fn columns(line: &str) -> [&str; 4] {
    let columns: Vec<&str> = line.split('\t').collect();
    columns.try_into().unwrap_or_else(|_| {
        panic!("tests/facts/written-by-capo/marks.txt: {line:?} has not four columns")
    })
}

/// The values that a line stands for: its placeholders are replaced by every name that the cluster gives them.
fn expansions(value: &str, cluster: &str, machines: &[String]) -> Vec<String> {
    let value = value
        .replace("{resources}", &format!("{cluster}-{cluster}"))
        .replace("{cluster}", cluster)
        .replace("{pool}", "pool");
    let roles = ["controlplane", "worker", "bastion"];
    let mut all = vec![value.clone()];
    all.extend(roles.map(|role| value.replace("{role}", role)));
    let of_machines = machines.iter().map(|name| value.replace("{machine}", name));
    for value in of_machines.chain([value.clone()]) {
        all.extend(["6443", "9345"].map(|port| value.replace("{port}", port)));
    }
    all
}

async fn in_kubernetes(cluster: &TestedCluster) -> Vec<Mark> {
    let mut found = Vec::new();
    for kind in [
        "OpenStackCluster",
        "OpenStackClusterTemplate",
        "OpenStackMachine",
        "OpenStackMachineTemplate",
        "OpenStackServer",
        "OpenStackFloatingIPPool",
        "IPAddressClaim",
        "IPAddress",
    ] {
        for object in cluster.list(kind, Version::V1Beta1).await {
            of_object(kind, &object.metadata, &mut found);
            let conditions = object.data["status"]["conditions"].as_array();
            found.extend(conditions.into_iter().flatten().map(|condition| Mark {
                on: kind,
                part: "condition",
                value: condition["type"].as_str().unwrap_or_default().to_owned(),
            }));
        }
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let definitions = definitions.list_metadata(&ListParams::default()).await;
    for definition in definitions.unwrap() {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        if name.ends_with(".infrastructure.cluster.x-k8s.io") {
            of_object("CustomResourceDefinition", &definition.metadata, &mut found);
        }
    }
    found
}

fn of_object(kind: &'static str, metadata: &ObjectMeta, found: &mut Vec<Mark>) {
    let mut add = |part, value: &str| {
        found.push(Mark {
            on: kind,
            part,
            value: value.to_owned(),
        });
    };
    for finalizer in metadata.finalizers.iter().flatten() {
        add("finalizer", finalizer);
    }
    for annotation in metadata.annotations.iter().flatten() {
        add("annotation", annotation.0);
    }
    for label in metadata.labels.iter().flatten() {
        add("label", label.0);
    }
    for owner in metadata.owner_references.iter().flatten() {
        add("owner", &owner.kind);
    }
}

async fn in_openstack(cluster: &TestedCluster) -> Vec<Mark> {
    let raw = cluster.raw().await;
    let mut found = Vec::new();
    for (service, path, key) in RESOURCES {
        let (_, listed) = raw.get(service, path).await;
        let mut items = listed[key].as_array().cloned().unwrap_or_default();
        if key == "pools" {
            for pool in items.clone() {
                let path = format!("pools/{}/members", pool["id"].as_str().unwrap_or_default());
                let (_, members) = raw.get(service, &path).await;
                for member in members["members"].as_array().into_iter().flatten() {
                    of_resource("members", member, &mut found);
                }
            }
        }
        // The ports of load balancers and routers belong to those services and not to CAPO.
        items.retain(|item| !item["device_owner"].as_str().is_some_and(is_of_a_service));
        for item in &items {
            of_resource(key, item, &mut found);
        }
    }
    found
}

fn is_of_a_service(owner: &str) -> bool {
    !owner.is_empty() && !owner.starts_with("compute:")
}

fn of_resource(key: &'static str, item: &Value, found: &mut Vec<Mark>) {
    let mut add = |part, value: &str| {
        found.push(Mark {
            on: key,
            part,
            value: value.to_owned(),
        });
    };
    if FROM_THE_USER.contains(&item["name"].as_str().unwrap_or_default()) {
        return;
    }
    add("name", item["name"].as_str().unwrap_or_default());
    add(
        "description",
        item["description"].as_str().unwrap_or_default(),
    );
    for tag in item["tags"].as_array().into_iter().flatten() {
        add("tag", tag.as_str().unwrap_or_default());
    }
    for metadata in item["metadata"].as_object().into_iter().flatten() {
        add("metadata", metadata.0);
    }
    for rule in item["security_group_rules"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let description = rule["description"].as_str().unwrap_or_default();
        found.push(Mark {
            on: "security_group_rules",
            part: "description",
            value: description.to_owned(),
        });
    }
}

#[test]
fn groups_and_listeners_are_known_without_machines_and_foreign_ones_are_not() {
    let named = |on, name: &str| Mark {
        on,
        part: "name",
        value: name.to_owned(),
    };
    let group = |name: &str| named("security_groups", name);
    for role in ["controlplane", "worker", "bastion"] {
        let name = format!("k8s-cluster-demo-demo-secgroup-{role}");
        assert!(group(&name).is_known("demo", &[]), "{name}");
    }
    let foreign = group("k8s-cluster-demo-demo-secgroup-etcd");
    assert!(!foreign.is_known("demo", &["cp-0".to_owned()]));
    let listener = |port| {
        let name = format!("k8s-clusterapi-cluster-demo-demo-kubeapi-{port}");
        named("listeners", &name).is_known("demo", &[])
    };
    assert!(listener(6443) && !listener(6444));
}

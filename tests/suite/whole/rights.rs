//! The shipped roles, for all namespaces and for one: they are enough for the whole life of a cluster, and each of
//! their rights is used.

use std::{collections::BTreeSet, fmt, process::Command};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;
use test_support::waiting::PATIENCE;

use super::{isolated::IsolatedEnvironment, others, reach::open_stack_cluster};
use crate::env::{Manager, apply::documents};

/// One right: what may be done to what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.verb, self.group, self.resource)
    }
}

/// Rights that this run has no occasion to use, each with the reason why it is granted.
const WITHOUT_OCCASION: &[(&str, &str, &str, &str)] = &[
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackclusteridentities",
        "an identityRef of type ClusterIdentity",
    ),
    ("get", "", "namespaces", "the selector of a ClusterIdentity"),
    (
        "get",
        "openstack.k-orc.cloud",
        "images",
        "an image.imageRef, shown in machine/images.rs",
    ),
    (
        "list",
        "openstack.k-orc.cloud",
        "images",
        "an image.imageRef, shown in machine/images.rs",
    ),
    (
        "watch",
        "openstack.k-orc.cloud",
        "images",
        "an image.imageRef, shown in machine/images.rs",
    ),
    (
        "get",
        "cluster.x-k8s.io",
        "clusters",
        "a Cluster that the caches don't know",
    ),
    (
        "get",
        "cluster.x-k8s.io",
        "machines",
        "an owning Machine that the caches don't know, shown in gate/bad_input.rs",
    ),
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackclusters",
        "a status write that lost a race",
    ),
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackmachines",
        "a status write that lost a race",
    ),
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackservers",
        "a status write that lost a race",
    ),
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackclustertemplates",
        "a status write that lost a race",
    ),
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackmachinetemplates",
        "a status write that lost a race",
    ),
    (
        "get",
        "infrastructure.cluster.x-k8s.io",
        "openstackfloatingippools",
        "a status write that lost a race",
    ),
    (
        "get",
        "ipam.cluster.x-k8s.io",
        "ipaddressclaims",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "create",
        "ipam.cluster.x-k8s.io",
        "ipaddressclaims",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "patch",
        "ipam.cluster.x-k8s.io",
        "ipaddressclaims",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "patch",
        "ipam.cluster.x-k8s.io",
        "ipaddressclaims/status",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "get",
        "ipam.cluster.x-k8s.io",
        "ipaddresses",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "create",
        "ipam.cluster.x-k8s.io",
        "ipaddresses",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "patch",
        "ipam.cluster.x-k8s.io",
        "ipaddresses",
        "a machine with a floatingIPPoolRef, shown in machine/floating_ip_pools.rs",
    ),
    (
        "patch",
        "events.k8s.io",
        "events",
        "an event that is reported again",
    ),
    (
        "create",
        "authentication.k8s.io",
        "tokenreviews",
        "metrics over HTTPS, shown in manager.rs",
    ),
    (
        "create",
        "authorization.k8s.io",
        "subjectaccessreviews",
        "metrics over HTTPS, shown in manager.rs",
    ),
];

/// Every right that the ClusterRoles and Roles among these manifests grant to the manager.
fn granted(manifests: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for role in documents(manifests).unwrap() {
        let kind = role["kind"].as_str().unwrap_or_default();
        // These roles are for users who scrape, view or edit, and for the storage migration and the release of hooks,
        // which have tests of their own with only these roles.
        if !["ClusterRole", "Role"].contains(&kind)
            || [
                "capo-metrics-reader",
                "capo-viewer-role",
                "capo-editor-role",
                "capo-storage-migration-role",
                "capo-release-hooks-role",
            ]
            .iter()
            .any(|other| role["metadata"]["name"] == *other)
        {
            continue;
        }
        for rule in role["rules"].as_array().into_iter().flatten() {
            let texts = |key: &str| -> Vec<String> {
                let list = rule[key].as_array().into_iter().flatten();
                list.map(|text| text.as_str().unwrap().to_owned()).collect()
            };
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    for verb in texts("verbs") {
                        rights.insert(Right {
                            group: group.clone(),
                            resource: resource.clone(),
                            verb,
                        });
                    }
                }
            }
        }
    }
    rights
}

/// The right that a recorded request needed, and whether the request was allowed.
fn used(event: &Value) -> Option<(Right, bool)> {
    let reference = &event["objectRef"];
    let mut resource = reference["resource"].as_str()?.to_owned();
    if let Some(subresource) = reference["subresource"].as_str() {
        resource = format!("{resource}/{subresource}");
    }
    let right = Right {
        group: reference["apiGroup"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        resource,
        verb: event["verb"].as_str()?.to_owned(),
    };
    Some((right, event["responseStatus"]["code"] != 403))
}

/// Creates and deletes a cluster with a machine of each sort and an object of each other kind, and stops the manager.
/// Returns the manager's resident memory with that cluster, in KiB.
pub(super) async fn whole_life(environment: &IsolatedEnvironment, manager: &mut Manager) -> u64 {
    environment.create_cluster("life", "127.78.0.0/24").await;
    environment
        .until_provisioned("OpenStackCluster", "life")
        .await;
    for (name, control_plane) in [("life-cp", true), ("life-worker", false)] {
        environment
            .create_machine("life", name, control_plane)
            .await;
        environment
            .until_provisioned("OpenStackMachine", name)
            .await;
    }
    let resident = manager.process.resident_bytes().unwrap() / 1024;
    for (kind, name) in others::create_all(environment, "life").await {
        others::until_seen(environment, kind, &name).await;
    }
    environment.delete_cluster("life").await;
    environment.assert_nothing_is_left_of("life");
    // An orderly stop uses the right to give the lease back.
    manager.process.signal("TERM").unwrap();
    assert!(manager.process.wait(PATIENCE).unwrap().success());
    resident
}

/// Checks that the manager was refused nothing, and used all of `granted` except the rights that this run has no
/// occasion to use.
fn assert_exactly_used(requests: &[Value], granted: &BTreeSet<Right>) {
    let mut needed = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for event in requests {
        if let Some((right, allowed)) = used(event) {
            if !allowed {
                refused.insert(right.to_string());
            }
            needed.insert(right);
        }
    }
    assert!(
        refused.is_empty(),
        "the manager asked for what it has no right to: {refused:#?}"
    );
    let excused = |right: &Right| {
        WITHOUT_OCCASION.iter().any(|(verb, group, resource, _)| {
            *right
                == Right {
                    group: (*group).to_owned(),
                    resource: (*resource).to_owned(),
                    verb: (*verb).to_owned(),
                }
        })
    };
    let idle: Vec<String> = granted
        .iter()
        .filter(|right| {
            let same = |needed: &Right| {
                needed.verb == right.verb
                    && needed.group == right.group
                    && (right.resource == "*" || needed.resource == right.resource)
            };
            !needed.iter().any(same) && !excused(right)
        })
        .map(Right::to_string)
        .collect();
    assert!(idle.is_empty(), "granted and never used: {idle:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_life_needs_exactly_the_shipped_rights() {
    let environment = IsolatedEnvironment::start().await;
    let mut manager = environment
        .ready_manager("manager", &["--leader-elect"])
        .await;
    let resident = whole_life(&environment, &mut manager).await;
    println!("resident memory with one cluster: {resident} KiB");
    let shipped = std::fs::read_to_string(test_support::repository("deploy/rbac.yaml")).unwrap();
    assert_exactly_used(
        &environment.kubernetes.audit_events().unwrap(),
        &granted(&shipped),
    );
}

/// What `capo-rs manifests` prints for a manager of the namespace `default`.
fn manifests_for_one_namespace() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_capo-rs"))
        .args(["manifests", "--watch-namespace=default"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_of_one_namespace_needs_exactly_its_rights_there_and_leaves_other_namespaces_alone()
 {
    let manifests = manifests_for_one_namespace();
    let environment = IsolatedEnvironment::start_from(&manifests).await;
    let elsewhere = environment.another_namespace("elsewhere").await;
    let deployment = documents(&manifests)
        .unwrap()
        .into_iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments: Vec<&str> = arguments
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap())
        .collect();
    let mut manager = environment.ready_manager("manager", &arguments).await;
    // This cluster exists from the beginning, so a manager that saw it would have the whole test to act on it.
    elsewhere
        .create_cluster("foreign", open_stack_cluster("foreign", "elsewhere", None))
        .await;
    whole_life(&environment, &mut manager).await;

    let requests = environment.kubernetes.audit_events().unwrap();
    assert_exactly_used(&requests, &granted(&manifests));
    for request in &requests {
        let namespace = request["objectRef"]["namespace"].as_str();
        assert!(
            matches!(namespace, None | Some("default" | "capo-system")),
            "{request:#}"
        );
    }
    let left = elsewhere
        .get("OpenStackCluster", "foreign")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(left["metadata"]["finalizers"], Value::Null);
    assert_eq!(left["status"]["conditions"], Value::Null);
    assert_eq!(environment.cloud.control().leftovers("-foreign"), []);

    // The manager may read credentials only in its own namespace.
    let client = environment.client_of_the_manager().await;
    let secrets = |namespace: &str| -> Api<Secret> { Api::namespaced(client.clone(), namespace) };
    secrets("default").get("cloud-config").await.unwrap();
    let refused = secrets("elsewhere").get("cloud-config").await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
}

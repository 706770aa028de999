//! Server groups that are created with the first server and deleted with the last one.

use serde_json::{Value, json};
use test_support::{
    env::{
        Environment,
        apply::{apply, documents},
        environment::{is, status_and_reason},
    },
    waiting::until,
};

use super::{machine_spec, stand_alone::server, until_ready};

/// The server groups of the cloud, each with its name, its policy and the number of its members.
fn groups(environment: &Environment) -> Vec<(String, String, usize)> {
    let dump = environment.cloud.control().dump();
    let groups = dump["server_groups"].as_array().cloned();
    let text = |group: &Value, key: &str| group[key].as_str().unwrap_or_default().to_owned();
    groups
        .into_iter()
        .flatten()
        .map(|group| {
            let members = group["members"].as_array().map_or(0, Vec::len);
            (text(&group, "name"), text(&group, "policy"), members)
        })
        .collect()
}

/// Deletes a machine with its server.
async fn delete(environment: &Environment, name: &str) {
    let cluster_api = &environment.cluster_api;
    cluster_api.delete("Machine", name).await;
    environment.until_gone("OpenStackMachine", name).await;
}

/// The spec in the manifest of the documentation.
fn documented() -> Value {
    let path = test_support::repository("docs/server-groups.md");
    let text = std::fs::read_to_string(path).unwrap();
    let block = text.split("```yaml\n").nth(1).unwrap();
    let manifests = documents(block.split("```").next().unwrap()).unwrap();
    manifests[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_share_a_group_that_goes_with_the_last_of_them() {
    let environment = Environment::in_namespace("groups").start().await;
    environment.foreign_cluster("c1").await;
    let mut template = documented();
    template["metadata"]["namespace"] = json!(environment.namespace);
    apply(&environment.admin, &[template.clone()])
        .await
        .unwrap();
    let mut soft = machine_spec();
    soft["managedServerGroup"] = template["spec"]["template"]["spec"]["managedServerGroup"].clone();
    let mut hard = machine_spec();
    hard["managedServerGroup"] = json!({"policy": "anti-affinity"});
    let cluster_api = &environment.cluster_api;
    for (name, spec) in [("w0", &soft), ("w1", &soft), ("w2", &soft), ("h0", &hard)] {
        cluster_api
            .create_machine("c1", name, false, spec.clone())
            .await;
    }
    for name in ["w0", "w1", "w2", "h0"] {
        until_ready(&environment, "OpenStackMachine", name).await;
    }
    let group = |policy: &str| format!("k8s-clusterapi-cluster-groups-c1-machines-{policy}");
    let (softly, strictly) = ("soft-anti-affinity", "anti-affinity");
    let mut found = groups(&environment);
    found.sort();
    assert_eq!(
        found,
        [
            (group(strictly), strictly.to_owned(), 1),
            (group(softly), softly.to_owned(), 3),
        ]
    );
    let made = environment.get("OpenStackServer", "w0").await;
    assert_eq!(
        made["spec"]["managedServerGroup"],
        json!({"name": group(softly), "policy": softly})
    );
    assert!(made["status"]["resolved"]["serverGroupID"].is_string());
    assert_eq!(environment.calls("server_group_create"), 2);

    delete(&environment, "w0").await;
    assert_eq!(groups(&environment).len(), 2, "w1 and w2 are in the group");
    // The last two servers are deleted at the same time.
    for name in ["w1", "w2"] {
        cluster_api.delete("Machine", name).await;
    }
    for name in ["w1", "w2"] {
        environment.until_gone("OpenStackMachine", name).await;
    }
    assert_eq!(
        groups(&environment),
        [(group(strictly), strictly.to_owned(), 1)]
    );
    delete(&environment, "h0").await;
    assert_eq!(groups(&environment), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_full_of_quota_or_deleted_by_hand_heals() {
    let environment = Environment::in_namespace("groups-heal").start().await;
    let network = environment.network("n").await;
    let wanted = |name: &str| {
        let mut wanted = server(&environment, name, &network);
        wanted["spec"]["managedServerGroup"] = json!({"name": "g"});
        wanted
    };
    environment.command(json!({"fault": {"match": {"label": "server_group_create"},
        "status": 403, "body": {"forbidden": {"code": 403, "message": "Quota exceeded, too many server groups."}}}}));
    apply(&environment.admin, &[wanted("s1")]).await.unwrap();
    let refused =
        |server: &Value| status_and_reason(server, "InstanceReady") == ("False", "QuotaExceeded");
    let shown = environment
        .until_object("OpenStackServer", "s1", refused)
        .await;
    let conditions = shown["status"]["conditions"].to_string();
    assert!(
        conditions.contains("too many server groups"),
        "{conditions}"
    );
    // A change by a user starts a pass at once.
    environment.command(json!({"clear": "faults"}));
    environment
        .patch(
            "OpenStackServer",
            "s1",
            json!({"metadata": {"annotations": {"now": "1"}}}),
        )
        .await;
    until_ready(&environment, "OpenStackServer", "s1").await;

    // The second server finds the group gone that the first one has shown to exist.
    let cloud = environment.openstack();
    let found = cloud
        .server_groups(capo_core::Priority::Gate)
        .await
        .unwrap();
    cloud
        .delete_server_group(&found[0].id, capo_core::Priority::Gate)
        .await
        .unwrap();
    apply(&environment.admin, &[wanted("s2")]).await.unwrap();
    until("the server is refused", async || {
        let shown = environment.get("OpenStackServer", "s2").await;
        let is_over = is(&shown, "Ready", "True") || is(&shown, "InstanceReady", "False");
        is_over.then_some(())
    })
    .await;
    environment
        .patch(
            "OpenStackServer",
            "s2",
            json!({"metadata": {"annotations": {"now": "1"}}}),
        )
        .await;
    until_ready(&environment, "OpenStackServer", "s2").await;
    assert_eq!(
        groups(&environment),
        [("g".to_owned(), "soft-anti-affinity".to_owned(), 1)]
    );
    for name in ["s1", "s2"] {
        environment
            .cluster_api
            .delete("OpenStackServer", name)
            .await;
    }
    for name in ["s1", "s2"] {
        environment.until_gone("OpenStackServer", name).await;
    }
    assert_eq!(groups(&environment), []);
}

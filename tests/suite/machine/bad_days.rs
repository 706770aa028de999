//! Bad input and bad days: what created a server is gone, user data is missing or too long, a quota is used up, and
//! answers are lost.

use serde_json::{Value, json};
use test_support::env::{Environment, apply::apply, environment::status_and_reason};

use super::{delete_server, stand_alone::server, until_ready};

/// Waits for a server's condition `InstanceReady` to be False with this reason and words in its message.
async fn until_refused(stage: &Environment, name: &str, reason: &str, words: &str) {
    stage
        .until_object("OpenStackServer", name, |server| {
            status_and_reason(server, "InstanceReady") == ("False", reason)
                && server["status"]["conditions"].to_string().contains(words)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_needs_nothing_that_the_server_was_created_from() {
    let stage = Environment::in_namespace("deletions").start().await;
    let network = stage.network("n").await;
    let mut wanted = server(&stage, "s1", &network);
    wanted["spec"]["ports"] = json!([{
        "network": {"filter": {"name": "n"}},
        "fixedIPs": [{"subnet": {"filter": {"name": "n"}}}],
    }]);
    wanted["spec"]["rootVolume"] = json!({"sizeGiB": 1});
    apply(&stage.admin, &[wanted]).await.unwrap();
    until_ready(&stage, "OpenStackServer", "s1").await;
    for label in [
        "image_*",
        "flavor_*",
        "network_list",
        "network_get",
        "subnet_*",
        "security_group_*",
        "server_group_*",
    ] {
        stage.command(json!({"fault": {"match": {"label": label}, "status": 404}}));
    }
    delete_server(&stage, "s1").await;
    assert_eq!(stage.leftovers("s1"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_data_that_is_missing_or_too_long_is_named_and_any_bytes_are_taken() {
    let stage = Environment::in_namespace("user-data").start().await;
    let network = stage.network("n").await;
    let mut wanted = server(&stage, "s1", &network);
    wanted["spec"]["userDataRef"] = json!({"name": "boot"});
    apply(&stage.admin, &[wanted.clone()]).await.unwrap();
    let words = "spec.userDataRef: there is no Secret boot";
    until_refused(&stage, "s1", "DependencyNotFound", words).await;

    let secret = |data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "boot", "namespace": stage.namespace}, "data": data})
    };
    // 50,001 bytes become more than 65,535 in base64.
    let long = "eHh4".repeat(16_667);
    for (number, (data, words)) in [
        (json!({"other": "eA=="}), "has no key value"),
        (json!({"value": long}), "50001 bytes of user data"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut secret = secret(data);
        let name = format!("boot-{number}");
        secret["metadata"]["name"] = json!(name);
        let server = format!("bad-{number}");
        wanted["metadata"]["name"] = json!(server);
        wanted["spec"]["userDataRef"] = json!({"name": name});
        let both = [secret, wanted.clone()];
        apply(&stage.admin, &both).await.unwrap();
        until_refused(&stage, &server, "InvalidSpec", words).await;
    }
    assert_eq!(stage.calls("server_create"), 0);
    // This value is not UTF-8.
    apply(&stage.admin, &[secret(json!({"value": "//79/A=="}))])
        .await
        .unwrap();
    until_ready(&stage, "OpenStackServer", "s1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_quota_is_named_and_heals() {
    let stage = Environment::in_namespace("quota").start().await;
    let network = stage.network("n").await;
    let quota = json!({"service": "compute", "resource": "instances", "limit": 0});
    stage.command(json!({"quota": quota}));
    apply(&stage.admin, &[server(&stage, "s1", &network)])
        .await
        .unwrap();
    until_refused(&stage, "s1", "QuotaExceeded", "instances").await;
    stage.command(json!({"clear": "quotas"}));
    // A change of the object is a new attempt; otherwise the next one comes after half a minute.
    let change = json!({"metadata": {"labels": {"look": "again"}}});
    stage.patch("OpenStackServer", "s1", change).await;
    until_ready(&stage, "OpenStackServer", "s1").await;
    assert_eq!(stage.cloud.control().duplicates().len(), 0);
}

/// How the answer to a creation is lost though the object is created.
fn faults() -> [Option<Value>; 5] {
    [
        None,
        Some(json!({"reset": true, "apply": true})),
        Some(json!({"status": 500, "apply": true})),
        Some(json!({"hang": true, "apply": true})),
        Some(json!({"delay_after": 5})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lost_answer_leaves_one_server_with_one_port() {
    let mut stage = Environment::in_namespace("lost").start().await;
    let network = stage.network("n").await;
    let mut servers = Vec::new();
    for (of_port, port_fault) in faults().into_iter().enumerate() {
        for (of_server, server_fault) in faults().into_iter().enumerate() {
            let name = format!("f-{of_port}{of_server}");
            for (label, fault) in [
                ("port_create", port_fault.clone()),
                ("server_create", server_fault),
            ] {
                let Some(mut fault) = fault else { continue };
                fault["match"] = json!({"label": label, "body": name});
                fault["count"] = json!(1);
                stage.command(json!({ "fault": fault }));
            }
            servers.push(server(&stage, &name, &network));
        }
    }
    apply(&stage.admin, &servers).await.unwrap();
    // A new process finds what the old one created.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    stage.stop().await;
    stage.start().await;
    for server in &servers {
        until_ready(
            &stage,
            "OpenStackServer",
            server["metadata"]["name"].as_str().unwrap(),
        )
        .await;
    }
    assert_eq!(stage.calls("server_create"), servers.len());
    assert_eq!(stage.calls("port_create"), servers.len());
    assert_eq!(stage.cloud.control().duplicates().len(), 0);
    delete_server(&stage, "f-33").await;
    assert_eq!(stage.leftovers("f-33"), Vec::<String>::new());
}

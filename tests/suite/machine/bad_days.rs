//! Bad input and bad days: what created a server is gone, user data is missing or too long, a quota is used up, and
//! answers are lost.

use serde_json::{Value, json};
use test_support::env::{Environment, apply::apply, environment::status_and_reason};

use super::{delete_server, stand_alone::server, until_ready};

/// Waits for a server's condition `InstanceReady` to be False with this reason and words in its message.
async fn until_refused(environment: &Environment, name: &str, reason: &str, words: &str) {
    environment
        .until_object("OpenStackServer", name, |server| {
            status_and_reason(server, "InstanceReady") == ("False", reason)
                && server["status"]["conditions"].to_string().contains(words)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_needs_nothing_that_the_server_was_created_from() {
    let environment = Environment::in_namespace("deletions").start().await;
    let network = environment.network("n").await;
    let mut wanted = server(&environment, "s1", &network);
    wanted["spec"]["ports"] = json!([{
        "network": {"filter": {"name": "n"}},
        "fixedIPs": [{"subnet": {"filter": {"name": "n"}}}],
    }]);
    wanted["spec"]["rootVolume"] = json!({"sizeGiB": 1});
    apply(&environment.admin, &[wanted]).await.unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;
    for label in [
        "image_*",
        "flavor_*",
        "network_list",
        "network_get",
        "subnet_*",
        "security_group_*",
        "server_group_*",
    ] {
        environment.command(json!({"fault": {"match": {"label": label}, "status": 404}}));
    }
    delete_server(&environment, "s1").await;
    assert_eq!(environment.leftovers("s1"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_data_that_is_missing_or_too_long_is_named_and_any_bytes_are_taken() {
    let environment = Environment::in_namespace("user-data").start().await;
    let network = environment.network("n").await;
    let mut wanted = server(&environment, "s1", &network);
    wanted["spec"]["userDataRef"] = json!({"name": "boot"});
    apply(&environment.admin, &[wanted.clone()]).await.unwrap();
    let words = "spec.userDataRef: there is no Secret boot";
    until_refused(&environment, "s1", "DependencyNotFound", words).await;

    let secret = |data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "boot", "namespace": environment.namespace}, "data": data})
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
        apply(&environment.admin, &both).await.unwrap();
        until_refused(&environment, &server, "InvalidSpec", words).await;
    }
    assert_eq!(environment.calls("server_create"), 0);
    // This value is not UTF-8.
    apply(&environment.admin, &[secret(json!({"value": "//79/A=="}))])
        .await
        .unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_quota_is_named_and_heals() {
    let environment = Environment::in_namespace("quota").start().await;
    let network = environment.network("n").await;
    let quota = json!({"service": "compute", "resource": "instances", "limit": 0});
    environment.command(json!({"quota": quota}));
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    until_refused(&environment, "s1", "QuotaExceeded", "instances").await;
    environment.command(json!({"clear": "quotas"}));
    // A change of the object is a new attempt; otherwise the next one comes after half a minute.
    let change = json!({"metadata": {"labels": {"look": "again"}}});
    environment.patch("OpenStackServer", "s1", change).await;
    until_ready(&environment, "OpenStackServer", "s1").await;
    assert_eq!(environment.cloud.control().duplicates().len(), 0);
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
    let mut environment = Environment::in_namespace("lost").start().await;
    let network = environment.network("n").await;
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
                environment.command(json!({ "fault": fault }));
            }
            servers.push(server(&environment, &name, &network));
        }
    }
    apply(&environment.admin, &servers).await.unwrap();
    // A new process finds what the old one created.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    environment.stop().await;
    environment.start().await;
    for server in &servers {
        until_ready(
            &environment,
            "OpenStackServer",
            server["metadata"]["name"].as_str().unwrap(),
        )
        .await;
    }
    assert_eq!(environment.calls("server_create"), servers.len());
    assert_eq!(environment.calls("port_create"), servers.len());
    assert_eq!(environment.cloud.control().duplicates().len(), 0);
    delete_server(&environment, "f-33").await;
    assert_eq!(environment.leftovers("f-33"), Vec::<String>::new());
}

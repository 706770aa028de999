//! `OpenStackServer`s that belong to no Machine and no Cluster.

use serde_json::{Value, json};
use test_support::env::{
    Environment,
    apply::apply,
    environment::{identity, is, status_and_reason},
};

/// The least that a server needs.
pub(super) fn server(environment: &Environment, name: &str, network: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
        "metadata": {"name": name, "namespace": environment.namespace},
        "spec": {
            "identityRef": identity(),
            "image": {"filter": {"name": "cirros"}},
            "flavor": "m1.small",
            "sshKeyName": "",
            "ports": [{"network": {"id": network}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_cluster_comes_goes_and_survives_the_loss_of_its_status() {
    let mut environment = Environment::in_namespace("stand-alone").start().await;
    let network = environment.network("n").await;
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    let is_ready = |server: &Value| is(server, "Ready", "True");
    let before = environment
        .until_object("OpenStackServer", "s1", is_ready)
        .await;

    // The image and the flavor do not exist any more when the status is lost.
    environment.stop().await;
    let since = environment.cloud.control().last_call();
    environment.wipe_status("OpenStackServer", "s1").await;
    for label in ["image_*", "flavor_*"] {
        let gone = json!({"fault": {"match": {"label": label}, "status": 404}});
        environment.command(gone);
    }
    environment.start().await;
    let after = environment
        .until_object("OpenStackServer", "s1", is_ready)
        .await;
    for field in ["instanceID", "instanceState", "addresses", "resources"] {
        assert_eq!(after["status"][field], before["status"][field], "{field}");
    }

    environment
        .cluster_api
        .delete("OpenStackServer", "s1")
        .await;
    environment.until_gone("OpenStackServer", "s1").await;
    assert_eq!(environment.leftovers("s1"), Vec::<String>::new());
    assert_eq!(
        environment.writes_since(since),
        ["server_delete", "port_delete"],
        "nothing else was changed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_without_a_network_has_that_of_its_subnet() {
    let environment = Environment::in_namespace("inferred").start().await;
    let network = environment.network("n").await;
    let mut wanted = server(&environment, "s1", &network);
    wanted["spec"]["ports"] = json!([
        {"fixedIPs": [{"subnet": {"filter": {"name": "n"}}}]},
        {"nameSuffix": "lost"},
    ]);
    apply(&environment.admin, &[wanted.clone()]).await.unwrap();
    let refused = environment
        .until_object("OpenStackServer", "s1", |server| {
            status_and_reason(server, "InstanceReady") == ("False", "InvalidSpec")
        })
        .await;
    let shown = refused["status"]["conditions"].to_string();
    let words = "spec.ports[1].network: needs id or filter, or a subnet in fixedIPs";
    assert!(shown.contains(words), "{shown}");

    wanted["metadata"]["name"] = json!("s2");
    wanted["spec"]["ports"].as_array_mut().unwrap().pop();
    apply(&environment.admin, &[wanted]).await.unwrap();
    let made = environment
        .until_object("OpenStackServer", "s2", |server| {
            is(server, "Ready", "True")
        })
        .await;
    let port = &made["status"]["resolved"]["ports"][0];
    assert_eq!(port["networkID"], json!(network));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_secret_is_used_although_nothing_else_happens() {
    let environment = Environment::in_namespace("rotated").start().await;
    let network = environment.network("n").await;
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    let signed_in = |server: &Value, status| is(server, "OpenStackAuthenticationSucceeded", status);
    environment
        .until_object("OpenStackServer", "s1", |server| {
            is(server, "Ready", "True")
        })
        .await;
    // The next pass over a settled server is due after ten minutes.
    let good = environment.cloud.clouds_yaml();
    let bad = good.replace("password: ", "password: not-");
    assert_ne!(good, bad);
    environment.secret("cloud-config", &bad, None).await;
    environment
        .until_object("OpenStackServer", "s1", |server| signed_in(server, "False"))
        .await;
    environment.secret("cloud-config", &good, None).await;
    environment
        .until_object("OpenStackServer", "s1", |server| signed_in(server, "True"))
        .await;
}

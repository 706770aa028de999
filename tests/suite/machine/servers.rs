//! Servers with everything that is created for them. They are workers, which no gate concerns.

use serde_json::{Value, json};

use test_support::env::{Environment, cluster_api::is_provisioned, environment::status_and_reason};

use super::machine_spec;

fn is_ready(object: &Value) -> bool {
    status_and_reason(object, "Ready") == ("True", "Ready")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_comes_and_goes_while_octavia_hangs() {
    let environment = Environment::in_namespace("worker-life").start().await;
    environment.command(json!({"fault": {"match": {"service": "load-balancer"}, "hang": true}}));
    environment.foreign_cluster("c1").await;
    let mut spec = machine_spec();
    spec["rootVolume"] = json!({"sizeGiB": 5});
    spec["additionalBlockDevices"] =
        json!([{"name": "data", "sizeGiB": 3, "storage": {"type": "Volume"}}]);
    spec["ports"] = json!([{"trunk": true, "tags": ["front"]}, {"nameSuffix": "back"}]);
    spec["tags"] = json!(["blue"]);
    environment
        .cluster_api
        .create_machine("c1", "w1", false, spec)
        .await;
    let machine = environment
        .until_object("OpenStackMachine", "w1", |machine| {
            is_provisioned(machine) && is_ready(machine)
        })
        .await;
    let id = machine["status"]["instanceID"].as_str().unwrap();
    assert_eq!(machine["spec"]["providerID"], format!("openstack:///{id}"));
    let addresses = machine["status"]["addresses"].as_array().unwrap();
    assert_eq!(
        addresses.last().unwrap(),
        &json!({"type": "InternalDNS", "address": "w1"})
    );
    assert_eq!(
        status_and_reason(&machine, "APIServerLoadBalancerReady"),
        ("", "")
    );
    let server = environment.get("OpenStackServer", "w1").await;
    assert_eq!(
        server["status"]["resources"]["ports"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(environment.calls("server_create"), 1);
    assert_eq!(environment.calls("port_create"), 2);
    assert_eq!(environment.calls("volume_create"), 2);
    assert_eq!(environment.calls("trunk_create"), 1);
    assert_eq!(
        environment
            .cloud
            .control()
            .calls_to(fake_cloud::Service::LoadBalancer),
        0
    );
    let machine = environment.get("Machine", "w1").await;
    assert_eq!(
        machine["metadata"]["annotations"],
        Value::Null,
        "no hook on a worker"
    );

    environment.cluster_api.delete("Machine", "w1").await;
    environment.until_gone("Machine", "w1").await;
    environment.until_gone("OpenStackServer", "w1").await;
    assert_eq!(environment.leftovers("w1"), Vec::<String>::new());
    for change in [
        "Created port w1-0 with",
        "Created trunk w1-0 with",
        "Created port w1-back with",
        "Created volume w1-root with",
        "Created volume w1-data with",
        "Created server w1 with",
        "Deleted server w1 with",
        "Deleted trunk w1-0 with",
        "Deleted port w1-0 with",
        "Deleted port w1-back with",
    ] {
        environment.until_noted(change).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_was_lost_comes_back_and_changes_nothing_in_openstack() {
    let mut environment = Environment::in_namespace("lost-status").start().await;
    environment.foreign_cluster("c1").await;
    environment
        .cluster_api
        .create_machine("c1", "w1", false, machine_spec())
        .await;
    let before = environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    let server_before = environment.get("OpenStackServer", "w1").await;
    // The objects exist without their statuses, as after clusterctl move or a restore.
    environment.stop().await;
    let since = environment.cloud.control().last_call();
    environment.wipe_status("OpenStackServer", "w1").await;
    environment.wipe_status("OpenStackMachine", "w1").await;
    environment.start().await;
    let after = environment
        .until_object("OpenStackMachine", "w1", |machine| {
            is_ready(machine) && is_provisioned(machine)
        })
        .await;
    assert_eq!(
        after["status"]["instanceID"],
        before["status"]["instanceID"]
    );
    assert_eq!(after["status"]["addresses"], before["status"]["addresses"]);
    let server = environment.get("OpenStackServer", "w1").await;
    assert_eq!(
        server["status"]["instanceID"],
        server_before["status"]["instanceID"]
    );
    assert_eq!(environment.writes_since(since), Vec::<String>::new());
    // No port is left, although the ids of the ports were lost with the status.
    environment.cluster_api.delete("Machine", "w1").await;
    environment.until_gone("Machine", "w1").await;
    assert_eq!(environment.leftovers("w1"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_or_flavor_that_does_not_exist_is_named_and_mended() {
    let environment = Environment::in_namespace("bad-names").start().await;
    environment.foreign_cluster("c1").await;
    for (name, spec, words) in [
        (
            "w1",
            json!({"image": {"filter": {"name": "nothing"}}, "flavor": {"filter": {"name": "m1.small"}}}),
            "spec.image.filter: no image named \"nothing\" found",
        ),
        (
            "w2",
            json!({"image": {"filter": {"name": "cirros"}}, "flavor": {"filter": {"name": "huge"}}}),
            "spec.flavor: no flavor named \"huge\" found",
        ),
    ] {
        environment
            .cluster_api
            .create_machine("c1", name, false, spec)
            .await;
        let machine = environment
            .until_object("OpenStackMachine", name, |machine| {
                status_and_reason(machine, "InstanceReady") == ("False", "DependencyNotFound")
            })
            .await;
        let shown = machine["status"]["conditions"].to_string();
        assert!(shown.contains(&words.replace('"', "\\\"")), "{shown}");
    }
    environment.command(json!({"image": {"name": "nothing"}}));
    environment.command(json!({"flavor": {"name": "huge", "vcpus": 8, "ram": 1, "disk": 1}}));
    environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    environment
        .until_object("OpenStackMachine", "w2", is_ready)
        .await;
    assert_eq!(environment.calls("server_create"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_lost_makes_nothing_twice() {
    let environment = Environment::in_namespace("lost-answers").start().await;
    environment.foreign_cluster("c1").await;
    for label in ["port_create", "server_create"] {
        environment.command(
            json!({"fault": {"match": {"label": label}, "count": 1, "apply": true, "reset": true}}),
        );
    }
    environment
        .cluster_api
        .create_machine("c1", "w1", false, machine_spec())
        .await;
    environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    assert_eq!(environment.calls("server_create"), 1);
    assert_eq!(environment.calls("port_create"), 1);
    assert!(environment.cloud.control().duplicates().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_vanished_is_reported_and_not_created_again() {
    let environment = Environment::in_namespace("vanished").start().await;
    environment.foreign_cluster("c1").await;
    environment
        .cluster_api
        .create_machine("c1", "w1", false, machine_spec())
        .await;
    environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    environment.command(json!({"set_server": {"server": "w1", "status": "GONE"}}));
    // Any change of the object starts a pass.
    environment
        .patch(
            "OpenStackServer",
            "w1",
            json!({"metadata": {"labels": {"look": "again"}}}),
        )
        .await;
    let machine = environment
        .until_object("OpenStackMachine", "w1", |machine| {
            status_and_reason(machine, "InstanceReady") == ("False", "InstanceNotFound")
        })
        .await;
    assert!(is_provisioned(&machine), "what was said stays said");
    assert_eq!(environment.calls("server_create"), 1);
    environment.cluster_api.delete("Machine", "w1").await;
    environment.until_gone("Machine", "w1").await;
    assert_eq!(environment.leftovers("w1"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_machine_is_left_alone() {
    let mut environment = Environment::in_namespace("paused").start().await;
    environment.foreign_cluster("c1").await;
    // A watch may deliver changes of two kinds in another order, so the manager starts after the changes and reads all
    // of them before its first pass.
    environment.stop().await;
    environment
        .patch("Cluster", "c1", json!({"spec": {"paused": true}}))
        .await;
    environment.start().await;
    environment
        .cluster_api
        .create_machine("c1", "w1", false, machine_spec())
        .await;
    environment
        .until_object("OpenStackMachine", "w1", |machine| {
            status_and_reason(machine, "Paused") == ("True", "Paused")
        })
        .await;
    assert_eq!(environment.get("OpenStackServer", "w1").await, Value::Null);
    environment
        .patch("Cluster", "c1", json!({"spec": {"paused": false}}))
        .await;
    let machine = environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    assert_eq!(
        status_and_reason(&machine, "Paused"),
        ("False", "NotPaused")
    );
    // The server's object is also paused and resumed with the Cluster the next time.
    for (paused, status) in [(true, "True"), (false, "False")] {
        let change = json!({"spec": {"paused": paused}});
        environment.patch("Cluster", "c1", change).await;
        environment
            .until_object("OpenStackServer", "w1", |server| {
                status_and_reason(server, "Paused").0 == status
            })
            .await;
    }
}

//! Situations of servers in real clouds: everything a server can have at once, a server in ERROR that an operator
//! repairs, a cloud that deletes softly, and a proxy that answers 404.

use capo_openstack::{compute::NewServer, network::NewPort};
use serde_json::{Value, json};
use test_support::env::{Environment, apply::apply, environment::status_and_reason};

use super::{delete_server, stand_alone::server, until_ready};

/// Changes a label: a user's change is a reason to look at once.
async fn look(environment: &Environment, name: &str, moment: &str) {
    let change = json!({"metadata": {"labels": {"look": moment}}});
    environment.patch("OpenStackServer", name, change).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_everything_in_two_networks_comes_and_leaves_nothing() {
    let environment = Environment::in_namespace("everything").start().await;
    let networks = [
        environment.network("n").await,
        environment.network("m").await,
    ];
    environment.command(json!({"zones": ["az1", "az2"]}));
    let cloud = environment.openstack();
    let group = cloud
        .create_server_group("brought", "anti-affinity", capo_core::Priority::Gate)
        .await
        .unwrap();
    let mut wanted = server(&environment, "s1", &networks[0]);
    let change = json!({"spec": {
        "availabilityZone": "az2",
        "ports": [
            {"network": {"id": networks[0]}, "trunk": true, "tags": ["first"]},
            {"network": {"filter": {"name": "m"}}, "nameSuffix": "storage", "enablePortSecurity": false},
        ],
        "rootVolume": {"sizeGiB": 5, "availabilityZone": {"from": "Machine"}},
        "additionalBlockDevices": [
            {"name": "etcd", "sizeGiB": 2, "storage": {"type": "Volume"}},
            {"name": "scratch", "sizeGiB": 1, "storage": {"type": "Local"}},
        ],
        "configDrive": true,
        "serverGroup": {"filter": {"name": "brought"}},
        "serverMetadata": [{"key": "purpose", "value": "test"}],
        "tags": ["tagged"],
        "schedulerHintAdditionalProperties": [{"name": "rack", "value": {"type": "Number", "number": 7}}],
    }});
    json_patch::merge(&mut wanted, &change);
    apply(&environment.admin, &[wanted]).await.unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;

    let calls = environment.cloud.control().calls_since(0);
    let created = calls.iter().find(|call| call.label == "server_create");
    let body = created.unwrap().body.clone().unwrap();
    let request = &body["server"];
    assert_eq!(request["config_drive"], true);
    assert_eq!(request["availability_zone"], "az2");
    assert_eq!(request["metadata"], json!({"purpose": "test"}));
    assert_eq!(request["networks"].as_array().unwrap().len(), 2);
    let devices = request["block_device_mapping_v2"].as_array().unwrap();
    assert_eq!(devices.len(), 3, "{devices:?}");
    let hints = &body["os:scheduler_hints"];
    assert_eq!(hints["group"], json!(group.id));
    assert_eq!(hints["rack"], 7);
    for name in ["s1-0", "s1-storage", "s1-root", "s1-etcd"] {
        assert_eq!(
            environment.leftovers(name).len(),
            if name == "s1-0" { 2 } else { 1 },
            "{name}"
        );
    }

    delete_server(&environment, "s1").await;
    assert_eq!(environment.leftovers("s1"), Vec::<String>::new());
    assert_eq!(environment.leftovers("brought"), ["server_group brought"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_in_error_shows_novas_fault_and_is_ready_again_once_it_is_repaired() {
    let environment = Environment::in_namespace("repaired").start().await;
    let network = environment.network("n").await;
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;
    let fault = "Build of instance aborted: the disk is full";
    environment.command(json!({"set_server": {"server": "s1", "status": "ERROR", "fault": fault}}));
    look(&environment, "s1", "broken").await;
    let in_error = |server: &Value| {
        status_and_reason(server, "InstanceReady").0 == "False"
            && server["status"]["conditions"].to_string().contains(fault)
    };
    environment
        .until_object("OpenStackServer", "s1", in_error)
        .await;
    environment.command(json!({"set_server": {"server": "s1", "status": "ACTIVE"}}));
    look(&environment, "s1", "repaired").await;
    until_ready(&environment, "OpenStackServer", "s1").await;
    assert_eq!(environment.calls("server_create"), 1);
    assert_eq!(environment.calls("server_delete"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_deleted_softly_does_not_keep_its_object() {
    let environment = Environment::in_namespace("softly").start().await;
    let network = environment.network("n").await;
    let mut wanted = server(&environment, "s1", &network);
    wanted["spec"]["rootVolume"] = json!({"sizeGiB": 1});
    wanted["spec"]["managedServerGroup"] = json!({"name": "softly"});
    apply(&environment.admin, &[wanted]).await.unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;
    // Nova keeps it, with its volume attached, until the time to reclaim it is over.
    environment.command(json!({"set_server": {"server": "s1", "status": "SOFT_DELETED"}}));
    delete_server(&environment, "s1").await;
    assert_eq!(environment.calls("server_delete"), 0);
    let mut left = environment.leftovers("s1");
    left.sort();
    assert_eq!(left, ["server s1", "volume s1-root"]);
    assert_eq!(environment.leftovers("softly"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_404_does_not_end_a_deletion() {
    let environment = Environment::in_namespace("one-404").start().await;
    let network = environment.network("n").await;
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;
    // A proxy answers 404 to the first read by id and to the first list.
    for label in ["server_get", "server_list"] {
        environment
            .command(json!({"fault": {"match": {"label": label}, "count": 1, "status": 404}}));
    }
    delete_server(&environment, "s1").await;
    assert_eq!(environment.calls("server_delete"), 1);
    assert_eq!(environment.leftovers("s1"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_server_of_the_same_name_is_neither_adopted_nor_deleted() {
    let gate = capo_core::Priority::Gate;
    let environment = Environment::in_namespace("stranger").start().await;
    let network = environment.network("n").await;
    let cloud = environment.openstack();
    let port = NewPort {
        name: "eth0".to_owned(),
        network_id: network.as_str().into(),
        ..NewPort::default()
    };
    let port = cloud.create_port(&port, gate).await.unwrap();
    let query = capo_openstack::image::ImageFilter {
        name: Some("cirros".to_owned()),
        ..Default::default()
    };
    let image = cloud.images(&query, gate).await.unwrap()[0].id.clone();
    let flavor = cloud.flavors(gate).await.unwrap()[0].id.clone();
    let new = NewServer {
        name: "s1".to_owned(),
        image_id: Some(image),
        flavor_id: flavor,
        port_ids: vec![port.id],
        ..NewServer::default()
    };
    let id = cloud.create_server(&new, gate).await.unwrap();
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    let refused = environment
        .until_object("OpenStackServer", "s1", |server| {
            status_and_reason(server, "InstanceReady") == ("False", "AmbiguousMatch")
        })
        .await;
    let conditions = refused["status"]["conditions"].to_string();
    assert!(conditions.contains(id.as_str()), "{conditions}");
    delete_server(&environment, "s1").await;
    assert_eq!(environment.calls("server_delete"), 0);
    assert!(cloud.server(&id, gate).await.is_ok());
}

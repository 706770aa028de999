//! Objects in OpenStack that only have the name of one of a server's objects: they are neither deleted nor mixed up.

use capo_core::Priority;
use capo_openstack::{network::NewPort, volume::NewVolume};
use serde_json::json;
use test_support::env::{
    Environment,
    apply::apply,
    environment::{identity, status_and_reason},
};

use super::{delete_server, stand_alone::server, until_ready};
use crate::{
    cluster::brought::network,
    contract::{Access, Raw},
    gate::another_project::{credentials_in, second_project},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_a_user_outlives_the_object_that_was_refused_because_of_it() {
    let environment = Environment::in_namespace("their-volume").start().await;
    let network = environment.network("n").await;
    let theirs = NewVolume {
        name: "s1-root".to_owned(),
        size: 6,
        ..NewVolume::default()
    };
    let cloud = environment.openstack();
    let theirs = cloud.create_volume(&theirs, Priority::Gate).await.unwrap();
    // No server fits into the quota, so the second object is left with a volume of its own.
    let quota = json!({"service": "compute", "resource": "instances", "limit": 0});
    environment.command(json!({"quota": quota}));
    for (name, reason) in [("s1", "InvalidSpec"), ("s2", "QuotaExceeded")] {
        let mut wanted = server(&environment, name, &network);
        wanted["spec"]["rootVolume"] = json!({"sizeGiB": 5});
        apply(&environment.admin, &[wanted]).await.unwrap();
        environment
            .until_object("OpenStackServer", name, |server| {
                status_and_reason(server, "InstanceReady") == ("False", reason)
            })
            .await;
    }
    assert_eq!(environment.calls("volume_create"), 2);
    delete_server(&environment, "s1").await;
    delete_server(&environment, "s2").await;
    assert_eq!(environment.leftovers("s1"), ["volume s1-root"]);
    assert_eq!(environment.leftovers("s2"), Vec::<String>::new());
    let note = format!("The volume s1-root with id {} is not deleted", theirs.id);
    environment.until_noted(&note).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_of_a_user_outlives_the_servers_own_port_of_that_name() {
    let environment = Environment::in_namespace("their-port").start().await;
    let network = environment.network("n").await;
    let wanted = server(&environment, "s1", &network);
    apply(&environment.admin, &[wanted]).await.unwrap();
    until_ready(&environment, "OpenStackServer", "s1").await;
    let theirs = NewPort {
        name: "s1-0".to_owned(),
        network_id: network.into(),
        ..NewPort::default()
    };
    let cloud = environment.openstack();
    let theirs = cloud.create_port(&theirs, Priority::Gate).await.unwrap();
    delete_server(&environment, "s1").await;
    assert_eq!(environment.leftovers("s1"), ["port s1-0"]);
    assert!(cloud.port(&theirs.id, Priority::Gate).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_project_has_its_own_server_group_of_a_name() {
    let environment = Environment::in_namespace("two-groups").start().await;
    second_project(&environment);
    credentials_in(&environment, "other-config", "other").await;
    let theirs = Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: "other".to_owned(),
        password: "secret".into(),
        project: "other".to_owned(),
    })
    .await;
    let (other_network, _) = network(&theirs, "n", "10.7.0.0/24").await;
    let own_network = environment.network("n").await;
    let mut other = server(&environment, "s2", other_network.as_str().unwrap());
    other["spec"]["identityRef"] = identity();
    other["spec"]["identityRef"]["name"] = json!("other-config");
    for mut wanted in [server(&environment, "s1", &own_network), other] {
        wanted["spec"]["managedServerGroup"] = json!({"name": "g"});
        let name = wanted["metadata"]["name"].as_str().unwrap().to_owned();
        apply(&environment.admin, &[wanted]).await.unwrap();
        until_ready(&environment, "OpenStackServer", &name).await;
    }
    let projects = || {
        let dump = environment.cloud.control().dump();
        let groups = dump["server_groups"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut projects: Vec<_> = groups
            .iter()
            .map(|it| it["project_id"].to_string())
            .collect();
        projects.sort();
        projects
    };
    assert_eq!(projects().len(), 2, "{:?}", projects());
    delete_server(&environment, "s1").await;
    assert_eq!(projects(), [json!("other").to_string()]);
    delete_server(&environment, "s2").await;
    assert_eq!(projects(), Vec::<String>::new());
}

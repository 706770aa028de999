//! What is found at a takeover stays as it is: provider ids, servers whose image is gone, security groups.

use capo_core::Priority;
use capo_openstack::network::NewSecurityGroup;
use serde_json::{Value, json};

use test_support::env::{
    Environment,
    environment::{identity, status_and_reason},
};

use super::machine_spec;

fn is_ready(object: &Value) -> bool {
    status_and_reason(object, "Ready") == ("True", "Ready")
        && object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_id_has_no_region_of_the_cluster_and_is_never_rewritten() {
    let mut environment = Environment::in_namespace("provider-ids").start().await;
    let mut with_region = identity();
    with_region["region"] = json!("RegionOne");
    environment.foreign_cluster_with("c1", with_region).await;
    environment
        .cluster_api
        .create_machine("c1", "w1", false, machine_spec())
        .await;
    let machine = environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    let id = machine["status"]["instanceID"].as_str().unwrap().to_owned();
    assert_eq!(machine["spec"]["providerID"], format!("openstack:///{id}"));
    // An earlier version wrote the cluster's region into the provider id. It must stay, because the nodes have the same
    // id.
    environment.stop().await;
    let earlier = format!("openstack://RegionOne/{id}");
    let change = json!({"spec": {"providerID": earlier}});
    environment.patch("OpenStackMachine", "w1", change).await;
    let since = environment.cloud.control().last_call();
    environment.start().await;
    let machine = environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    assert_eq!(machine["spec"]["providerID"], earlier);
    assert_eq!(environment.writes_since(since), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_security_groups_means_all_that_match() {
    let environment = Environment::in_namespace("group-filters").start().await;
    environment.foreign_cluster("c1").await;
    let cloud = environment.openstack();
    let mut expected = Vec::new();
    for name in ["one", "two"] {
        let new = NewSecurityGroup {
            name: name.to_owned(),
            description: "of workers".to_owned(),
        };
        let group = cloud.create_security_group(&new, Priority::Gate).await;
        expected.push(group.unwrap().id.to_string());
    }
    expected.sort();
    let mut spec = machine_spec();
    spec["securityGroups"] = json!([
        {"filter": {"description": "of workers"}},
        {"filter": {"name": "one"}},
    ]);
    environment
        .cluster_api
        .create_machine("c1", "w1", false, spec)
        .await;
    environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    let server = environment.get("OpenStackServer", "w1").await;
    let groups = &server["status"]["resolved"]["ports"][0]["securityGroups"];
    let mut groups: Vec<String> = serde_json::from_value(groups.clone()).unwrap();
    groups.sort();
    assert_eq!(groups, expected);
}

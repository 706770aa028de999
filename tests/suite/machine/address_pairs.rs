//! `allowedAddressPairs` that change after a machine's server was created.

use capo_core::Priority;
use capo_openstack::network::PortFilter;
use kube::api::PostParams;
use serde_json::{Value, json};
use test_support::env::{
    Environment,
    apply::first_manifest,
    cluster_api::{api, condition},
    environment::{identity, status_and_reason},
};

use super::machine_spec;

const OF_TEMPLATE: &str = "infrastructure.cluster.x-k8s.io/osmt-allowed-address-pairs";

/// The addresses of the pairs on a port.
async fn pairs(environment: &Environment, port: &str) -> Vec<String> {
    let filter = PortFilter {
        name: Some(port.to_owned()),
        ..PortFilter::default()
    };
    let found = environment
        .openstack()
        .ports(&filter, Priority::Gate)
        .await
        .unwrap();
    let pairs = found[0].allowed_address_pairs.iter();
    pairs.map(|pair| pair.ip_address.clone()).collect()
}

async fn until_pairs(environment: &Environment, port: &str, expected: &[&str]) {
    test_support::waiting::until("the pairs to change", async || {
        (pairs(environment, port).await == expected).then_some(())
    })
    .await;
}

fn is_ready(machine: &Value) -> bool {
    status_and_reason(machine, "Ready") == ("True", "Ready")
}

fn ports(first: &[&str]) -> Value {
    let pairs: Vec<Value> = first.iter().map(|ip| json!({"ipAddress": ip})).collect();
    json!([{"allowedAddressPairs": pairs}, {"nameSuffix": "open", "enablePortSecurity": false}])
}

fn template(namespace: &str, first: &[&str]) -> Value {
    let mut spec = machine_spec();
    spec["ports"] = ports(first);
    spec["identityRef"] = identity();
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": "nodes", "namespace": namespace}, "spec": {"template": {"spec": spec}},
    })
}

/// A machine as a control plane or a MachineSet clones it.
async fn clone(environment: &Environment, name: &str) {
    let template = environment.get("OpenStackMachineTemplate", "nodes").await;
    let spec = template["spec"]["template"]["spec"].clone();
    environment
        .cluster_api
        .create_machine("c1", name, false, spec)
        .await;
    let annotations = json!({"cluster.x-k8s.io/cloned-from-name": "nodes",
        "cluster.x-k8s.io/cloned-from-groupkind": "OpenStackMachineTemplate.infrastructure.cluster.x-k8s.io"});
    environment
        .patch(
            "OpenStackMachine",
            name,
            json!({"metadata": {"annotations": annotations}}),
        )
        .await;
    environment
        .until_object("OpenStackMachine", name, is_ready)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_reach_the_ports_from_the_machine_and_from_its_template() {
    let environment = Environment::in_namespace("pairs").start().await;
    environment.foreign_cluster("c1").await;
    let made = template(&environment.namespace, &["10.7.0.0/24"]);
    api(
        &environment.admin,
        &environment.namespace,
        "OpenStackMachineTemplate",
    )
    .create(
        &PostParams::default(),
        &serde_json::from_value(made).unwrap(),
    )
    .await
    .unwrap();
    clone(&environment, "w1").await;
    clone(&environment, "w2").await;
    let machine = environment.get("OpenStackMachine", "w1").await;
    assert_eq!(machine["metadata"]["annotations"][OF_TEMPLATE], Value::Null);
    assert_eq!(pairs(&environment, "w1-0").await, ["10.7.0.0/24"]);
    assert_eq!(environment.calls("port_update"), 0);

    // The pairs are changed on one machine.
    let change = json!({"spec": {"ports": ports(&["10.8.0.0/24", "10.9.0.1"])}});
    environment.patch("OpenStackMachine", "w1", change).await;
    until_pairs(&environment, "w1-0", &["10.8.0.0/24", "10.9.0.1"]).await;
    environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;

    // The pairs are changed on the template. The change reaches the machine that was not changed itself. A port without
    // port security gets no pairs.
    let mut later = ports(&["10.10.0.1"]);
    later[1]["allowedAddressPairs"] = json!([{"ipAddress": "10.10.0.2"}]);
    let later = json!({"spec": {"template": {"spec": {"ports": later}}}});
    environment
        .patch("OpenStackMachineTemplate", "nodes", later)
        .await;
    until_pairs(&environment, "w2-0", &["10.10.0.1"]).await;
    environment
        .until_object("OpenStackMachine", "w2", is_ready)
        .await;
    assert_eq!(
        pairs(&environment, "w1-0").await,
        ["10.8.0.0/24", "10.9.0.1"]
    );
    assert_eq!(pairs(&environment, "w2-open").await, Vec::<String>::new());
    let machine = environment.get("OpenStackMachine", "w2").await;
    assert_eq!(
        machine["metadata"]["annotations"][OF_TEMPLATE],
        r#"[[{"ipAddress":"10.10.0.1"}],[{"ipAddress":"10.10.0.2"}]]"#
    );
    assert_eq!(environment.calls("port_update"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_that_neutron_refuses_are_shown_and_the_server_stays_ready() {
    let environment = Environment::in_namespace("pairs-refused").start().await;
    environment.foreign_cluster("c1").await;
    let mut documented = first_manifest("docs/address-pairs.md").unwrap();
    let mut spec = documented["spec"]["template"]["spec"].take();
    for key in ["image", "flavor"] {
        spec[key] = machine_spec()[key].clone();
    }
    environment
        .cluster_api
        .create_machine("c1", "w1", false, spec.clone())
        .await;
    environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    assert_eq!(pairs(&environment, "w1-0").await, ["10.6.0.100"]);
    environment.command(json!({"fault": {"match": {"label": "port_update"}, "status": 403}}));
    let change = json!({"spec": {"ports": [ports(&["10.8.0.0/24"])[0]]}});
    environment.patch("OpenStackMachine", "w1", change).await;
    let refused = environment
        .until_object("OpenStackMachine", "w1", |machine| {
            status_and_reason(machine, "PortsReady").0 == "False"
        })
        .await;
    assert_eq!(
        status_and_reason(&refused, "InstanceReady"),
        ("True", "Ready")
    );
    assert_eq!(refused["status"]["initialization"]["provisioned"], true);
    environment.command(json!({"clear": "faults"}));
    let healed = environment
        .until_object("OpenStackMachine", "w1", is_ready)
        .await;
    assert_eq!(condition(&healed, "PortsReady"), None);
    assert_eq!(pairs(&environment, "w1-0").await, ["10.8.0.0/24"]);
}

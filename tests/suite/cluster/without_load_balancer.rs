//! A cluster without a managed load balancer: the API server's floating IP is on a control-plane machine.

use std::time::Duration;

use capo_core::Priority;
use capo_openstack::network::{NetworkFilter, NewFloatingIp, NewPort};
use reqwest::Method;
use serde_json::{Value, json};
use test_support::{
    contract::{Access, Raw},
    env::{
        Environment,
        environment::{is, quick_gate, status_and_reason},
    },
    waiting::until,
};

use super::quick;
use crate::env::{
    apply::apply,
    cluster_api::{api, condition},
};

pub(super) const HOOK: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";

pub(super) async fn start(namespace: &str) -> Environment {
    let gate = capo_gate::Settings {
        proof_window: Duration::from_secs(1),
        ..quick_gate()
    };
    Environment::in_namespace(namespace)
        .cloud(quick())
        .gate(gate)
        .start()
        .await
}

pub(super) async fn create(environment: &Environment, change: Value) {
    let mut all = json!({"apiServer": {"managedLoadBalancer": {"enabled": false}}});
    json_patch::merge(&mut all, &change);
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", all))
        .await;
}

async fn provisioned(environment: &Environment) -> Value {
    environment
        .until_provisioned("OpenStackCluster", "c1")
        .await
}

pub(super) async fn machine(environment: &Environment, name: &str) {
    let spec = json!({"identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
        "flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "cirros"}}});
    environment
        .cluster_api
        .create_machine("c1", name, true, spec)
        .await;
}

/// Waits until the node of a machine has joined, and our hook is on the Machine.
pub(super) async fn joined(environment: &Environment, name: &str) {
    environment
        .until_object("Machine", name, |machine| {
            !machine["status"]["nodeRef"].is_null()
                && machine["metadata"]["annotations"][HOOK].is_string()
        })
        .await;
}

/// The objects of this kind in Neutron.
fn of_kind(environment: &Environment, kind: &str) -> Vec<Value> {
    let cloud = environment.cloud.control().dump();
    cloud["network"][kind].as_array().unwrap().clone()
}

/// The name of the port with the only floating IP; null while it is on none.
pub(super) fn carrier(environment: &Environment) -> Value {
    let floating = of_kind(environment, "floatingips");
    assert_eq!(floating.len(), 1, "{floating:#?}");
    let port = of_kind(environment, "ports")
        .into_iter()
        .find(|port| port["id"] == floating[0]["port_id"]);
    port.map_or(Value::Null, |port| port["name"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floating_ip_is_on_a_machine_and_moves_before_that_machine_goes() {
    let mut environment = start("floating-moves").await;
    create(&environment, json!({})).await;
    let made = provisioned(&environment).await;
    let endpoint = made["spec"]["controlPlaneEndpoint"]["host"].clone();
    assert_eq!(
        endpoint,
        of_kind(&environment, "floatingips")[0]["floating_ip_address"]
    );
    let waits = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            is(cluster, "APIEndpointReady", "False")
        })
        .await;
    assert!(
        is(&waits, "Ready", "False"),
        "no client can reach the API server yet"
    );

    machine(&environment, "cp-0").await;
    environment.until_ready("c1").await;
    assert_eq!(carrier(&environment), "cp-0-0");
    joined(&environment, "cp-0").await;
    environment
        .until_object("OpenStackMachine", "cp-0", |machine| {
            is(machine, "APIServerIngressReady", "True")
        })
        .await;

    // A new process finds everything as it is.
    environment.stop().await;
    let mark = environment.cloud.control().last_call();
    environment.start().await;
    environment.one_more_pass("c1").await;
    environment.until_ready("c1").await;
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());

    machine(&environment, "cp-1").await;
    joined(&environment, "cp-1").await;
    assert_eq!(
        carrier(&environment),
        "cp-0-0",
        "a machine that stays keeps it"
    );
    let mark = environment.cloud.control().last_call();
    environment.cluster_api.delete("Machine", "cp-0").await;
    until("the floating IP is on the other machine", async || {
        (carrier(&environment) == "cp-1-0").then_some(())
    })
    .await;
    // Without the cluster's CA no answer through the floating IP can be verified, and so none counts.
    for _ in 0..2 {
        environment.one_more_pass("c1").await;
    }
    let held = environment.get("Machine", "cp-0").await;
    assert!(held["metadata"]["annotations"][HOOK].is_string());
    let authority = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "c1-ca", "namespace": environment.namespace}, "stringData": {"tls.crt": "a certificate"}});
    apply(&environment.admin, &[authority]).await.unwrap();
    environment.until_gone("OpenStackMachine", "cp-0").await;
    assert_eq!(carrier(&environment), "cp-1-0");
    let writes = environment.writes_since(mark);
    let order: Vec<&str> = writes
        .iter()
        .map(String::as_str)
        .filter(|label| ["floating_ip_update", "server_delete"].contains(label))
        .collect();
    assert_eq!(order, ["floating_ip_update", "server_delete"]);

    // No other machine could get the floating IP of the last one, so the last machine is held.
    environment.cluster_api.delete("Machine", "cp-1").await;
    let held = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            status_and_reason(cluster, "APIEndpointReady") == ("False", "FloatingIPError")
        })
        .await;
    let (_, _, message) = condition(&held, "APIEndpointReady").unwrap();
    assert!(message.contains("cp-1"), "{message}");
    let kept = environment.get("Machine", "cp-1").await;
    assert!(kept["metadata"]["annotations"][HOOK].is_string());

    // The deletion of the whole cluster ends the hold.
    environment.delete("c1").await;
    assert_eq!(of_kind(&environment, "floatingips"), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_the_user_looks_after_is_left_alone() {
    let environment = start("floating-given").await;
    // The user provides the endpoint, such as an address of kube-vip.
    create(
        &environment,
        json!({"controlPlaneEndpoint": {"host": "10.6.0.200", "port": 8443}}),
    )
    .await;
    let ready = environment.until_ready("c1").await;
    // The port of an endpoint that is not ours says nothing about the nodes behind it.
    let group = &ready["status"]["controlPlaneSecurityGroup"]["id"];
    let opened: Vec<i64> = of_kind(&environment, "security_group_rules")
        .iter()
        .filter(|rule| rule["security_group_id"] == *group && rule["direction"] == "ingress")
        .filter_map(|rule| rule["port_range_min"].as_i64())
        .collect();
    assert!(
        opened.contains(&6443) && !opened.contains(&8443),
        "{opened:?}"
    );
    machine(&environment, "cp-0").await;
    environment
        .until_provisioned("OpenStackMachine", "cp-0")
        .await;
    environment.until_ready("c1").await;
    assert_eq!(of_kind(&environment, "floatingips"), Vec::<Value>::new());
    environment.cluster_api.delete("Machine", "cp-0").await;
    environment.until_gone("OpenStackMachine", "cp-0").await;
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floating_ip_on_a_port_of_kube_vip_stays_there() {
    let mut environment = start("floating-kube-vip").await;
    let openstack = environment.openstack();
    let filter = NetworkFilter {
        external: Some(true),
        ..NetworkFilter::default()
    };
    let outside = openstack.networks(&filter, Priority::Gate).await.unwrap();
    let new = NewFloatingIp {
        floating_network_id: outside[0].id.clone(),
        ..NewFloatingIp::default()
    };
    let floating = openstack.create_floating_ip(&new, Priority::Gate).await;
    let floating = floating.unwrap();
    let address = floating.floating_ip_address.unwrap().to_string();
    let endpoint = json!({"host": address, "port": 6443});
    create(&environment, json!({"controlPlaneEndpoint": endpoint})).await;
    let made = provisioned(&environment).await;

    // A running manager may not read a floating IP that it knows for minutes, so it is restarted.
    environment.stop().await;
    let network = made["status"]["network"]["id"].as_str().unwrap();
    let new = NewPort {
        name: "kube-vip".to_owned(),
        network_id: network.into(),
        ..NewPort::default()
    };
    let port = openstack.create_port(&new, Priority::Gate).await.unwrap();
    openstack
        .associate_floating_ip(&floating.id, Some(&port.id), Priority::Gate)
        .await
        .unwrap();
    let mark = environment.cloud.control().last_call();
    environment.start().await;
    machine(&environment, "cp-0").await;
    environment
        .until_provisioned("OpenStackMachine", "cp-0")
        .await;
    environment.one_more_pass("c1").await;
    environment.until_ready("c1").await;
    // A machine is also not held until the floating IP has moved.
    environment.cluster_api.delete("Machine", "cp-0").await;
    environment.until_gone("OpenStackMachine", "cp-0").await;
    let writes = environment.writes_since(mark);
    assert!(
        !writes.contains(&"floating_ip_update".to_owned()),
        "{writes:?}"
    );
    assert_eq!(carrier(&environment), "kube-vip");
    openstack
        .delete_port(&port.id, Priority::Gate)
        .await
        .unwrap();
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floating_ip_that_the_user_brought_is_put_on_a_machine_and_stays_when_the_cluster_goes() {
    let environment = start("floating-brought").await;
    let raw = Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: "demo".into(),
        password: "secret".into(),
        project: "demo".into(),
    })
    .await;
    let (_, networks) = raw.get("network", "networks?name=public").await;
    let new = json!({"floatingip": {"floating_network_id": networks["networks"][0]["id"], "description": "the user's"}});
    let url = raw.address("network", "floatingips");
    let (_, brought) = raw.send(Method::POST, &url, Some(new)).await;
    let address = &brought["floatingip"]["floating_ip_address"];

    create(&environment, json!({"apiServer": {"floatingIP": address}})).await;
    machine(&environment, "cp-0").await;
    let ready = environment.until_ready("c1").await;
    assert_eq!(ready["spec"]["controlPlaneEndpoint"]["host"], *address);
    assert_eq!(carrier(&environment), "cp-0-0");
    assert_eq!(of_kind(&environment, "floatingips")[0]["tags"], json!([]));
    let clusters = api(&environment.admin, &environment.namespace, "Cluster");
    clusters
        .delete("c1", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    environment.until_gone("OpenStackCluster", "c1").await;
    assert_eq!(
        carrier(&environment),
        Value::Null,
        "it is free, and still there"
    );
}

/// A host that every resolver of the C library knows without asking a name server, and that is no IP address for Rust.
fn name_of(address: &str) -> String {
    let address: std::net::Ipv4Addr = address.parse().unwrap();
    let [a, b, c, d] = address.octets();
    format!("{a}.{b}.{}", u32::from(c) * 256 + u32::from(d))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_of_the_endpoint_chooses_the_floating_ip_of_the_machine() {
    let environment = start("floating-named").await;
    let raw = Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: "demo".into(),
        password: "secret".into(),
        project: "demo".into(),
    })
    .await;
    let (_, networks) = raw.get("network", "networks?name=public").await;
    let url = raw.address("network", "floatingips");
    let mut addresses = Vec::new();
    for _ in 0..3 {
        let new = json!({"floatingip": {"floating_network_id": networks["networks"][0]["id"]}});
        let (_, brought) = raw.send(Method::POST, &url, Some(new)).await;
        let address = brought["floatingip"]["floating_ip_address"].as_str();
        addresses.push(address.unwrap().to_owned());
    }
    let endpoint = json!({"host": name_of(&addresses[1]), "port": 6443});
    create(&environment, json!({"controlPlaneEndpoint": endpoint})).await;
    machine(&environment, "cp-0").await;
    let ready = environment.until_ready("c1").await;
    assert_eq!(ready["spec"]["controlPlaneEndpoint"], endpoint);
    let port = of_kind(&environment, "ports")
        .into_iter()
        .find(|port| port["name"] == "cp-0-0")
        .unwrap();
    let carried = |port: &Value| -> Vec<Value> {
        of_kind(&environment, "floatingips")
            .into_iter()
            .filter(|fip| fip["port_id"] == port["id"])
            .collect()
    };
    let on_machine = carried(&port);
    assert_eq!(on_machine.len(), 1);
    assert_eq!(on_machine[0]["floating_ip_address"], addresses[1]);
    assert_eq!(on_machine[0]["tags"], json!([]), "the user's");
    let clusters = api(&environment.admin, &environment.namespace, "Cluster");
    clusters
        .delete("c1", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    environment.until_gone("OpenStackCluster", "c1").await;
    assert_eq!(of_kind(&environment, "floatingips").len(), 3, "they stay");
}

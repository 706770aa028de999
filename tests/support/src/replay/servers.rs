//! Servers that belong to no cluster: with all their possible properties, in every state, and with an address from a
//! pool.

use serde_json::{Value, json};

use super::{Brought, ReplayEnvironment, identity, leftovers, list};
use crate::{
    contract::{CloudUnderTest, Contract, GATE, ServerState},
    env::{apply::apply, cluster_api::condition, garbage},
    waiting::until_true,
};

/// The time between two reads of a settled server.
const FLAGS: [&str; 1] = ["--sync-period=5s"];
const SERVER: &str = "OpenStackServer";
const POOL: &str = "OpenStackFloatingIPPool";

/// A server with only the required fields, changed by `change`.
fn server(name: &str, network: &str, change: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": SERVER,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "identityRef": identity(),
            "image": {"filter": {"name": "cirros"}},
            "flavor": "m1.small",
            "sshKeyName": "",
            "ports": [{"network": {"id": network}}],
        },
    });
    json_patch::merge(&mut object["spec"], change);
    object
}

/// Whether a server's condition shows this state.
fn is_ready(server: &Value, status: &str) -> bool {
    condition(server, "InstanceReady").is_some_and(|(is, ..)| is == status)
}

pub async fn trunk_volumes_server_group_and_config_drive(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let environment = ReplayEnvironment::start(under, &FLAGS, Vec::new()).await;
    let (network, _) = contract.network("10.7.0.0/24").await;
    let name = format!("{}-s", contract.name);
    let group = format!("{name}-group");
    let wanted = json!({
        "ports": [{"network": {"id": network.id}, "trunk": true}],
        "rootVolume": {"sizeGiB": 2},
        "additionalBlockDevices": [{"name": "etcd", "sizeGiB": 1, "storage": {"type": "Volume"}}],
        "managedServerGroup": {"name": group},
        "configDrive": true,
        "serverMetadata": [{"key": "purpose", "value": "test"}],
    });
    let wanted = server(&name, network.id.as_str(), &wanted);
    apply(&environment.admin, &[wanted]).await.unwrap();
    let made = environment.until_condition(SERVER, &name, "Ready").await;
    let id = made["status"]["instanceID"].as_str().unwrap();
    let (_, shown) = contract.raw.get("compute", &format!("servers/{id}")).await;
    let shown = &shown["server"];
    assert_eq!(shown["config_drive"], "True");
    assert_eq!(shown["metadata"], json!({"purpose": "test"}));
    let attached = shown["os-extended-volumes:volumes_attached"].as_array();
    assert_eq!(attached.unwrap().len(), 2, "{shown:#}");
    let groups = list(&contract, "compute", "os-server-groups").await;
    let own = groups.iter().find(|one| one["name"] == group.as_str());
    assert_eq!(own.unwrap()["members"], json!([id]));
    let trunks = list(&contract, "network", "trunks").await;
    let port = format!("{name}-0");
    let trunk = trunks.iter().find(|one| one["name"] == port.as_str());
    let ports = list(&contract, "network", "ports").await;
    let carried = ports.iter().find(|one| one["name"] == port.as_str());
    assert_eq!(trunk.unwrap()["port_id"], carried.unwrap()["id"]);
    assert_eq!(carried.unwrap()["device_id"], id);

    environment.delete(SERVER, &name).await;
    assert_eq!(leftovers(&contract, &name).await, Vec::<String>::new());
    contract.delete_network(&network).await;
}

pub async fn deleted_by_hand_repaired_and_deleted_softly(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let environment = ReplayEnvironment::start(under, &FLAGS, Vec::new()).await;
    let (network, _) = contract.network("10.7.1.0/24").await;
    let names = ["hand", "error", "soft"].map(|end| format!("{}-{end}", contract.name));
    let wanted = names
        .each_ref()
        .map(|name| server(name, network.id.as_str(), &json!({})));
    apply(&environment.admin, &wanted).await.unwrap();
    let mut ids = Vec::new();
    for name in &names {
        let made = environment.until_condition(SERVER, name, "Ready").await;
        ids.push(made["status"]["instanceID"].as_str().unwrap().to_owned());
    }
    let [by_hand, in_error, softly] = &names;
    let delete_by_hand = async |index: usize| {
        let id = ids[index].as_str().into();
        contract.cloud.delete_server(&id, GATE).await.unwrap();
    };

    delete_by_hand(0).await;
    under.write_server_state(in_error, ServerState::Error).await;
    environment
        .cluster_api
        .until_object(SERVER, by_hand, |it| is_ready(it, "False"))
        .await;
    environment
        .cluster_api
        .until_object(SERVER, in_error, |it| is_ready(it, "False"))
        .await;
    under
        .write_server_state(in_error, ServerState::Active)
        .await;
    let repaired = environment.until_condition(SERVER, in_error, "Ready").await;
    assert_eq!(repaired["status"]["instanceID"], json!(ids[1]));
    // The controller creates no second server.
    let lost = environment
        .cluster_api
        .until_object(SERVER, by_hand, |_| true)
        .await;
    assert_eq!(lost["status"]["instanceID"], json!(ids[0]));

    // Nova keeps the server until the time to reclaim it is over, but the deletion of the object does not wait for
    // that.
    under
        .write_server_state(softly, ServerState::SoftDeleted)
        .await;
    for name in &names {
        environment.delete(SERVER, name).await;
    }
    under.write_server_state(softly, ServerState::Active).await;
    delete_by_hand(2).await;
    until_true("nothing is left", async || {
        leftovers(&contract, &contract.name).await == [format!("networks {}", contract.name)]
    })
    .await;
    contract.delete_network(&network).await;
}

pub async fn a_floating_ip_of_a_pool(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let environment = ReplayEnvironment::start(under, &FLAGS, Vec::new()).await;
    let _collector = garbage::collect(&environment.admin, "default");
    let brought = Brought::create(&contract, "10.7.2.0/24").await;
    let pool = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": POOL,
        "metadata": {"name": "pool", "namespace": "default"},
        "spec": {"identityRef": identity(), "reclaimPolicy": "Delete", "maxIPs": 1},
    });
    let name = format!("{}-s", contract.name);
    let reference = json!({"floatingIPPoolRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": POOL, "name": "pool"}});
    let wanted = server(&name, brought.network.id.as_str(), &reference);
    apply(&environment.admin, &[pool, wanted]).await.unwrap();
    environment.until_condition(SERVER, &name, "Ready").await;
    let ports = list(&contract, "network", "ports").await;
    let port = format!("{name}-0");
    let port = ports
        .iter()
        .find(|one| one["name"] == port.as_str())
        .unwrap();
    let carried = async || {
        let all = list(&contract, "network", "floatingips").await;
        all.into_iter().find(|one| one["port_id"] == port["id"])
    };
    let address = carried().await.unwrap();
    let pool = environment
        .cluster_api
        .until_object(POOL, "pool", |_| true)
        .await;
    assert_eq!(
        pool["status"]["claimedIPs"],
        json!([address["floating_ip_address"]])
    );

    environment.delete(SERVER, &name).await;
    environment.delete(POOL, "pool").await;
    let all = list(&contract, "network", "floatingips").await;
    assert!(all.iter().all(|one| one["id"] != address["id"]), "kept");
    brought.delete(&contract).await;
}

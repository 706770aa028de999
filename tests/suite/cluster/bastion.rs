//! The bastion: enabled, changed, switched off, and enabled again, with what belongs to it.

use reqwest::Method;
use serde_json::{Value, json};

use test_support::env::{Environment, environment::is};

use super::quick;
use crate::contract::{Access, Raw};
use crate::env::cluster_api::condition;

const RANGE: &str = "192.0.2.0/24";

fn spec(flavor: &str, image: &str) -> Value {
    json!({"flavor": {"filter": {"name": flavor}}, "image": {"filter": {"name": image}}})
}

/// A cluster with a bastion whose access to the API server is restricted to some ranges.
async fn with_bastion(environment: &Environment, bastion: Value) -> Value {
    let change = json!({
        "bastion": bastion,
        "apiServer": {"managedLoadBalancer": {"allowedCIDRs": [RANGE]}},
        "managedSecurityGroups": {"clusterNodesSecurityGroupRules": [
            {"name": "metrics", "direction": "ingress", "protocol": "tcp", "portRangeMin": 9100, "portRangeMax": 9100,
                "remoteManagedGroups": ["bastion"]}]},
    });
    let infrastructure = environment.cluster("c1", change);
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    until_bastion(environment).await
}

/// The OpenStackCluster as soon as its bastion is ready for the present generation. A pass that stops before the
/// bastion leaves the condition as it was, with the generation that it was judged for.
async fn until_bastion(environment: &Environment) -> Value {
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            let conditions = cluster["status"]["conditions"].as_array();
            let ready = conditions
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == "BastionReady");
            ready.is_some_and(|ready| {
                ready["status"] == "True"
                    && ready["observedGeneration"] == cluster["metadata"]["generation"]
            })
        })
        .await
}

async fn until_no_bastion(environment: &Environment) -> Value {
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            condition(cluster, "BastionReady").is_none() && cluster["status"]["bastion"].is_null()
        })
        .await
}

async fn change(environment: &Environment, bastion: Value) {
    let change = json!({"spec": {"bastion": bastion}});
    environment.patch("OpenStackCluster", "c1", change).await;
}

fn servers(environment: &Environment) -> Vec<Value> {
    let cloud = environment.cloud.control().dump();
    cloud["servers"].as_array().unwrap().clone()
}

fn of_kind(environment: &Environment, kind: &str) -> Vec<Value> {
    let cloud = environment.cloud.control().dump();
    cloud["network"][kind].as_array().unwrap().clone()
}

/// Ports of the nodes' groups that are open to the group with the id `group`.
fn open_to(environment: &Environment, group: &Value) -> Vec<i64> {
    let mut ports: Vec<i64> = of_kind(environment, "security_group_rules")
        .iter()
        .filter(|rule| rule["remote_group_id"] == *group)
        .map(|rule| rule["port_range_min"].as_i64().unwrap())
        .collect();
    ports.sort_unstable();
    ports
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bastion_is_created_replaced_switched_off_and_created_again() {
    let environment = Environment::in_namespace("bastion-life")
        .cloud(quick())
        .start()
        .await;
    let first = with_bastion(&environment, json!({"spec": spec("m1.small", "cirros")})).await;
    let bastion = &first["status"]["bastion"];
    let group = &first["status"]["bastionSecurityGroup"];
    assert_eq!(
        (&bastion["name"], &bastion["state"]),
        (&json!("c1-bastion"), &json!("ACTIVE"))
    );
    assert_eq!(bastion["id"], servers(&environment)[0]["id"]);
    assert_eq!(
        group["name"],
        "k8s-cluster-bastion-life-c1-secgroup-bastion"
    );
    assert_eq!(open_to(&environment, &group["id"]), [22, 22, 9100, 9100]);
    let port = of_kind(&environment, "ports")
        .into_iter()
        .find(|port| port["name"] == "c1-bastion-0")
        .unwrap();
    assert_eq!(port["security_groups"], json!([group["id"]]));
    let floating = bastion["floatingIP"].as_str().unwrap().to_owned();
    let own = format!("{floating}/32");
    let allowed = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            let ranges = &cluster["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
            ranges
                .as_array()
                .is_some_and(|all| all.contains(&json!(own)))
        })
        .await;
    let ranges = &allowed["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
    assert!(ranges.as_array().unwrap().contains(&json!(RANGE)));
    // The status shows ranges that are in force.
    let cloud = environment.cloud.control().dump();
    let balancer = &cloud["load_balancers"][0];
    assert_eq!(balancer["listeners"][0]["allowed_cidrs"], *ranges);

    // The objects are restored from a backup: they have no status, and owner references with the previous uids.
    environment.one_more_pass("c1").await;
    let mark = environment.cloud.control().last_call();
    let old_owner = json!([{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "name": "c1", "uid": "of-before"}]);
    let owned = json!({"metadata": {"ownerReferences": old_owner}});
    environment
        .patch("OpenStackServer", "c1-bastion", owned)
        .await;
    for (kind, name) in [
        ("OpenStackServer", "c1-bastion"),
        ("OpenStackCluster", "c1"),
    ] {
        environment.wipe_status(kind, name).await;
    }
    let restored = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            is(cluster, "BastionReady", "True") && cluster["status"]["bastion"]["ip"].is_string()
        })
        .await;
    for field in ["id", "ip", "floatingIP", "state"] {
        assert_eq!(
            restored["status"]["bastion"][field], bastion[field],
            "{field}"
        );
    }
    let uid = &restored["metadata"]["uid"];
    environment
        .until_object("OpenStackServer", "c1-bastion", |server| {
            server["metadata"]["ownerReferences"][0]["uid"] == *uid
        })
        .await;
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());

    // Another flavor needs another server, which gets the same floating IP.
    change(&environment, json!({"spec": spec("m1.medium", "cirros")})).await;
    let second = until_bastion(&environment).await;
    let replaced = &second["status"]["bastion"];
    assert_ne!(replaced["id"], bastion["id"]);
    assert_eq!(replaced["floatingIP"], bastion["floatingIP"]);
    assert_eq!(servers(&environment).len(), 1);

    // The new image does not exist. The old bastion is deleted nevertheless, because the user asked for another one.
    change(
        &environment,
        json!({"spec": spec("m1.medium", "no-such-image")}),
    )
    .await;
    let broken = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            condition(cluster, "BastionReady").is_some_and(|(status, _, message)| {
                status == "False" && message.contains("no-such-image")
            })
        })
        .await;
    assert!(
        is(&broken, "Ready", "True"),
        "no machine depends on the bastion"
    );
    assert_eq!(servers(&environment), Vec::<Value>::new());

    // The bastion is disabled, removed from the spec, and enabled again.
    change(&environment, json!({"enabled": false})).await;
    let off = until_no_bastion(&environment).await;
    assert_eq!(off["status"]["bastionSecurityGroup"], Value::Null);
    assert_eq!(open_to(&environment, &group["id"]), Vec::<i64>::new());
    assert_eq!(
        of_kind(&environment, "floatingips").len(),
        1,
        "the API server's"
    );
    assert_eq!(
        of_kind(&environment, "ports")
            .iter()
            .filter(|p| p["name"] == "c1-bastion-0")
            .count(),
        0
    );
    change(&environment, Value::Null).await;
    change(&environment, json!({"spec": spec("m1.small", "cirros")})).await;
    until_bastion(&environment).await;
    assert_eq!(servers(&environment).len(), 1);
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bastion_goes_although_what_it_was_made_of_is_gone_and_its_own_floating_ip_stays() {
    let environment = Environment::in_namespace("bastion-gone")
        .cloud(quick())
        .start()
        .await;
    let raw = Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: "demo".into(),
        password: "secret".into(),
        project: "demo".into(),
    })
    .await;
    let (_, networks) = raw.get("network", "networks").await;
    let networks = networks["networks"].as_array().unwrap();
    let public = networks.iter().find(|one| one["name"] == "public").unwrap();
    let new =
        json!({"floatingip": {"floating_network_id": public["id"], "description": "the user's"}});
    let url = raw.address("network", "floatingips");
    let (_, brought) = raw.send(Method::POST, &url, Some(new)).await;
    let brought = brought["floatingip"]["floating_ip_address"].clone();

    let made = with_bastion(&environment, json!({"spec": spec("m1.small", "cirros")})).await;
    let created = &made["status"]["bastion"]["floatingIP"];
    assert!(created.is_string());
    // The server is replaced at the same time, so that the floating IP that was created for it is on no port.
    let bastion = json!({"spec": spec("m1.medium", "cirros"), "floatingIP": brought});
    change(&environment, bastion).await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            cluster["status"]["bastion"]["floatingIP"] == brought
        })
        .await;
    let floating = of_kind(&environment, "floatingips");
    let addresses: Vec<&Value> = floating
        .iter()
        .map(|fip| &fip["floating_ip_address"])
        .collect();
    assert!(
        addresses.len() == 2 && !addresses.contains(&created),
        "{addresses:?}"
    );

    // Image, flavor, key pair and server group can't be looked up any more.
    for label in [
        "image_list",
        "image_get",
        "flavor_list",
        "flavor_get",
        "server_group_list",
    ] {
        environment.command(json!({"fault": {"match": {"label": label}, "status": 404}}));
    }
    change(&environment, json!({"enabled": false})).await;
    until_no_bastion(&environment).await;
    assert_eq!(servers(&environment), Vec::<Value>::new());
    let floating = of_kind(&environment, "floatingips");
    let kept = floating
        .iter()
        .find(|fip| fip["floating_ip_address"] == brought)
        .unwrap();
    assert_eq!(
        (&kept["port_id"], &kept["tags"]),
        (&Value::Null, &json!([]))
    );
    environment.delete("c1").await;
}

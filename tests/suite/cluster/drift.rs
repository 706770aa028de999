//! Objects that a user changed by hand, and services that fail after a restart.

use std::time::Duration;

use fake_cloud::Call;
use futures::future::join_all;

use reqwest::Method;
use serde_json::{Value, json};
use test_support::{
    contract::{Access, Raw},
    env::{Environment, environment::is},
    waiting::until,
};

use super::quick;
use crate::env::cluster_api::condition;

/// The user of the cloud, who makes changes by hand.
struct User(Raw);

impl User {
    async fn of(environment: &Environment) -> Self {
        let access = Access {
            auth_url: environment.cloud.auth_url(),
            user: "demo".into(),
            password: "secret".into(),
            project: "demo".into(),
        };
        Self(Raw::sign_in(&access).await)
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let url = self.0.address("network", path);
        let (status, answer) = self.0.send(method, &url, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    async fn create(&self, path: &str, kind: &str, body: Value) -> Value {
        self.send(Method::POST, path, json!({ kind: body })).await[kind].clone()
    }

    async fn rename(&self, path: &str, kind: &str, id: &Value) {
        let path = format!("{path}/{}", id.as_str().unwrap());
        let body = json!({kind: {"name": "renamed by hand"}});
        self.send(Method::PUT, &path, body).await;
    }
}

async fn ready(environment: &Environment, name: &str, change: Value) -> Value {
    environment
        .cluster_api
        .create_cluster(name, environment.cluster(name, change))
        .await;
    environment.until_ready(name).await
}

/// The calls with this label since call number `mark`.
fn calls(environment: &Environment, mark: u64, label: &str) -> usize {
    let calls = environment.cloud.control().calls_since(mark);
    calls.iter().filter(|call| call.label == label).count()
}

fn fault(environment: &Environment, label: &str) -> u64 {
    let fault = json!({"fault": {"match": {"label": label}, "status": 500}});
    environment.command(fault)["id"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_renamed_is_found_and_interfaces_of_others_stay_on_the_router() {
    let environment = Environment::in_namespace("drift-renamed")
        .cloud(quick())
        .start()
        .await;
    let made = ready(&environment, "c1", json!({})).await;
    let user = User::of(&environment).await;
    let router = made["status"]["router"]["id"].clone();
    user.rename("networks", "network", &made["status"]["network"]["id"])
        .await;
    user.rename("routers", "router", &router).await;
    let network = user
        .create("networks", "network", json!({"name": "another"}))
        .await;
    let subnet = json!({"name": "another", "network_id": network["id"], "cidr": "10.99.0.0/24", "ip_version": 4});
    let subnet = user.create("subnets", "subnet", subnet).await;
    let path = |verb: &str| format!("routers/{}/{verb}", router.as_str().unwrap());
    let interface = json!({"subnet_id": subnet["id"]});
    user.send(
        Method::PUT,
        &path("add_router_interface"),
        interface.clone(),
    )
    .await;

    // A new generation makes the next pass read everything.
    let mark = environment.cloud.control().last_call();
    let change = json!({"spec": {"controlPlaneOmitAvailabilityZone": true}});
    environment.patch("OpenStackCluster", "c1", change).await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"]
        })
        .await;
    assert!(calls(&environment, mark, "network_get") > 0);
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());

    environment.cluster_api.delete("Cluster", "c1").await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            condition(cluster, "RouterReady").is_some_and(|(_, reason, _)| reason == "Deleting")
        })
        .await;
    let cloud = environment.cloud.control().dump();
    let ports = cloud["network"]["ports"].as_array().unwrap();
    let of_others = ports
        .iter()
        .filter(|port| port["network_id"] == network["id"] && port["device_id"] == router);
    assert_eq!(of_others.count(), 1, "the user's interface");
    user.send(Method::PUT, &path("remove_router_interface"), interface)
        .await;
    environment.until_gone("OpenStackCluster", "c1").await;
    assert_eq!(
        environment.leftovers("renamed by hand"),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_a_service_that_fails_takes_nothing_back_that_was_known() {
    let mut environment = Environment::in_namespace("drift-faults")
        .cloud(quick())
        .start()
        .await;
    let change = json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["192.0.2.0/24"]}}});
    let made = ready(&environment, "c1", change).await;
    let before = &made["status"]["apiServerManagedLoadBalancer"];
    let ranges = before["allowedCIDRs"].to_string();
    assert!(ranges.contains("192.0.2.0/24"), "{ranges}");
    environment.stop().await;
    let mark = environment.cloud.control().last_call();
    let faults = ["network_list", "floating_ip_list", "availability_zone_list"]
        .map(|label| fault(&environment, label));
    environment.start().await;
    for (kind, repaired) in [("NetworkReady", faults[0]), ("APIEndpointReady", faults[1])] {
        let failing = environment
            .until_object("OpenStackCluster", "c1", |cluster| {
                is(cluster, kind, "Unknown")
            })
            .await;
        let shown = &failing["status"]["apiServerManagedLoadBalancer"];
        assert_eq!(shown["ip"], before["ip"], "never the VIP in its place");
        assert_ne!(shown["ip"], shown["internalIP"]);
        assert_eq!(shown["allowedCIDRs"], before["allowedCIDRs"], "{kind}");
        assert_eq!(
            failing["status"]["failureDomains"],
            made["status"]["failureDomains"]
        );
        environment.command(json!({"remove_fault": repaired}));
    }
    environment.until_ready("c1").await;
    environment.command(json!({"remove_fault": faults[2]}));
    // In particular, no listener was opened to every address.
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());

    // The load balancer is looked up even if the network can't be read.
    environment.stop().await;
    let broken = fault(&environment, "network_list");
    environment.wipe_status("OpenStackCluster", "c1").await;
    environment.start().await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            is(cluster, "APIServerLoadBalancerReady", "True")
                && is(cluster, "NetworkReady", "Unknown")
        })
        .await;
    environment.command(json!({"remove_fault": broken}));
    environment.until_ready("c1").await;
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_subnet_has_the_vip_and_a_router_without_an_external_network_is_not_joined() {
    let environment = Environment::in_namespace("drift-subnets")
        .cloud(quick())
        .start()
        .await;
    let user = User::of(&environment).await;
    let network = user
        .create("networks", "network", json!({"name": "two"}))
        .await;
    let mut subnets = Vec::new();
    for (name, cidr) in [("first", "10.7.0.0/24"), ("second", "10.8.0.0/24")] {
        let subnet =
            json!({"name": name, "network_id": network["id"], "cidr": cidr, "ip_version": 4});
        subnets.push(user.create("subnets", "subnet", subnet).await["id"].clone());
    }
    let change = json!({
        "managedSubnets": null, "network": {"id": network["id"]}, "primarySubnet": {"id": subnets[1]},
        "apiServer": {"enableFloatingIP": false},
    });
    let primary = ready(&environment, "primary", change).await;
    let vip = primary["status"]["apiServerManagedLoadBalancer"]["internalIP"].as_str();
    assert!(vip.unwrap().starts_with("10.8.0."), "{vip:?}");

    user.create("routers", "router", json!({"name": "mine"}))
        .await;
    let mark = environment.cloud.control().last_call();
    let change = json!({
        "router": {"filter": {"name": "mine"}}, "enableExternalNetwork": false,
        "apiServer": {"enableFloatingIP": false},
    });
    ready(&environment, "internal", change).await;
    assert_eq!(calls(&environment, mark, "add_router_interface"), 0);
    for name in ["primary", "internal"] {
        environment.delete(name).await;
    }
}

/// The lists of subnets since call number `mark`, and whether each was asked for one network only.
fn subnet_lists(environment: &Environment, mark: u64) -> Vec<bool> {
    let of_one_network = |call: &Call| call.query.iter().any(|(key, _)| key == "network_id");
    let calls = environment.cloud.control().calls_since(mark);
    let lists = calls.iter().filter(|call| call.label == "subnet_list");
    lists.map(of_one_network).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_of_a_project_share_the_lists_that_show_what_was_changed_by_hand() {
    let mut environment = Environment::in_namespace("drift-shared")
        .cloud(quick())
        .start()
        .await;
    let spec = json!({"managedSecurityGroups": {"allowAllInClusterTraffic": true}});
    let names = ["c1", "c2", "c3", "c4", "c5"];
    let made = join_all(names.map(|name| ready(&environment, name, spec.clone()))).await;
    environment.stop().await;
    environment.sync_period = Duration::from_secs(4);
    environment.start().await;

    // The first passes of the new process read each cluster separately. Shared lists replace these reads later.
    let mut mark = environment.cloud.control().last_call();
    until(
        "three lists of subnets in a row are of the project",
        async || {
            let lists = subnet_lists(&environment, mark);
            if lists.contains(&true) {
                mark = environment.cloud.control().last_call();
            }
            (lists.len() >= 3 && !lists.contains(&true)).then_some(())
        },
    )
    .await;

    let group = &made[2]["status"]["controlPlaneSecurityGroup"]["id"];
    let rules = || {
        let cloud = environment.cloud.control().dump();
        let rules = cloud["network"]["security_group_rules"].as_array().unwrap();
        let of_group = rules
            .iter()
            .filter(|rule| rule["security_group_id"] == *group);
        of_group.map(|rule| rule["id"].clone()).collect::<Vec<_>>()
    };
    let before = rules();
    let user = User::of(&environment).await;
    let path = format!("security-group-rules/{}", before[0].as_str().unwrap());
    user.send(Method::DELETE, &path, Value::Null).await;
    until("the rule is there again", async || {
        let now = rules();
        (now.len() == before.len() && now != before).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_an_operator_moved_stays_there_and_is_reported() {
    let environment = Environment::in_namespace("drift-gateway")
        .cloud(quick())
        .start()
        .await;
    let access = Access {
        auth_url: environment.cloud.auth_url(),
        user: "admin".into(),
        password: "secret".into(),
        project: "admin".into(),
    };
    let admin = User(Raw::sign_in(&access).await);
    // A cloud with two external networks needs to be told which one.
    let public =
        admin.0.get("network", "networks?name=public").await.1["networks"][0]["id"].clone();
    let change =
        json!({"externalNetwork": {"id": public}, "apiServer": {"enableFloatingIP": false}});
    let made = ready(&environment, "c1", change).await;
    let other = json!({"name": "public-2", "router:external": true, "shared": true});
    let other = admin.create("networks", "network", other).await["id"].clone();
    let subnet = json!({"name": "public-2", "network_id": other, "cidr": "198.51.100.0/24", "ip_version": 4});
    admin.create("subnets", "subnet", subnet).await;
    let path = format!(
        "routers/{}",
        made["status"]["router"]["id"].as_str().unwrap()
    );
    let moved = json!({"router": {"external_gateway_info": {"network_id": other}}});
    admin.send(Method::PUT, &path, moved).await;

    let mark = environment.cloud.control().last_call();
    let change = json!({"spec": {"controlPlaneOmitAvailabilityZone": true}});
    environment.patch("OpenStackCluster", "c1", change).await;
    environment.until_noted("the gateway of router").await;
    environment.until_noted(other.as_str().unwrap()).await;
    environment.until_ready("c1").await;
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());
    let (_, router) = admin.0.get("network", &path).await;
    assert_eq!(
        router["router"]["external_gateway_info"]["network_id"],
        other
    );
    environment.delete("c1").await;
}

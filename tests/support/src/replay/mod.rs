//! Whole clusters and servers on any cloud ([`clusters`], [`servers`]): what CAPO's users do every day. The manager is
//! the shipped one, and the results are checked with OpenStack's own APIs. `make test` runs this on the fake cloud and
//! `make test-openstack` on a real OpenStack.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

pub mod clusters;
pub mod servers;

use std::ops::Deref;

use capo_openstack::network::{Network, NetworkFilter, Subnet};
use kube::api::{Patch, PatchParams};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    contract::{CloudUnderTest, Contract, GATE},
    env::{
        Manager, ScriptedCluster,
        cluster_api::{api, condition},
        manager::counted,
        scripted_cluster::{self, NAMESPACE},
    },
    waiting::until_true,
};

/// Makes a test of the life of every cluster and server, for the cloud that the function `$start` returns.
#[macro_export]
macro_rules! replay_tests {
    ($start:ident) => {
        mod clusters {
            $crate::replay_tests! { $start, clusters:
                a_load_balancer_that_is_deleted_by_hand_is_created_again_with_its_address,
                what_the_user_brings_is_used_and_stays,
                a_bastion_is_created_replaced_switched_off_and_created_again,
                without_a_load_balancer_the_floating_ip_moves_before_its_machine_goes,
                additional_ports_allowed_ranges_and_rules_of_both_families,
                a_load_balancer_in_a_network_of_its_own,
                a_cluster_whose_only_subnet_is_of_ipv6,
            }
        }
        mod servers {
            $crate::replay_tests! { $start, servers:
                trunk_volumes_server_group_and_config_drive,
                deleted_by_hand_repaired_and_deleted_softly,
                a_floating_ip_of_a_pool,
            }
        }
    };
    ($start:ident, $module:ident: $($life:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $life() {
                let cloud = super::$start().await;
                Box::pin($crate::replay::$module::$life(&cloud)).await;
            }
        )+
    };
}

/// A kube-apiserver, Cluster API as a script, and the manager with the credentials of a cloud.
pub struct ReplayEnvironment {
    // The fields are dropped in this order.
    pub manager: Manager,
    cluster: ScriptedCluster,
}

impl Deref for ReplayEnvironment {
    type Target = ScriptedCluster;

    fn deref(&self) -> &ScriptedCluster {
        &self.cluster
    }
}

impl ReplayEnvironment {
    /// Starts all of this.
    pub async fn start(
        under: &impl CloudUnderTest,
        flags: &[&str],
        variables: Vec<(String, String)>,
    ) -> Self {
        let cluster = ScriptedCluster::start().await.unwrap();
        let logs = cluster.kubernetes.folder();
        let manager = cluster.installation.start_manager(logs, flags, variables);
        let mut manager = manager.unwrap();
        manager.until_ready().await.unwrap();
        let clouds_yaml = clouds_yaml(under);
        cluster.credentials("cloud-config", &clouds_yaml).await;
        Self { manager, cluster }
    }

    /// Waits until a condition is True.
    async fn until_condition(&self, kind: &str, name: &str, wanted: &str) -> Value {
        let is_true =
            |object: &Value| condition(object, wanted).is_some_and(|(status, ..)| status == "True");
        self.cluster_api.until_object(kind, name, is_true).await
    }

    /// Waits until this many further passes over OpenStackClusters have ended.
    async fn passes(&self, more: usize) {
        let of_clusters = "controller_runtime_reconcile_total{controller=\"openstackcluster\",";
        let ended = async || counted(&self.manager.metrics().await, of_clusters);
        let before = ended().await;
        until_true("more passes", async || ended().await >= before + more).await;
    }

    async fn patch(&self, kind: &str, name: &str, change: Value) {
        api(&self.admin, NAMESPACE, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    }

    /// Deletes an object, and waits until it is gone.
    async fn delete(&self, kind: &str, name: &str) {
        self.cluster_api.delete(kind, name).await;
        self.cluster_api.until_gone(kind, name).await;
    }
}

/// The manager's credentials, as objects refer to them.
pub(crate) fn identity() -> Value {
    scripted_cluster::identity("cloud-config", "test")
}

fn clouds_yaml(under: &impl CloudUnderTest) -> String {
    let access = under.access();
    let yaml = json!({"clouds": {"test": {
        "auth": {
            "auth_url": access.auth_url, "username": access.user, "password": access.password,
            "project_name": access.project, "user_domain_name": "Default", "project_domain_name": "Default",
        },
        "region_name": "RegionOne",
    }}});
    yaml.to_string()
}

/// A network that the user provides, with a subnet and a router to the outside.
struct Brought {
    network: Network,
    subnet: Subnet,
    router: String,
}

impl Brought {
    async fn create(contract: &Contract, cidr: &str) -> Self {
        let (network, subnet) = contract.network(cidr).await;
        let filter = NetworkFilter {
            external: Some(true),
            ..NetworkFilter::default()
        };
        let outside = contract.cloud.networks(&filter, GATE).await.unwrap();
        let router = json!({"router": {"name": contract.name,
            "external_gateway_info": {"network_id": outside[0].id}}});
        let made = send(contract, Method::POST, "routers", Some(router)).await;
        let router = made["router"]["id"].as_str().unwrap().to_owned();
        let path = format!("routers/{router}/add_router_interface");
        let interface = json!({"subnet_id": subnet.id});
        send(contract, Method::PUT, &path, Some(interface)).await;
        Self {
            network,
            subnet,
            router,
        }
    }

    async fn delete(&self, contract: &Contract) {
        let path = format!("routers/{}/remove_router_interface", self.router);
        let interface = json!({"subnet_id": self.subnet.id});
        send(contract, Method::PUT, &path, Some(interface)).await;
        let path = format!("routers/{}", self.router);
        send(contract, Method::DELETE, &path, None).await;
        contract.delete_network(&self.network).await;
    }
}

/// Sends a request to Neutron and returns the answer.
async fn send(contract: &Contract, method: Method, path: &str, body: Option<Value>) -> Value {
    let url = contract.raw.address("network", path);
    let (status, answer) = contract.raw.send(method, &url, body).await;
    assert!(status < 300, "{path}: {status} {answer}");
    answer
}

/// A list of one of the services.
async fn list(contract: &Contract, service: &str, path: &str) -> Vec<Value> {
    let (status, answer) = contract.raw.get(service, path).await;
    assert_eq!(status, 200, "{path}: {answer}");
    let key = path.split(['?', '/']).next().unwrap().replace('-', "_");
    let key = key.trim_start_matches("os_").to_owned();
    answer[&key].as_array().unwrap().clone()
}

/// Objects that have `text` in their name or, as floating IPs, in their description.
pub async fn leftovers(contract: &Contract, text: &str) -> Vec<String> {
    let paths = [
        ("load-balancer", "loadbalancers"),
        ("compute", "servers"),
        ("compute", "os-server-groups"),
        ("network", "networks"),
        ("network", "routers"),
        ("network", "ports"),
        ("network", "trunks"),
        ("network", "security-groups"),
        ("network", "floatingips"),
        ("volumev3", "volumes"),
    ];
    let mut left = Vec::new();
    for (service, path) in paths {
        for object in list(contract, service, path).await {
            let of = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
            if of("name").contains(text) || of("description").contains(text) {
                left.push(format!("{path} {}{}", of("name"), of("description")));
            }
        }
    }
    left
}

//! Clusters of every shape, which are created, changed and deleted until nothing of them is left.

mod ipv6;

pub use ipv6::a_cluster_whose_only_subnet_is_of_ipv6;

use serde_json::{Value, json};

use super::{Brought, ReplayEnvironment, identity, leftovers, list};
use crate::{
    contract::{CloudUnderTest, Contract, GATE},
    env::{
        cluster_api::{condition, is_provisioned},
        scripted_cluster::machine_spec,
    },
    rollout::HOOK,
    waiting::until_true,
};

const FLAGS: [&str; 1] = ["--sync-period=10s"];
/// The address range of a client.
const RANGE: &str = "192.0.2.0/24";

/// One cluster, in a management cluster of its own.
struct Life {
    environment: ReplayEnvironment,
    contract: Contract,
    cluster: String,
}

impl Life {
    /// Begins with a cluster that has a managed network, security groups and load balancer, except as `change` says.
    async fn begin(under: &impl CloudUnderTest, change: impl FnOnce(&Contract) -> Value) -> Self {
        let contract = Contract::with(under).await;
        let environment = ReplayEnvironment::start(under, &FLAGS, Vec::new()).await;
        let cluster = format!("{}-c", contract.name);
        let mut spec = json!({
            "identityRef": identity(),
            "managedSubnets": [{"cidr": "10.6.0.0/24"}],
            "managedSecurityGroups": {},
            "apiServer": {"managedLoadBalancer": {"enabled": true}},
        });
        json_patch::merge(&mut spec, &change(&contract));
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": cluster, "namespace": "default"}, "spec": spec,
        });
        environment
            .cluster_api
            .create_cluster(&cluster, object)
            .await;
        let life = Self {
            environment,
            contract,
            cluster,
        };
        life.until_cluster(is_provisioned).await;
        life
    }

    /// The OpenStackCluster as soon as `wanted` holds for it.
    async fn until_cluster(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let (kind, name) = ("OpenStackCluster", &self.cluster);
        self.environment
            .cluster_api
            .until_object(kind, name, wanted)
            .await
    }

    async fn change(&self, spec: Value) {
        let change = json!({ "spec": spec });
        self.environment
            .patch("OpenStackCluster", &self.cluster, change)
            .await;
    }

    /// Creates a control-plane machine and waits until its node has joined.
    async fn machine(&self, index: usize) -> String {
        let name = format!("{}-{index}", self.cluster);
        let spec = machine_spec(&identity(), "cirros");
        let cluster_api = &self.environment.cluster_api;
        cluster_api
            .create_machine(&self.cluster, &name, true, spec)
            .await;
        let has_joined = |machine: &Value| !machine["status"]["nodeRef"].is_null();
        self.environment
            .cluster_api
            .until_object("Machine", &name, has_joined)
            .await;
        name
    }

    /// Deletes the cluster and checks that nothing of it is left.
    async fn end(&self) {
        self.environment.delete("Cluster", &self.cluster).await;
        let left = leftovers(&self.contract, &self.cluster).await;
        assert_eq!(left, Vec::<String>::new());
    }

    /// The only load balancer of the cluster.
    async fn load_balancer(&self) -> Option<Value> {
        let all = list(&self.contract, "load-balancer", "loadbalancers").await;
        let of_cluster = |one: &Value| one["name"].as_str().unwrap().contains(&self.cluster);
        let mut own = all.into_iter().filter(of_cluster);
        let found = own.next();
        assert_eq!(own.next(), None, "a second load balancer");
        found
    }

    /// The name of the port that carries a floating IP.
    async fn carrier(&self, address: &Value) -> Value {
        let addresses = list(&self.contract, "network", "floatingips").await;
        let of_address = |one: &&Value| one["floating_ip_address"] == *address;
        let carried = addresses.iter().find(of_address).unwrap();
        let ports = list(&self.contract, "network", "ports").await;
        let port = ports
            .into_iter()
            .find(|port| port["id"] == carried["port_id"]);
        port.map_or(Value::Null, |port| port["name"].clone())
    }

    /// The rules of the cluster's groups.
    async fn rules(&self) -> Vec<Value> {
        let groups = list(&self.contract, "network", "security-groups").await;
        let of_cluster = |group: &Value| group["name"].as_str().unwrap().contains(&self.cluster);
        let own = groups.into_iter().filter(of_cluster);
        own.flat_map(|group| group["security_group_rules"].as_array().unwrap().clone())
            .collect()
    }
}

pub async fn a_load_balancer_that_is_deleted_by_hand_is_created_again_with_its_address(
    under: &impl CloudUnderTest,
) {
    let life = Life::begin(under, |_| json!({})).await;
    life.machine(0).await;
    let before = life.load_balancer().await.unwrap();
    let shown = life.until_cluster(|_| true).await;
    let id = before["id"].as_str().unwrap().into();
    until_true("Octavia takes the deletion", async || {
        let deleted = life.contract.cloud.delete_load_balancer(&id, GATE);
        deleted.await.is_ok()
    })
    .await;
    let after = life
        .until_cluster(|cluster| {
            let now = &cluster["status"]["apiServerManagedLoadBalancer"]["id"];
            let ready = condition(cluster, "APIServerLoadBalancerReady");
            now.is_string() && *now != before["id"] && ready.is_some_and(|(is, ..)| is == "True")
        })
        .await;
    let balancer = life.load_balancer().await.unwrap();
    assert_eq!(balancer["vip_address"], before["vip_address"]);
    let public = |cluster: &Value| cluster["status"]["apiServerManagedLoadBalancer"]["ip"].clone();
    assert_eq!(public(&after), public(&shown));
    let pools = list(&life.contract, "load-balancer", "pools").await;
    let own = pools
        .iter()
        .find(|pool| pool["loadbalancers"][0]["id"] == balancer["id"]);
    assert_eq!(own.unwrap()["members"].as_array().unwrap().len(), 1);
    life.end().await;
}

pub async fn what_the_user_brings_is_used_and_stays(under: &impl CloudUnderTest) {
    let owner = Contract::with(under).await;
    let brought = Brought::create(&owner, "10.8.0.0/24").await;
    let life = Life::begin(under, |_| {
        json!({
            "managedSubnets": null,
            "network": {"filter": {"name": owner.name}},
            "subnets": [{"id": brought.subnet.id}],
            "router": {"id": brought.router},
        })
    })
    .await;
    life.machine(0).await;
    let balancer = life.load_balancer().await.unwrap();
    assert_eq!(balancer["vip_subnet_id"], json!(brought.subnet.id));
    life.end().await;
    for kind in ["networks", "subnets", "routers"] {
        let all = list(&owner, "network", kind).await;
        let kept = all.iter().find(|one| one["name"] == owner.name.as_str());
        assert_eq!(kept.unwrap()["tags"], json!([]), "{kind}");
    }
    brought.delete(&owner).await;
}

pub async fn a_bastion_is_created_replaced_switched_off_and_created_again(
    under: &impl CloudUnderTest,
) {
    let spec = |flavor: &str| json!({"flavor": {"filter": {"name": flavor}}, "image": {"filter": {"name": "cirros"}}});
    // The cluster has only the bastion, because the user provides the endpoint.
    let life = Life::begin(under, |_| {
        json!({
            "apiServer": {"managedLoadBalancer": {"enabled": false}},
            "controlPlaneEndpoint": {"host": "10.6.0.200", "port": 6443},
            "bastion": {"spec": spec("m1.small")},
        })
    })
    .await;
    let is_up = |cluster: &Value| {
        condition(cluster, "BastionReady").is_some_and(|(status, ..)| status == "True")
            && cluster["status"]["bastion"]["state"] == "ACTIVE"
            && cluster["status"]["bastion"]["floatingIP"].is_string()
    };
    let first = life.until_cluster(is_up).await["status"].clone();
    let port = format!("{}-bastion-0", life.cluster);
    let address = &first["bastion"]["floatingIP"];
    assert_eq!(life.carrier(address).await, port.as_str());
    let group = &first["bastionSecurityGroup"]["id"];
    let to_bastion: Vec<Value> = life
        .rules()
        .await
        .into_iter()
        .filter(|rule| rule["remote_group_id"] == *group)
        .map(|rule| rule["port_range_min"].clone())
        .collect();
    assert_eq!(
        to_bastion,
        [22, 22],
        "from the bastion to both groups of nodes"
    );

    life.change(json!({"bastion": {"spec": spec("m1.medium")}}))
        .await;
    let second = life
        .until_cluster(|cluster| {
            is_up(cluster) && cluster["status"]["bastion"]["id"] != first["bastion"]["id"]
        })
        .await;
    assert_eq!(second["status"]["bastion"]["floatingIP"], *address);
    assert_eq!(life.carrier(address).await, port.as_str());
    let bastions = async || {
        let servers = list(&life.contract, "compute", "servers").await;
        let name = format!("{}-bastion", life.cluster);
        servers
            .into_iter()
            .filter(|one| one["name"] == name.as_str())
            .count()
    };
    assert_eq!(bastions().await, 1);

    life.change(json!({"bastion": {"enabled": false}})).await;
    life.until_cluster(|cluster| cluster["status"]["bastion"].is_null())
        .await;
    until_true("the bastion is gone", async || bastions().await == 0).await;
    life.change(json!({"bastion": {"enabled": true}})).await;
    life.until_cluster(is_up).await;
    assert_eq!(bastions().await, 1);
    life.end().await;
}

pub async fn without_a_load_balancer_the_floating_ip_moves_before_its_machine_goes(
    under: &impl CloudUnderTest,
) {
    let life = Life::begin(
        under,
        |_| json!({"apiServer": {"managedLoadBalancer": {"enabled": false}}}),
    )
    .await;
    let first = life.machine(0).await;
    let ready = life
        .until_cluster(|cluster| {
            condition(cluster, "Ready").is_some_and(|(status, ..)| status == "True")
        })
        .await;
    let address = &ready["spec"]["controlPlaneEndpoint"]["host"];
    assert_eq!(life.carrier(address).await, format!("{first}-0"));
    let second = life.machine(1).await;
    assert_eq!(life.carrier(address).await, format!("{first}-0"));
    let is_held = |machine: &Value| machine["metadata"]["annotations"][HOOK].is_string();
    life.environment
        .cluster_api
        .until_object("Machine", &first, is_held)
        .await;
    life.environment.cluster_api.delete("Machine", &first).await;
    let new = json!(format!("{second}-0"));
    until_true("the floating IP is on the other machine", async || {
        life.carrier(address).await == new
    })
    .await;
    // No API server answers at the floating IP, so the Machine is held until the Cluster is deleted.
    life.environment.passes(3).await;
    let machine = life
        .environment
        .cluster_api
        .until_object("Machine", &first, |_| true)
        .await;
    assert!(is_held(&machine), "was let go without an answer");
    life.end().await;
}

pub async fn additional_ports_allowed_ranges_and_rules_of_both_families(
    under: &impl CloudUnderTest,
) {
    let rule = |name: &str, rest: Value| {
        let mut rule = json!({"name": name, "direction": "ingress"});
        json_patch::merge(&mut rule, &rest);
        rule
    };
    let life = Life::begin(under, |_| {
        json!({
            "apiServer": {"managedLoadBalancer": {"additionalPorts": [8132], "allowedCIDRs": [RANGE]}},
            "managedSecurityGroups": {"clusterNodesSecurityGroupRules": [
                rule("ping", json!({"etherType": "IPv6", "protocol": "icmp", "remoteIPPrefix": "2001:db8::/64"})),
                rule("number", json!({"etherType": "IPv4", "protocol": "112", "remoteIPPrefix": "10.6.0.0/24"})),
                rule("nodes", json!({"etherType": "IPv6", "protocol": "tcp", "portRangeMin": 10250,
                    "portRangeMax": 10250, "remoteManagedGroups": ["controlplane", "worker"]})),
            ]},
        })
    })
    .await;
    life.machine(0).await;
    let restricted_to = async |range: &str| {
        let listeners = list(&life.contract, "load-balancer", "listeners").await;
        let Some(balancer) = life.load_balancer().await else {
            return Vec::new();
        };
        let own = listeners
            .iter()
            .filter(|one| one["loadbalancers"][0]["id"] == balancer["id"]);
        let allows = |one: &&Value| {
            let ranges = one["allowed_cidrs"].as_array().into_iter().flatten();
            one["provisioning_status"] == "ACTIVE" && ranges.into_iter().any(|it| it == range)
        };
        let mut ports: Vec<i64> = own
            .filter(allows)
            .map(|one| one["protocol_port"].as_i64().unwrap())
            .collect();
        ports.sort_unstable();
        ports
    };
    until_true("both listeners are restricted", async || {
        restricted_to(RANGE).await == [6443, 8132]
    })
    .await;
    let rules = life.rules().await;
    let has = |family: &str, protocol: &str, port: Value| {
        rules.iter().any(|rule| {
            rule["ethertype"] == family
                && rule["protocol"] == protocol
                && rule["port_range_min"] == port
        })
    };
    assert!(has("IPv6", "ipv6-icmp", Value::Null), "{rules:#?}");
    assert!(has("IPv4", "vrrp", Value::Null) || has("IPv4", "112", Value::Null));
    assert!(has("IPv6", "tcp", json!(10250)), "{rules:#?}");

    // A pass over the whole cluster changes no rule.
    let other = "198.51.100.0/24";
    life.change(json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": [other]}}}))
        .await;
    until_true("both listeners have the new range alone", async || {
        restricted_to(other).await == [6443, 8132] && restricted_to(RANGE).await.is_empty()
    })
    .await;
    let ids = |rules: &[Value]| {
        let mut ids: Vec<String> = rules.iter().map(|rule| rule["id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&life.rules().await), ids(&rules));
    life.end().await;
}

pub async fn a_load_balancer_in_a_network_of_its_own(under: &impl CloudUnderTest) {
    let owner = Contract::with(under).await;
    let front = Brought::create(&owner, "10.9.0.0/24").await;
    let life = Life::begin(under, |_| {
        json!({"apiServer": {"managedLoadBalancer": {
            "network": {"id": front.network.id}, "subnets": [{"filter": {"name": owner.name}}]}}})
    })
    .await;
    life.machine(0).await;
    let balancer = life.load_balancer().await.unwrap();
    assert_eq!(balancer["vip_subnet_id"], json!(front.subnet.id));
    let status = life.until_cluster(|_| true).await["status"].clone();
    let pool = list(&life.contract, "load-balancer", "pools")
        .await
        .into_iter()
        .find(|pool| pool["loadbalancers"][0]["id"] == balancer["id"])
        .unwrap();
    let pool = pool["id"].as_str().unwrap();
    let members = life
        .contract
        .cloud
        .members(&pool.into(), GATE)
        .await
        .unwrap();
    let subnet = members[0].subnet_id.as_ref().unwrap().to_string();
    assert_eq!(status["network"]["subnets"][0]["id"], json!(subnet));
    life.end().await;
    front.delete(&owner).await;
}

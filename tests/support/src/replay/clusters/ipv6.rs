//! A cluster without IPv4.

use serde_json::{Value, json};

use super::{Life, list};
use crate::contract::{CloudUnderTest, GATE};

/// The beginning of every address of the cluster.
const PREFIX: &str = "fd00:6:";

pub async fn a_cluster_whose_only_subnet_is_of_ipv6(under: &impl CloudUnderTest) {
    // Only IPv4 has floating IPs.
    let life = Life::begin(under, |_| {
        json!({
            "managedSubnets": [{"cidr": "fd00:6::/64"}],
            "apiServer": {"enableFloatingIP": false},
        })
    })
    .await;
    life.machine(0).await;
    let shown = life.until_cluster(|_| true).await;
    let host = shown["spec"]["controlPlaneEndpoint"]["host"].as_str();
    let host = host.unwrap();
    assert!(host.starts_with(PREFIX), "{host}");
    let balancer = life.load_balancer().await.unwrap();
    assert_eq!(balancer["vip_address"], host);
    let pools = list(&life.contract, "load-balancer", "pools").await;
    let own = pools
        .iter()
        .find(|pool| pool["loadbalancers"][0]["id"] == balancer["id"]);
    let pool = own.unwrap()["id"].as_str().unwrap();
    let cloud = &life.contract.cloud;
    let members = cloud.members(&pool.into(), GATE).await.unwrap();
    let addresses: Vec<String> = members
        .iter()
        .map(|member| member.address.unwrap().to_string())
        .collect();
    assert!(
        addresses.len() == 1 && addresses[0].starts_with(PREFIX),
        "{addresses:?}"
    );
    let opens_api = |rule: &Value| rule["ethertype"] == "IPv6" && rule["port_range_min"] == 6443;
    let rules = life.rules().await;
    assert!(rules.iter().any(opens_api), "{rules:#?}");
    life.end().await;
}

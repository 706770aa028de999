//! A thousand clusters in one cloud.

use serde_json::{Value, json};

use super::{Pure, id};
use crate::settings::{Durations, Options};

#[test]
fn a_thousand_clusters_are_made_and_read() {
    let mut cloud = Pure::with(&Options {
        durations: Durations::instant(),
        data_path: false,
        ..Options::default()
    });
    let clusters = 1000;
    let mut balancers = Vec::new();
    for cluster in 0..clusters {
        let name = format!("cluster-{cluster}");
        let (_, network) = cloud.call(
            "POST",
            "/network/v2.0/networks",
            json!({ "network": { "name": name } }),
        );
        let network = id(&network, "network");
        let body = json!({ "subnet": { "name": name, "network_id": network, "cidr": "10.6.0.0/24", "ip_version": 4 } });
        let (_, subnet) = cloud.call("POST", "/network/v2.0/subnets", body);
        let body =
            json!({ "loadbalancer": { "name": name, "vip_subnet_id": id(&subnet, "subnet") } });
        let (_, lb) = cloud.lb("POST", "loadbalancers", body);
        let lb = id(&lb, "loadbalancer");
        cloud.pass(0.1);
        let body = json!({ "listener": { "name": name, "protocol": "TCP", "protocol_port": 6443, "loadbalancer_id": lb } });
        let (_, listener) = cloud.lb("POST", "listeners", body);
        cloud.pass(0.1);
        let body = json!({ "pool": { "name": name, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listener_id": id(&listener, "listener") } });
        let (_, pool) = cloud.lb("POST", "pools", body);
        let pool = id(&pool, "pool");
        cloud.pass(0.1);
        for member in 0..3 {
            let body =
                json!({ "port": { "network_id": network, "name": format!("{name}-{member}") } });
            let (status, port) = cloud.call("POST", "/network/v2.0/ports", body);
            assert_eq!(status, 201);
            let address = port["port"]["fixed_ips"][0]["ip_address"].clone();
            let body = json!({ "member": { "name": format!("{name}-{member}"), "address": address, "protocol_port": 6443 } });
            let (status, body) = cloud.lb("POST", &format!("pools/{pool}/members"), body);
            assert_eq!(status, 201, "{body}");
            cloud.pass(0.1);
        }
        balancers.push(lb);
    }
    for (cluster, lb) in balancers.iter().enumerate() {
        cloud.get(&format!(
            "/load-balancer/v2/lbaas/loadbalancers/{lb}/status"
        ));
        let found = cloud.get(&format!("/network/v2.0/ports?name=cluster-{cluster}-0"));
        assert_eq!(found["ports"].as_array().map(Vec::len), Some(1));
        let found = cloud.get(&format!(
            "/load-balancer/v2/lbaas/loadbalancers?name=cluster-{cluster}"
        ));
        assert_eq!(found["loadbalancers"][0]["provisioning_status"], "ACTIVE");
    }
    assert_eq!(cloud.world.duplicates(), []);
    let (status, all) = cloud.call(
        "GET",
        "/load-balancer/v2/lbaas/pools?limit=1000",
        Value::Null,
    );
    assert_eq!(
        (status, all["pools"].as_array().map(Vec::len)),
        (200, Some(1000))
    );
}

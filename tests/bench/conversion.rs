//! How many clusters are converted in a second on one core, beside plain serde, and how long a list of a thousand
//! takes.
//!
//! The goals: 50 000 conversions a second and core, one second for a review of 1 000 clusters.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use capo_rs::webhooks::conversion::{convert, convert_text, review};
use serde_json::{Value, json};

const V1BETA1: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// A settled cluster of three control-plane machines.
fn cluster(number: usize) -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 4})
    };
    let member = |machine: usize| {
        json!({"machine": format!("c{number}-control-plane-{machine}"), "port": 6443,
            "id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "address": format!("10.6.0.{machine}"),
            "provisioningStatus": "ACTIVE", "operatingStatus": "ONLINE",
            "since": "2026-01-01T00:00:00Z", "lastObserved": "2026-01-01T00:00:00Z"})
    };
    let network = json!({"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "name": format!("k8s-clusterapi-cluster-n-c{number}"),
        "subnets": [{"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "name": "subnet", "cidr": "10.6.0.0/24"}]});
    let group = json!({"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "name": "k8s-cluster-n-c-secgroup-controlplane"});
    json!({
        "apiVersion": V1BETA2, "kind": "OpenStackCluster",
        "metadata": {
            "name": format!("c{number}"), "namespace": "n", "uid": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d",
            "generation": 4, "resourceVersion": "123456", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"cluster.x-k8s.io/cluster-name": format!("c{number}")},
            "finalizers": ["openstackcluster.infrastructure.cluster.x-k8s.io"],
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": format!("c{number}"),
                "uid": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "controller": true}],
        },
        "spec": {
            "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"},
            "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["1.1.1.1", "9.9.9.9"]}],
            "externalNetwork": {"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d"},
            "apiServer": {"managedLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"]}, "port": 6443},
            "managedSecurityGroups": {"allowAllInClusterTraffic": false, "clusterNodesSecurityGroupRules": [
                {"name": "bgp", "direction": "ingress", "etherType": "IPv4", "protocol": "tcp", "portRangeMin": 179,
                 "portRangeMax": 179, "remoteManagedGroups": ["controlplane", "worker"]},
            ]},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 6443},
            "bastion": {"enabled": true, "spec": {
                "flavor": {"filter": {"name": "m1.tiny"}}, "image": {"filter": {"name": "debian"}}, "sshKeyName": "k",
            }},
        },
        "status": {
            "observedGeneration": 4, "initialization": {"provisioned": true}, "network": network,
            "externalNetwork": {"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "name": "public"},
            "router": {"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d", "name": "router", "ips": ["203.0.113.7"]},
            "controlPlaneSecurityGroup": group, "workerSecurityGroup": group, "bastionSecurityGroup": group,
            "failureDomains": [{"name": "az1", "controlPlane": true}, {"name": "az2", "controlPlane": true}],
            "apiServerManagedLoadBalancer": {"name": "lb", "id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d",
                "ip": "203.0.113.5", "internalIP": "10.6.0.4", "activeMembers": "3/3",
                "members": [member(1), member(2), member(3)]},
            "conditions": [condition("Ready"), condition("NetworkReady"), condition("RouterReady"),
                condition("SecurityGroupsReady"), condition("APIEndpointReady"), condition("APIServerLoadBalancerReady")],
        },
    })
}

/// Runs `work` for two seconds and returns how often it was done in one second.
fn rate(mut work: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut done = 0_u32;
    while begun.elapsed() < Duration::from_secs(2) {
        work();
        done += 1;
    }
    f64::from(done) / begun.elapsed().as_secs_f64()
}

fn main() {
    let new = cluster(1);
    let old = convert(new.clone(), V1BETA1).unwrap_or_default();
    let (new_text, old_text) = (new.to_string(), old.to_string());

    for (name, text, to) in [
        ("v1beta1 to v1beta2", &old_text, V1BETA2),
        ("v1beta2 to v1beta1", &new_text, V1BETA1),
    ] {
        let mut converted = Vec::new();
        let per_second = rate(|| {
            converted.clear();
            black_box(convert_text(black_box(text), to, &mut converted).is_ok());
        });
        println!(
            "{per_second:>12.0} /s  {name}, from text to text, {} bytes to {} (goal 50 000)",
            text.len(),
            converted.len()
        );
    }
    // The least that a conversion through a tree costs: it parses the object and writes it, and changes nothing.
    for (name, text) in [("v1beta1", &old_text), ("v1beta2", &new_text)] {
        let mut written = Vec::new();
        let per_second = rate(|| {
            written.clear();
            let tree = serde_json::from_str::<Value>(black_box(text));
            black_box(tree.is_ok_and(|tree| serde_json::to_writer(&mut written, &tree).is_ok()));
        });
        println!(
            "{per_second:>12.0} /s  for comparison, plain serde: {name} parsed into a tree and written unchanged"
        );
    }

    let objects: Vec<Value> = (0..1000)
        .filter_map(|number| convert(cluster(number), V1BETA1).ok())
        .collect();
    let body =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
            "uid": "u", "desiredAPIVersion": V1BETA2, "objects": objects,
        }})
        .to_string();
    let begun = Instant::now();
    let answer = review(body.as_bytes()).unwrap_or_default();
    println!(
        "{:>12.1} ms  a review of 1 000 clusters, {} bytes in, {} out (goal 1 000)",
        begun.elapsed().as_secs_f64() * 1000.0,
        body.len(),
        answer.len()
    );
}

//! A test for every rule, and for every field that may or may not change.

mod cluster_values;
mod clusters;
mod machines;
mod reviews;
mod templates;

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers give what json! returns"
)]
fn cluster(spec: Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": "c", "namespace": "n"},
        "spec": spec,
        "status": {
            "network": {"id": "net-1", "name": "net", "subnets": [{"id": "sub-1", "name": "subnet"}]},
            "apiServerManagedLoadBalancer": {"ip": "203.0.113.5"},
        },
    })
}

fn errors(kind: Kind, old: Option<&Value>, new: &Value) -> Vec<String> {
    let change = ObjectChange {
        old,
        new,
        dry_run: false,
    };
    validate(kind, &change, now())
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// `base` with the JSON merge patch `patch` applied.
fn patched(base: &Value, patch: &Value) -> Value {
    let mut merged = base.clone();
    json_patch::merge(&mut merged, patch);
    merged
}

/// A cluster that has every field.
fn full_cluster() -> Value {
    cluster(json!({
        "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack", "region": "one"},
        "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["1.1.1.1"],
            "allocationPools": [{"start": "10.6.0.5", "end": "10.6.0.9"}]}],
        "subnets": [{"filter": {"name": "subnet"}}],
        "primarySubnet": {"id": "sub-1"},
        "managedRouter": {"externalIPs": [{"subnet": {"id": "s"}}]},
        "router": {"filter": {"name": "router"}},
        "managedNetwork": {"mtu": 1500},
        "network": {"filter": {"name": "net"}},
        "externalNetwork": {"id": "ext"},
        "enableExternalNetwork": true,
        "apiServer": {
            "port": 6443, "fixedIP": "10.6.0.4", "floatingIP": "203.0.113.4", "enableFloatingIP": true,
            "managedLoadBalancer": {
                "enabled": true, "additionalPorts": [22], "allowedCIDRs": ["10.0.0.0/8"], "provider": "amphora",
                "flavor": "f", "availabilityZone": "az", "network": {"id": "lb-net"}, "subnets": [{"id": "lb-sub"}],
                "monitor": {"delay": 10},
            },
        },
        "managedSecurityGroups": {
            "allowAllInClusterTraffic": false,
            "clusterNodesSecurityGroupRules": [{"name": "a", "direction": "ingress"}],
        },
        "tags": ["a"],
        "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 6443},
        "controlPlaneAvailabilityZones": ["az1"],
        "controlPlaneOmitAvailabilityZone": false,
        "bastion": {"enabled": true, "spec": {"image": {"id": "i"}, "flavor": {"id": "f"}}},
    }))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers give what json! returns"
)]
fn machine(spec: Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
        "metadata": {"name": "m", "namespace": "n"}, "spec": spec,
    })
}

/// A machine with the fields that have rules.
fn full_machine() -> Value {
    machine(json!({
        "flavor": {"id": "f"}, "image": {"id": "i"}, "sshKeyName": "k",
        "ports": [{"nameSuffix": "a", "allowedAddressPairs": [{"ipAddress": "10.0.0.0/8"}]}, {"nameSuffix": "b"}],
        "identityRef": {"name": "c", "cloudName": "o"},
        "tags": ["a"],
    }))
}

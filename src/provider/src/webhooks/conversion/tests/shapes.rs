//! Fields that have another name or another form in the other version.

use super::*;

#[test]
fn a_clusters_spec_is_the_same_in_both_versions() {
    same(
        "OpenStackCluster",
        json!({"spec": {
            "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"},
            "apiServerLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 7}},
            "apiServerFloatingIP": "203.0.113.5", "apiServerFixedIP": "10.6.0.9", "apiServerPort": 443,
            "disableAPIServerFloatingIP": false, "disableExternalNetwork": true,
            "networkMTU": 1400, "disablePortSecurity": true,
            "externalRouterIPs": [{"fixedIP": "203.0.113.9", "subnet": {"filter": {"name": "public"}}}],
            "managedSecurityGroups": {
                "allNodesSecurityGroupRules": [{"name": "a", "direction": "ingress"}],
                "controlPlaneNodesSecurityGroupRules": [], "allowAllInClusterTraffic": false,
            },
            "bastion": {"enabled": true, "spec": {
                "flavor": "m1.tiny", "image": {"filter": {"name": "debian"}},
                "ports": [{"disablePortSecurity": true}, {"nameSuffix": "x"}],
            }},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443},
            "tags": [],
        }}),
        json!({"spec": {
            "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"},
            "apiServer": {
                "managedLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 7}},
                "floatingIP": "203.0.113.5", "fixedIP": "10.6.0.9", "port": 443, "enableFloatingIP": true,
            },
            "enableExternalNetwork": false,
            "managedNetwork": {"mtu": 1400, "enablePortSecurity": false},
            "managedRouter": {
                "externalIPs": [{"fixedIP": "203.0.113.9", "subnet": {"filter": {"name": "public"}}}],
            },
            "managedSecurityGroups": {
                "clusterNodesSecurityGroupRules": [{"name": "a", "direction": "ingress"}],
                "controlPlaneNodesSecurityGroupRules": [], "allowAllInClusterTraffic": false,
            },
            "bastion": {"enabled": true, "spec": {
                "flavor": {"filter": {"name": "m1.tiny"}}, "image": {"filter": {"name": "debian"}},
                "ports": [{"enablePortSecurity": false}, {"nameSuffix": "x"}],
            }},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443},
            "tags": [],
        }}),
    );
}

#[test]
fn a_clusters_status_is_the_same_in_both_versions() {
    same(
        "OpenStackCluster",
        json!({"status": {
            "observedGeneration": 3, "ready": true, "initialization": {"provisioned": true},
            "apiServerLoadBalancer": {"name": "lb", "ip": "", "internalIP": "10.6.0.4"},
            "failureDomains": {"az1": {"controlPlane": true}, "az2": {"attributes": {"a": "b"}}},
            "bastion": {"resolved": {"ports": [
                {"name": "p", "networkID": "n", "disablePortSecurity": false},
            ]}},
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "NetworkReady", "status": "False", "reason": "NetworkCreateFailed", "message": "no",
                 "severity": "Error", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2},
            ],
        }}),
        json!({"status": {
            "observedGeneration": 3, "initialization": {"provisioned": true},
            "apiServerManagedLoadBalancer": {"name": "lb", "ip": "", "internalIP": "10.6.0.4"},
            "failureDomains": [
                {"name": "az1", "controlPlane": true}, {"name": "az2", "attributes": {"a": "b"}},
            ],
            "bastion": {"resolved": {"ports": [{"name": "p", "networkID": "n", "enablePortSecurity": true}]}},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "NoReasonReported", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "NetworkReady", "status": "False", "reason": "NetworkCreateFailed", "message": "no",
                 "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2},
            ],
        }}),
    );
}

#[test]
fn a_machine_is_the_same_in_both_versions() {
    same(
        "OpenStackMachine",
        json!({
            "spec": {"flavorID": "f-1", "image": {"id": "i"}, "ports": [{"disablePortSecurity": false}]},
            "status": {
                "ready": false, "initialization": {"provisioned": true},
                "resolved": {"flavorID": "f-1", "ports": [
                    {"name": "p", "networkID": "n", "description": "d", "disablePortSecurity": true},
                ]},
                "conditions": [
                    {"type": "APIServerIngressReadyCondition", "status": "Unknown", "reason": "FloatingIPError",
                     "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "False", "reason": "WaitingForBootstrapData", "severity": "Info",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            },
        }),
        json!({
            "spec": {"flavor": {"id": "f-1"}, "image": {"id": "i"}, "ports": [{"enablePortSecurity": true}]},
            "status": {
                "initialization": {"provisioned": true},
                "resolved": {"flavorID": "f-1", "ports": [
                    {"name": "p", "networkID": "n", "description": "d", "enablePortSecurity": false},
                ]},
                "conditions": [
                    {"type": "APIServerIngressReady", "status": "Unknown", "reason": "FloatingIPError",
                     "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "False", "reason": "WaitingForBootstrapData", "message": "",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            },
        }),
    );
}

#[test]
fn templates_hold_the_same_specs() {
    same(
        "OpenStackClusterTemplate",
        json!({"spec": {"template": {"spec": {"apiServerPort": 6444}}}}),
        json!({"spec": {"template": {"spec": {"apiServer": {"port": 6444}}}}}),
    );
    same(
        "OpenStackMachineTemplate",
        json!({
            "spec": {"template": {"spec": {"flavor": "m1"}}},
            "status": {"capacity": {"cpu": "2"}, "nodeInfo": {"operatingSystem": "linux"}},
        }),
        json!({
            "spec": {"template": {"spec": {"flavor": {"filter": {"name": "m1"}}}}},
            "status": {"capacity": {"cpu": "2"}, "nodeInfo": {"operatingSystem": "linux"}},
        }),
    );
}

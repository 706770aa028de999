//! The fields of clusters that may change, and those that may not.

use super::*;

#[test]
fn a_clusters_mutable_fields_may_change() {
    let base = full_cluster();
    let cases = [
        json!({}),
        json!({"primarySubnet": {"id": "sub-2"}}),
        json!({"primarySubnet": null}),
        json!({"managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["8.8.8.8", "9.9.9.9"],
            "allocationPools": [{"start": "10.6.0.5", "end": "10.6.0.9"}]}]}),
        json!({"managedSubnets": [{"cidr": "10.6.0.0/24",
            "allocationPools": [{"start": "10.6.0.5", "end": "10.6.0.9"}]}]}),
        json!({"subnets": [{"id": "sub-1"}]}),
        json!({"network": {"id": "net-1", "filter": null}}),
        json!({"apiServer": {"floatingIP": "203.0.113.5"}}),
        json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": []}}}),
        json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["0.0.0.0/0", "10.0.0.0/8"]}}}),
        json!({"apiServer": {"managedLoadBalancer": {"monitor": {"delay": 5, "timeout": 2}}}}),
        json!({"apiServer": {"managedLoadBalancer": {"monitor": {"type": "HTTPS"}}}}),
        json!({"apiServer": {"managedLoadBalancer": {"monitor": null}}}),
        json!({"managedSecurityGroups": {"allowAllInClusterTraffic": true}}),
        json!({"managedSecurityGroups": {"clusterNodesSecurityGroupRules": null}}),
        json!({"managedSecurityGroups": {"workerNodesSecurityGroupRules": [{"name": "w"}]}}),
        json!({"managedSecurityGroups": {"controlPlaneNodesSecurityGroupRules": [{"name": "w"}]}}),
        json!({"controlPlaneAvailabilityZones": ["az2", "az3"]}),
        json!({"controlPlaneAvailabilityZones": null}),
        json!({"controlPlaneOmitAvailabilityZone": true}),
        json!({"bastion": {"enabled": false}}),
        json!({"bastion": {"floatingIP": "203.0.113.9", "spec": {"sshKeyName": "k"}}}),
        json!({"identityRef": {"name": "other", "cloudName": "x", "type": "ClusterIdentity"}}),
        // Empty and absent values count as equal.
        json!({"managedRouter": {"externalIPs": [{"subnet": {"id": "s", "filter": {}}}]}}),
        json!({"network": {"filter": {"name": "net", "tags": []}}}),
    ];
    for patch in cases {
        let new = patched(&base, &json!({"spec": patch}));
        assert_eq!(
            errors(Kind::Cluster, Some(&base), &new),
            Vec::<String>::new(),
            "{patch}"
        );
    }
}

#[test]
fn a_clusters_other_fields_may_not_change() {
    let base = full_cluster();
    let cases = [
        (
            json!({"managedSubnets": [{"cidr": "10.7.0.0/24", "dnsNameservers": ["1.1.1.1"],
            "allocationPools": [{"start": "10.6.0.5", "end": "10.6.0.9"}]}]}),
            "spec.managedSubnets[0].cidr: Forbidden: \"10.7.0.0/24\": can't be changed after creation; of a managed \
          subnet only dnsNameservers may change",
        ),
        (
            json!({"managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["1.1.1.1"]}]}),
            "spec.managedSubnets[0].allocationPools: Forbidden: null: can't be changed",
        ),
        (
            json!({"managedSubnets": []}),
            "spec.managedSubnets: Forbidden: []: subnets can't be added or removed",
        ),
        (
            json!({"managedSubnets": null}),
            "spec.managedSubnets: Forbidden",
        ),
        (
            json!({"subnets": [{"id": "sub-2"}]}),
            "spec.subnets[0].filter",
        ),
        (
            json!({"subnets": [{"filter": {"name": "other"}}]}),
            "spec.subnets[0].filter.name",
        ),
        (
            json!({"subnets": [{"id": "sub-1"}, {"id": "sub-1"}]}),
            "spec.subnets: Forbidden",
        ),
        (
            json!({"managedRouter": {"externalIPs": []}}),
            "spec.managedRouter.externalIPs: Forbidden",
        ),
        (
            json!({"managedRouter": null}),
            "spec.managedRouter.externalIPs: Forbidden: null",
        ),
        (
            json!({"router": {"filter": {"name": "x"}}}),
            "spec.router.filter.name: Forbidden: \"x\": can't be changed",
        ),
        (
            json!({"managedNetwork": {"mtu": 1400}}),
            "spec.managedNetwork.mtu: Forbidden: 1400",
        ),
        (
            json!({"managedNetwork": {"enablePortSecurity": false}}),
            "spec.managedNetwork.enablePortSecurity",
        ),
        (
            json!({"network": {"id": "net-2", "filter": null}}),
            "it may only be pinned to the network in use, id \"net-1\"",
        ),
        (
            json!({"network": {"filter": {"name": "x"}}}),
            "spec.network.filter.name: Forbidden: \"x\"",
        ),
        (json!({"network": null}), "spec.network: Forbidden"),
        (
            json!({"externalNetwork": {"id": "x"}}),
            "spec.externalNetwork.id: Forbidden",
        ),
        (
            json!({"enableExternalNetwork": false}),
            "spec.enableExternalNetwork: Forbidden: false",
        ),
        (
            json!({"apiServer": {"port": 443}}),
            "spec.apiServer.port: Forbidden: 443: can't be changed after creation; \
          it may be set once while apiServer.enableFloatingIP is false",
        ),
        (
            json!({"apiServer": {"port": null}}),
            "spec.apiServer.port: Forbidden: null",
        ),
        (
            json!({"apiServer": {"fixedIP": "10.6.0.5"}}),
            "spec.apiServer.fixedIP: Forbidden",
        ),
        (
            json!({"apiServer": {"floatingIP": "203.0.113.6"}}),
            "it may only be set to the load balancer's current address, \"203.0.113.5\"",
        ),
        (
            json!({"apiServer": {"enableFloatingIP": false}}),
            "spec.apiServer.enableFloatingIP: Forbidden: false",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": null}}),
            "spec.apiServer.managedLoadBalancer: Forbidden",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"enabled": false}}}),
            "managedLoadBalancer.enabled",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"additionalPorts": [23]}}}),
            "additionalPorts[0]: Forbidden: 23",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"provider": "ovn"}}}),
            "provider: Forbidden: \"ovn\"",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"flavor": "x"}}}),
            "managedLoadBalancer.flavor",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"availabilityZone": "x"}}}),
            "availabilityZone: Forbidden",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"network": {"id": "x"}}}}),
            "managedLoadBalancer.network.id",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"subnets": null}}}),
            "managedLoadBalancer.subnets",
        ),
        (
            json!({"apiServer": null}),
            "spec.apiServer.managedLoadBalancer: Forbidden: null",
        ),
        (
            json!({"managedSecurityGroups": null}),
            "spec.managedSecurityGroups: Forbidden: null: can't be removed",
        ),
        (json!({"tags": ["b"]}), "spec.tags[0]: Forbidden: \"b\""),
        (
            json!({"tags": ["a", "b"]}),
            "spec.tags: Forbidden: [\"a\",\"b\"]",
        ),
        (
            json!({"controlPlaneEndpoint": {"host": "x"}}),
            "spec.controlPlaneEndpoint.host: Forbidden: \"x\": can't be \
          changed once it has a host",
        ),
        (
            json!({"controlPlaneEndpoint": {"port": 443}}),
            "spec.controlPlaneEndpoint.port: Forbidden: 443",
        ),
        (
            json!({"controlPlaneEndpoint": null}),
            "spec.controlPlaneEndpoint: Forbidden",
        ),
        (
            json!({"bastion": null}),
            "spec.bastion: Forbidden: null: can't be removed while enabled",
        ),
        (
            json!({"identityRef": {"region": "two"}}),
            "spec.identityRef.region: Forbidden: \"two\"",
        ),
        (
            json!({"identityRef": {"region": null}}),
            "spec.identityRef.region: Forbidden: null",
        ),
        (json!({"newField": 1}), "spec.newField: Forbidden: 1"),
    ];
    for (patch, expected) in cases {
        let new = patched(&base, &json!({"spec": patch}));
        let errors = errors(Kind::Cluster, Some(&base), &new).join("\n");
        assert!(errors.contains(expected), "{patch}: {errors}");
    }
}

#[test]
fn some_fields_may_be_set_once() {
    let identity = json!({"name": "c", "cloudName": "o"});
    let own_address = json!({"identityRef": identity, "apiServer": {"enableFloatingIP": false}});
    let allowed = [
        (
            own_address.clone(),
            json!({"apiServer": {"port": 443, "fixedIP": "10.0.0.9"}}),
        ),
        (
            json!({}),
            json!({"controlPlaneEndpoint": {"host": "h", "port": 1}}),
        ),
        (
            json!({"controlPlaneEndpoint": {"port": 1}}),
            json!({"controlPlaneEndpoint": {"host": "h", "port": 2}}),
        ),
        (
            json!({"controlPlaneEndpoint": {"host": ""}}),
            json!({"controlPlaneEndpoint": {"host": "h"}}),
        ),
        (
            json!({"controlPlaneEndpoint": {"host": "api.example.com"}}),
            json!({"controlPlaneEndpoint": {"port": 443}}),
        ),
        (
            json!({}),
            json!({"managedSecurityGroups": {"allowAllInClusterTraffic": false}}),
        ),
        (json!({}), json!({"bastion": {"enabled": true}})),
        (
            json!({"bastion": {"enabled": false}}),
            json!({"bastion": null}),
        ),
        (
            json!({}),
            json!({"apiServer": {"floatingIP": "203.0.113.5"}}),
        ),
    ];
    for (before, patch) in allowed {
        let old = cluster(before);
        let new = patched(&old, &json!({"spec": patch}));
        assert_eq!(
            errors(Kind::Cluster, Some(&old), &new),
            Vec::<String>::new(),
            "{patch}"
        );
    }
    let refused = [
        (json!({}), json!({"apiServer": {"port": 443}})),
        (
            json!({"apiServer": {"enableFloatingIP": true}}),
            json!({"apiServer": {"fixedIP": "10.0.0.9"}}),
        ),
        (
            own_address,
            json!({"apiServer": {"enableFloatingIP": true, "port": 443}}),
        ),
        (json!({}), json!({"network": {"id": "net-1"}})),
        (
            json!({"subnets": [{"filter": {"name": "subnet"}}]}),
            json!({"subnets": [{"id": "sub-1"}]}),
        ),
        (
            json!({}),
            json!({"managedSubnets": [{"cidr": "10.0.0.0/8"}]}),
        ),
        (
            json!({"identityRef": {"name": "c"}}),
            json!({"identityRef": {"region": "one"}}),
        ),
        (
            json!({"controlPlaneEndpoint": {"host": "h"}}),
            json!({"controlPlaneEndpoint": {"host": "i", "port": 1}}),
        ),
    ];
    for (before, patch) in refused {
        let old = cluster(before);
        let new = patched(&old, &json!({"spec": patch}));
        assert_ne!(
            errors(Kind::Cluster, Some(&old), &new),
            Vec::<String>::new(),
            "{patch}"
        );
    }
}

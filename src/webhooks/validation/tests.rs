//! A case for every rule, and for every field that may or may not change.

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

#[allow(clippy::needless_pass_by_value)]
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
    let change = Change {
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
    match patch {
        Value::Object(patch) => {
            let mut merged = base.as_object().cloned().unwrap_or_default();
            for (key, value) in patch {
                if value.is_null() {
                    merged.remove(key);
                } else {
                    let before = merged.get(key).cloned().unwrap_or_default();
                    merged.insert(key.clone(), patched(&before, value));
                }
            }
            Value::Object(merged)
        }
        other => other.clone(),
    }
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
        // Empty and absent are the same.
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

#[test]
fn a_rule_has_one_other_side() {
    let rules = |rule: Value| {
        cluster(json!({"managedSecurityGroups": {"workerNodesSecurityGroupRules": [{}, rule]}}))
    };
    for good in [
        json!({"remoteIPPrefix": "0.0.0.0/0"}),
        json!({"remoteGroupID": "g", "remoteIPPrefix": null}),
        json!({"remoteManagedGroups": ["worker"]}),
    ] {
        assert_eq!(
            errors(Kind::Cluster, None, &rules(good)),
            Vec::<String>::new()
        );
    }
    let bad = rules(json!({"remoteManagedGroups": ["worker"], "remoteIPPrefix": "0.0.0.0/0"}));
    assert_eq!(
        errors(Kind::Cluster, None, &bad),
        [
            "spec.managedSecurityGroups.workerNodesSecurityGroupRules[1]: Forbidden: \"remoteManagedGroups, \
          remoteIPPrefix\": a rule has one other side: set only one of remoteManagedGroups, remoteGroupID and \
          remoteIPPrefix"
        ]
    );
}

#[test]
fn annotations_are_judged_when_they_change() {
    let with = |annotations: Value| {
        patched(
            &cluster(json!({})),
            &json!({"metadata": {"annotations": annotations}}),
        )
    };
    let key = "infrastructure.cluster.x-k8s.io/load-balancer-gate";
    let expired = with(json!({(key): "bypass until=2020-01-01T00:00:00Z reason=x"}));
    for kind in [Kind::Cluster, Kind::Machine] {
        for good in [
            "hold reason=x",
            "bypass until=2027-01-01T00:00:00Z reason=x",
        ] {
            assert_eq!(
                errors(kind, None, &with(json!({(key): good}))),
                Vec::<String>::new()
            );
        }
        for old in [None, Some(&with(json!({})))] {
            let errors = errors(kind, old, &expired);
            assert!(errors.join("").contains("is in the past"), "{errors:?}");
        }
        // It ran out later: the object must stay editable.
        assert_eq!(errors(kind, Some(&expired), &expired), Vec::<String>::new());
        assert_eq!(
            errors(kind, Some(&expired), &with(json!({}))),
            Vec::<String>::new()
        );
    }

    let managed = with(json!({"cluster.x-k8s.io/managed-by": "crossplane"}));
    let other = with(json!({"cluster.x-k8s.io/managed-by": ""}));
    assert_eq!(
        errors(Kind::Cluster, Some(&managed), &other),
        Vec::<String>::new()
    );
    let removed = errors(Kind::Cluster, Some(&managed), &with(json!({"a": "b"})));
    assert!(
        removed
            .join("")
            .contains("managed-by]: Forbidden: null: can't be removed"),
        "{removed:?}"
    );
}

#[allow(clippy::needless_pass_by_value)]
fn machine(spec: Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
        "metadata": {"name": "m", "namespace": "n"}, "spec": spec,
    })
}

fn full_machine() -> Value {
    machine(json!({
        "flavor": {"id": "f"}, "image": {"id": "i"}, "sshKeyName": "k",
        "ports": [{"nameSuffix": "a", "allowedAddressPairs": [{"ipAddress": "10.0.0.0/8"}]}, {"nameSuffix": "b"}],
        "identityRef": {"name": "c", "cloudName": "o"},
        "tags": ["a"],
    }))
}

#[test]
fn a_machines_fields() {
    let base = full_machine();
    let ports = |first: Value, second: Value| json!({"ports": [first, second]});
    let b = json!({"nameSuffix": "b"});
    let allowed = [
        json!({"providerID": "openstack:///1"}),
        json!({"identityRef": {"name": "d"}}),
        json!({"identityRef": null}),
        ports(
            json!({"nameSuffix": "a", "allowedAddressPairs": [{"ipAddress": "10.0.0.1"}]}),
            b.clone(),
        ),
        ports(
            json!({"nameSuffix": "a"}),
            json!({"nameSuffix": "b", "allowedAddressPairs": [{"ipAddress": "1.1.1.1"}]}),
        ),
    ];
    for patch in allowed {
        let new = patched(&base, &json!({"spec": patch}));
        assert_eq!(
            errors(Kind::Machine, Some(&base), &new),
            Vec::<String>::new(),
            "{patch}"
        );
    }
    let refused = [
        (
            json!({"flavor": {"id": "g"}}),
            "spec.flavor.id: Forbidden: \"g\": can't be changed",
        ),
        (json!({"image": {"id": "j"}}), "spec.image.id"),
        (
            json!({"sshKeyName": null}),
            "spec.sshKeyName: Forbidden: null",
        ),
        (json!({"tags": ["b"]}), "spec.tags[0]"),
        (
            json!({"configDrive": true}),
            "spec.configDrive: Forbidden: true",
        ),
        (
            json!({"identityRef": {"region": "r"}}),
            "spec.identityRef.region",
        ),
        (
            json!({"ports": [{"nameSuffix": "a"}]}),
            "spec.ports: Forbidden",
        ),
        (
            ports(
                json!({"nameSuffix": "c", "allowedAddressPairs": [{"ipAddress": "10.0.0.0/8"}]}),
                b,
            ),
            "spec.ports[0].nameSuffix: Forbidden: \"c\"",
        ),
    ];
    for (patch, expected) in refused {
        let new = patched(&base, &json!({"spec": patch}));
        let errors = errors(Kind::Machine, Some(&base), &new).join("\n");
        assert!(errors.contains(expected), "{patch}: {errors}");
    }
    let started = patched(&base, &json!({"spec": {"providerID": "openstack:///1"}}));
    for other in [json!("openstack:///2"), Value::Null] {
        let new = patched(&started, &json!({"spec": {"providerID": other}}));
        let errors = errors(Kind::Machine, Some(&started), &new).join("");
        assert!(
            errors.contains("is set once and was \"openstack:///1\""),
            "{errors}"
        );
    }
}

#[test]
fn a_new_machine_or_server() {
    for kind in [Kind::Machine, Kind::Server] {
        let root = json!({"additionalBlockDevices": [{"name": "etcd"}, {"name": "root"}]});
        assert_eq!(
            errors(kind, None, &machine(root.clone())),
            Vec::<String>::new()
        );
        let both = patched(
            &machine(root),
            &json!({"spec": {"rootVolume": {"sizeGiB": 1}}}),
        );
        assert_eq!(
            errors(kind, None, &both),
            [
                "spec.additionalBlockDevices[1].name: Forbidden: \"root\": is the root volume's name while rootVolume is \
              set; choose another"
            ]
        );
        let port = |port: Value| machine(json!({"ports": [port]}));
        for good in [
            json!({"enablePortSecurity": true, "securityGroups": [{"id": "g"}]}),
            json!({"enablePortSecurity": false, "securityGroups": []}),
            json!({"securityGroups": [{"id": "g"}]}),
        ] {
            assert_eq!(errors(kind, None, &port(good)), Vec::<String>::new());
        }
        for bad in ["enablePortSecurity", "disablePortSecurity"] {
            let off = Value::from(bad.starts_with("disable"));
            let bad = port(json!({(bad): off, "securityGroups": [{"id": "g"}]}));
            let errors = errors(kind, None, &bad).join("");
            assert!(
                errors.contains("spec.ports[0].securityGroups: Forbidden: [{\"id\":\"g\"}]"),
                "{errors}"
            );
        }
    }
}

#[test]
fn a_servers_identity_may_change_and_nothing_else() {
    let base = full_machine();
    let new = patched(&base, &json!({"spec": {"identityRef": {"name": "d"}}}));
    assert_eq!(
        errors(Kind::Server, Some(&base), &new),
        Vec::<String>::new()
    );
    for patch in [
        json!({"sshKeyName": "x"}),
        json!({"ports": [{"nameSuffix": "a"}, {"nameSuffix": "b"}]}),
        json!({"identityRef": {"region": "x"}}),
        json!({"availabilityZone": "x"}),
    ] {
        let new = patched(&base, &json!({"spec": patch}));
        assert_ne!(
            errors(Kind::Server, Some(&base), &new),
            Vec::<String>::new(),
            "{patch}"
        );
    }
}

fn template(spec: &Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": "t", "namespace": "n"}, "spec": {"template": {"spec": spec}},
    })
}

#[test]
fn templates_do_not_change() {
    let base = template(&full_machine()["spec"]);
    let to = |patch: Value| patched(&base, &json!({"spec": {"template": {"spec": patch}}}));
    let pairs = to(json!({"ports": [{"nameSuffix": "a"}, {"nameSuffix": "b"}]}));
    assert_eq!(
        errors(Kind::MachineTemplate, Some(&base), &pairs),
        Vec::<String>::new()
    );
    let changed = to(json!({"flavor": {"id": "g"}}));
    let text = errors(Kind::MachineTemplate, Some(&base), &changed).join("");
    assert!(
        text.contains("spec.template.spec.flavor.id: Invalid value: \"g\": can't be changed"),
        "{text}"
    );

    let id = to(json!({"providerID": "openstack:///1"}));
    let text = errors(Kind::MachineTemplate, None, &id).join("");
    assert!(
        text.contains("spec.template.spec.providerID: Forbidden"),
        "{text}"
    );

    let base = template(&full_cluster()["spec"]);
    let metadata = patched(
        &base,
        &json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
    );
    assert_eq!(
        errors(Kind::ClusterTemplate, Some(&base), &metadata),
        Vec::<String>::new()
    );
    let tags = patched(
        &base,
        &json!({"spec": {"template": {"spec": {"bastion": null}}}}),
    );
    let text = errors(Kind::ClusterTemplate, Some(&base), &tags).join("");
    assert!(
        text.contains("spec.template.spec.bastion: Invalid value: null: can't be changed"),
        "{text}"
    );
}

#[test]
fn topology_dry_runs_may_compare_templates() {
    let base = template(&full_machine()["spec"]);
    let marked = json!({
        "metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}},
        "spec": {"template": {"spec": {"flavor": {"id": "g"}}}, "flavor": {"id": "g"}},
    });
    for kind in [Kind::MachineTemplate, Kind::Server] {
        let new = patched(&base, &marked);
        let judged = |dry_run| {
            validate(
                kind,
                &Change {
                    old: Some(&base),
                    new: &new,
                    dry_run,
                },
                now(),
            )
        };
        assert!(judged(true).is_empty());
        assert!(!judged(false).is_empty());
        let unmarked = patched(&new, &json!({"metadata": {"annotations": null}}));
        let change = Change {
            old: Some(&base),
            new: &unmarked,
            dry_run: true,
        };
        assert!(!validate(kind, &change, now()).is_empty());
    }
}

fn admission(version: &str, asked: &str, operation: &str, old: &Value, new: &Value) -> Value {
    let body = json!({"apiVersion": version, "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation, "name": "c", "namespace": "n",
        "kind": {"group": "infrastructure.cluster.x-k8s.io", "version": "v1beta2", "kind": "OpenStackCluster"},
        "requestKind": {"group": "infrastructure.cluster.x-k8s.io", "version": asked, "kind": "OpenStackCluster"},
        "object": new, "oldObject": old, "dryRun": false, "options": null,
    }});
    let answer = review(Kind::Cluster, body.to_string().as_bytes(), now()).unwrap();
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn a_review_answers_with_a_status_that_names_the_field() {
    let old = full_cluster();
    let new = patched(
        &old,
        &json!({"spec": {"apiServer": {"port": 443, "enableFloatingIP": false}}}),
    );
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let answer = admission(version, "v1beta2", "UPDATE", &old, &new);
        assert_eq!(answer["apiVersion"], version);
        let response = &answer["response"];
        assert_eq!(
            (response["uid"].as_str(), response["allowed"].as_bool()),
            (Some("u-1"), Some(false))
        );
        assert_eq!(
            (&response["status"]["code"], &response["status"]["reason"]),
            (&json!(422), &json!("Invalid"))
        );
        assert_eq!(
            response["status"]["details"]["causes"][1]["field"],
            "spec.apiServer.port"
        );
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.starts_with(
            "OpenStackCluster.infrastructure.cluster.x-k8s.io \"c\" is invalid: [spec.apiServer.enableFloatingIP: \
             Forbidden: false: "), "{message}");
    }
    let answer = admission("admission.k8s.io/v1", "v1beta1", "UPDATE", &old, &new);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("spec.disableAPIServerFloatingIP: Forbidden: true"),
        "{message}"
    );
    assert!(
        message.contains("spec.apiServerPort: Forbidden: 443"),
        "{message}"
    );
    assert!(
        message.contains("while disableAPIServerFloatingIP is true"),
        "{message}"
    );

    let same = admission("admission.k8s.io/v1", "v1beta2", "UPDATE", &old, &old);
    assert_eq!(same["response"], json!({"uid": "u-1", "allowed": true}));
    let deleted = admission(
        "admission.k8s.io/v1",
        "v1beta2",
        "DELETE",
        &old,
        &Value::Null,
    );
    assert_eq!(deleted["response"]["allowed"], true);
    let none = admission(
        "admission.k8s.io/v1",
        "v1beta2",
        "CREATE",
        &old,
        &Value::Null,
    );
    assert_eq!(none["response"]["status"]["code"], 400);
}

#[test]
fn a_v1beta1_object_is_judged_like_its_v1beta2_twin() {
    let v1beta1 = |object: &Value| {
        crate::webhooks::conversion::convert(
            object.clone(),
            "infrastructure.cluster.x-k8s.io/v1beta1",
        )
        .unwrap()
    };
    let old = full_cluster();
    let new = patched(&old, &json!({"spec": {"managedNetwork": {"mtu": 9}}}));
    let answer = admission(
        "admission.k8s.io/v1",
        "v1beta1",
        "UPDATE",
        &v1beta1(&old),
        &v1beta1(&new),
    );
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("spec.networkMTU: Forbidden: 9"),
        "{message}"
    );
}

#[test]
fn what_is_no_review_is_refused() {
    for body in [
        "",
        "{}",
        "[]",
        "{\"request\":{}}",
        r#"{"apiVersion":"v1","kind":"AdmissionReview","request":{"uid":""}}"#,
    ] {
        assert!(
            review(Kind::Machine, body.as_bytes(), now()).is_err(),
            "{body}"
        );
    }
    let wrong = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {},
    }});
    let answer = review(Kind::Machine, wrong.to_string().as_bytes(), now()).unwrap();
    assert!(!answer.allowed);
    assert!(
        String::from_utf8(answer.body)
            .unwrap()
            .contains("the webhook configuration names the wrong path")
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        for kind in Kind::ALL {
            let _ = review(kind, &bytes, now());
        }
    }
}

//! Machines and servers.

use super::*;

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
    // CAPO also allows this change.
    for other in [json!("openstack:///2"), Value::Null] {
        let new = patched(&started, &json!({"spec": {"providerID": other}}));
        let errors = errors(Kind::Machine, Some(&started), &new);
        assert_eq!(errors, Vec::<String>::new(), "{other}");
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
        let managed = json!({"managedServerGroup": {"policy": "anti-affinity"}});
        let alone = machine(managed);
        assert_eq!(errors(kind, None, &alone), Vec::<String>::new());
        let both = patched(
            &alone,
            &json!({"spec": {"serverGroup": {"filter": {"name": "g"}}}}),
        );
        assert_eq!(
            errors(kind, None, &both),
            [
                "spec.managedServerGroup: Forbidden: {\"policy\":\"anti-affinity\"}: can't be set while serverGroup is set: a \
                 server is in one group at most"
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
fn a_servers_identity_follows_its_owner_and_nothing_else_may_change() {
    let owned_by = |kind| json!({"metadata": {"ownerReferences": [{"kind": kind}]}});
    for (kind, expected) in [
        ("OpenStackMachine", true),
        ("OpenStackCluster", true),
        ("ConfigMap", false),
    ] {
        let base = patched(&full_machine(), &owned_by(kind));
        let new = patched(&base, &json!({"spec": {"identityRef": {"name": "d"}}}));
        let accepted = errors(Kind::Server, Some(&base), &new).is_empty();
        assert_eq!(accepted, expected, "{kind}");
    }
    let base = patched(&full_machine(), &owned_by("OpenStackMachine"));
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

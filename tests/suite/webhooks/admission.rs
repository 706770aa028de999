//! The validation rules through the API server, each in both versions.

use capo_rs::webhooks::conversion::convert;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use test_support::webhooks::{Served, api, namespace, object};

const ID: &str = "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d";
const OTHER: &str = "00000000-0000-4000-8000-000000000000";

/// `base` with the JSON merge patch `patch` applied.
fn patched(base: &Value, patch: &Value) -> Value {
    let mut merged = base.clone();
    json_patch::merge(&mut merged, patch);
    merged
}

/// An object in both versions.
struct Twins {
    old: Api<DynamicObject>,
    new: Api<DynamicObject>,
    name: &'static str,
}

impl Twins {
    async fn create(client: &Client, kind: &'static str, name: &'static str, parts: Value) -> Self {
        let twins = Self {
            old: api(client, kind, "v1beta1", "admission"),
            new: api(client, kind, "v1beta2", "admission"),
            name,
        };
        let object = object(kind, "v1beta2", name, parts);
        twins
            .new
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        twins
    }

    /// Sends a change to the API server in each version, and returns both answers. `patch` is written for v1beta2.
    async fn tried(&self, patch: &Value) -> [Result<(), String>; 2] {
        let base = serde_json::to_value(self.new.get(self.name).await.unwrap()).unwrap();
        let changed = patched(&base, patch);
        let old = convert(changed.clone(), "infrastructure.cluster.x-k8s.io/v1beta1").unwrap();
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let said = |answer: Result<DynamicObject, kube::Error>| match answer {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => Err(status.message.clone()),
            Err(other) => panic!("{other}"),
        };
        let read = |value: Value| -> DynamicObject { serde_json::from_value(value).unwrap() };
        [
            said(self.old.replace(self.name, &parameters, &read(old)).await),
            said(
                self.new
                    .replace(self.name, &parameters, &read(changed))
                    .await,
            ),
        ]
    }

    async fn accepts(&self, patch: Value) {
        for answer in self.tried(&patch).await {
            assert_eq!(answer, Ok(()), "{patch}");
        }
    }

    /// Checks that both versions refuse the change, and that each answer has the field's name in its version.
    async fn refuses(&self, patch: Value, old: &str, new: &str) {
        let answers = self.tried(&patch).await;
        for (answer, expected) in answers.into_iter().zip([old, new]) {
            let message = answer.expect_err(&format!("{patch} was taken"));
            assert!(message.contains(expected), "{patch}: {message}");
        }
    }
}

#[tokio::test]
async fn rules_of_clusters() {
    let served = Served::shared().await;
    let client = served.client().await;
    namespace(&client, "admission").await;
    let cluster = Twins::create(&client, "OpenStackCluster", "c", json!({"spec": {
        "identityRef": {"name": "cloud", "cloudName": "openstack", "region": "one"},
        "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["1.1.1.1"]}],
        "network": {"filter": {"name": "net"}}, "subnets": [{"filter": {"name": "subnet"}}],
        "router": {"id": ID}, "externalNetwork": {"id": ID}, "managedNetwork": {"mtu": 1500},
        "managedRouter": {"externalIPs": [{"subnet": {"id": ID}}]},
        "apiServer": {"port": 6443, "managedLoadBalancer": {"additionalPorts": [22], "provider": "amphora"}},
        "managedSecurityGroups": {}, "tags": ["a"], "bastion": {"enabled": true, "spec": {
            "flavor": {"id": "f"}, "image": {"id": ID},
        }},
        "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 6443},
    }})).await;
    let status = json!({"status": {
        "network": {"id": ID, "name": "net", "subnets": [{"id": ID, "name": "subnet", "cidr": "10.6.0.0/24"}]},
        "apiServerManagedLoadBalancer": {"name": "lb", "id": ID, "ip": "203.0.113.5", "internalIP": "10.6.0.4"},
    }});
    cluster
        .new
        .patch_status("c", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();

    for patch in [
        json!({}),
        json!({"primarySubnet": {"id": ID}}),
        json!({"managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["9.9.9.9"]}]}),
        json!({"network": {"id": ID, "filter": null}, "subnets": [{"id": ID}]}),
        json!({"apiServer": {"floatingIP": "203.0.113.5"}}),
        json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 1}}}}),
        json!({"managedSecurityGroups": {"allowAllInClusterTraffic": true, "clusterNodesSecurityGroupRules": [
            {"name": "a", "direction": "ingress"}]}}),
        json!({"controlPlaneAvailabilityZones": ["az"], "controlPlaneOmitAvailabilityZone": true}),
        json!({"bastion": {"enabled": false}}),
        json!({"identityRef": {"name": "other", "type": "ClusterIdentity"}}),
    ] {
        cluster.accepts(json!({"spec": patch})).await;
    }
    let same = |field: &'static str| (field, field);
    for (patch, (old, new)) in [
        (
            json!({"managedSubnets": [{"cidr": "10.7.0.0/24", "dnsNameservers": ["1.1.1.1"]}]}),
            same("spec.managedSubnets[0].cidr: Forbidden: \"10.7.0.0/24\""),
        ),
        (
            json!({"managedSubnets": null}),
            same("spec.managedSubnets: Forbidden"),
        ),
        (
            json!({"network": {"id": OTHER, "filter": null}}),
            same("pinned to the network in use"),
        ),
        (json!({"subnets": [{"id": OTHER}]}), same("spec.subnets[0]")),
        (
            json!({"router": {"id": OTHER}}),
            same("spec.router.id: Forbidden"),
        ),
        (
            json!({"externalNetwork": {"id": OTHER}}),
            same("spec.externalNetwork.id: Forbidden"),
        ),
        (
            json!({"managedNetwork": {"mtu": 1400}}),
            (
                "spec.networkMTU: Forbidden: 1400",
                "spec.managedNetwork.mtu: Forbidden: 1400",
            ),
        ),
        (
            json!({"managedNetwork": {"enablePortSecurity": false}}),
            (
                "spec.disablePortSecurity: Forbidden: true",
                "spec.managedNetwork.enablePortSecurity: Forbidden: false",
            ),
        ),
        (
            json!({"managedRouter": null}),
            (
                "spec.externalRouterIPs: Forbidden",
                "spec.managedRouter.externalIPs",
            ),
        ),
        (
            json!({"enableExternalNetwork": true}),
            (
                "spec.disableExternalNetwork: Forbidden: false",
                "spec.enableExternalNetwork: Forbidden: true",
            ),
        ),
        (
            json!({"apiServer": {"port": 443}}),
            (
                "spec.apiServerPort: Forbidden: 443",
                "spec.apiServer.port: Forbidden: 443",
            ),
        ),
        (
            json!({"apiServer": {"fixedIP": "10.6.0.9"}}),
            ("spec.apiServerFixedIP", "spec.apiServer.fixedIP"),
        ),
        (
            json!({"apiServer": {"floatingIP": "203.0.113.6"}}),
            ("spec.apiServerFloatingIP", "spec.apiServer.floatingIP"),
        ),
        (
            json!({"apiServer": {"enableFloatingIP": true}}),
            (
                "spec.disableAPIServerFloatingIP: Forbidden: false",
                "spec.apiServer.enableFloatingIP: Forbidden: true",
            ),
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"provider": "ovn"}}}),
            (
                "spec.apiServerLoadBalancer.provider",
                "spec.apiServer.managedLoadBalancer.provider",
            ),
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"additionalPorts": [22, 23]}}}),
            (
                "spec.apiServerLoadBalancer.additionalPorts",
                "spec.apiServer.managedLoadBalancer.additionalPorts",
            ),
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"enabled": false}}}),
            same(".enabled: Forbidden: false"),
        ),
        (
            json!({"managedSecurityGroups": null}),
            same("spec.managedSecurityGroups: Forbidden"),
        ),
        (json!({"tags": ["a", "b"]}), same("spec.tags: Forbidden")),
        (
            json!({"controlPlaneEndpoint": {"host": "api.example.com"}}),
            same("spec.controlPlaneEndpoint.host"),
        ),
        (
            json!({"bastion": null}),
            same("spec.bastion: Forbidden: null: can't be removed while enabled"),
        ),
        // A CEL rule of the definition refuses this before the webhook is called.
        (json!({"identityRef": {"region": "two"}}), same("region")),
    ] {
        cluster.refuses(json!({"spec": patch}), old, new).await;
    }

    let gate = |word: &str| json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/load-balancer-gate": word}}});
    cluster.accepts(gate("hold reason=maintenance")).await;
    cluster
        .accepts(gate("bypass until=2999-01-01T00:00:00Z reason=ticket 1"))
        .await;
    for (word, said) in [
        (
            "bypass until=2020-01-01T00:00:00Z reason=x",
            "is in the past",
        ),
        ("bypass until=2999-01-01T00:00:00Z", "bypass needs a reason"),
        ("open", "\"open\" is not known"),
    ] {
        cluster.refuses(gate(word), said, said).await;
    }

    let bad = json!({"spec": {
        "identityRef": {"name": "cloud", "cloudName": "openstack"},
        "managedSecurityGroups": {"workerNodesSecurityGroupRules": [
            {"name": "a", "direction": "ingress", "remoteGroupID": "g", "remoteIPPrefix": "10.0.0.0/8"},
        ]},
    }});
    let refused = cluster
        .new
        .create(
            &PostParams::default(),
            &object("OpenStackCluster", "v1beta2", "bad", bad),
        )
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("a rule can have only one of"), "{refused}");
}

#[tokio::test]
async fn rules_of_machines_and_templates() {
    let served = Served::shared().await;
    let client = served.client().await;
    namespace(&client, "admission").await;
    let spec = json!({
        "flavor": {"id": "f"}, "image": {"id": ID}, "sshKeyName": "k",
        "identityRef": {"name": "cloud", "cloudName": "openstack"},
        "ports": [{"nameSuffix": "a", "enablePortSecurity": true}],
    });
    let machine = Twins::create(&client, "OpenStackMachine", "m", json!({"spec": spec})).await;
    machine
        .accepts(json!({"spec": {"providerID": "openstack:///1"}}))
        .await;
    machine
        .accepts(json!({"spec": {"identityRef": {"name": "other"}}}))
        .await;
    let ports = |port: Value| json!({"spec": {"ports": [port]}});
    let pairs = json!({"nameSuffix": "a", "enablePortSecurity": true, "allowedAddressPairs": [{"ipAddress": "10.0.0.1"}]});
    machine.accepts(ports(pairs.clone())).await;
    machine
        .refuses(
            json!({"spec": {"flavor": {"id": "g"}}}),
            "spec.flavorID: Forbidden: \"g\"",
            "spec.flavor.id",
        )
        .await;
    machine
        .refuses(
            json!({"spec": {"sshKeyName": null}}),
            "spec.sshKeyName",
            "spec.sshKeyName",
        )
        .await;
    machine
        .refuses(
            ports(json!({"nameSuffix": "a", "enablePortSecurity": false})),
            "spec.ports[0].disablePortSecurity: Forbidden: true",
            "spec.ports[0].enablePortSecurity: Forbidden: false",
        )
        .await;

    let template = Twins::create(
        &client,
        "OpenStackMachineTemplate",
        "t",
        json!({"spec": {"template": {"spec": spec}}}),
    )
    .await;
    let of = |patch: Value| json!({"spec": {"template": patch}});
    template.accepts(of(ports(pairs))).await;
    template
        .refuses(
            of(json!({"spec": {"flavor": {"id": "g"}}})),
            "spec.template.spec.flavorID: Invalid",
            "spec.template.spec.flavor.id",
        )
        .await;
    let mut dry = of(json!({"spec": {"flavor": {"id": "g"}}}));
    dry["metadata"] = json!({"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}});
    template.accepts(dry).await;

    let created = |kind: &'static str, parts: Value| {
        let api = api(&client, kind, "v1beta2", "admission");
        async move {
            let dry = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            api.create(&dry, &object(kind, "v1beta2", "x", parts))
                .await
                .map(|_| ())
                .map_err(|error| error.to_string())
        }
    };
    let with = |more: Value| patched(&spec, &more);
    let refused = created(
        "OpenStackMachineTemplate",
        of(json!({"spec": with(json!({"providerID": "x"}))})),
    )
    .await
    .unwrap_err();
    assert!(
        refused.contains("spec.template.spec.providerID: Forbidden: \"x\""),
        "{refused}"
    );
    let device = json!({"name": "root", "sizeGiB": 1, "storage": {"type": "Local"}});
    let root = with(json!({"rootVolume": {"sizeGiB": 10}, "additionalBlockDevices": [device]}));
    let refused = created("OpenStackMachine", json!({"spec": root}))
        .await
        .unwrap_err();
    assert!(refused.contains("is the root volume's name"), "{refused}");
    let open =
        with(json!({"ports": [{"enablePortSecurity": false, "securityGroups": [{"id": ID}]}]}));
    let refused = created("OpenStackMachine", json!({"spec": open}))
        .await
        .unwrap_err();
    assert!(
        refused.contains("spec.ports[0].securityGroups: Forbidden"),
        "{refused}"
    );

    let template = Twins::create(
        &client,
        "OpenStackClusterTemplate",
        "ct",
        of(json!({"spec": {
            "identityRef": {"name": "cloud", "cloudName": "openstack"},
        }})),
    )
    .await;
    template
        .accepts(of(json!({"metadata": {"labels": {"a": "b"}}})))
        .await;
    template
        .refuses(
            of(json!({"spec": {"apiServer": {"port": 1}}})),
            "spec.template.spec.apiServerPort: Invalid",
            "spec.template.spec.apiServer.port",
        )
        .await;

    let of_servers = api(&client, "OpenStackServer", "v1alpha1", "admission");
    let spec_of_one = json!({"spec": {
        "flavorID": "f", "image": {"id": ID}, "sshKeyName": "k", "ports": [],
        "identityRef": {"name": "cloud", "cloudName": "openstack"},
    }});
    of_servers
        .create(
            &PostParams::default(),
            &object("OpenStackServer", "v1alpha1", "s", spec_of_one),
        )
        .await
        .unwrap();
    let patch = |value: Value| {
        let of_servers = of_servers.clone();
        async move {
            of_servers
                .patch("s", &PatchParams::default(), &Patch::Merge(value))
                .await
                .map_err(|error| error.to_string())
        }
    };
    // Only a server's object with an owner may get other credentials, because an owner passes its own change on.
    let credentials = json!({"spec": {"identityRef": {"cloudName": "other"}}});
    let refused = patch(credentials.clone()).await.unwrap_err();
    assert!(
        refused.contains("spec.identityRef.cloudName: Forbidden"),
        "{refused}"
    );
    let owner = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
        "name": "m", "uid": "u"});
    patch(json!({"metadata": {"ownerReferences": [owner]}}))
        .await
        .unwrap();
    patch(credentials).await.unwrap();
    let refused = patch(json!({"spec": {"sshKeyName": "x"}}))
        .await
        .unwrap_err();
    assert!(
        refused.contains(
            "spec.sshKeyName: Forbidden: \"x\": can't be changed; an OpenStackServer's spec"
        ),
        "{refused}"
    );
}

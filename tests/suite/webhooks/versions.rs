//! Both versions show the same object, now and after edits through either.

use capo_rs::webhooks::conversion::convert;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use test_support::webhooks::{Served, api, namespace, object};

const CLUSTER: &str = "OpenStackCluster";

fn identity() -> Value {
    json!({"type": "Secret", "name": "cloud", "cloudName": "openstack"})
}

fn old_cluster() -> Value {
    json!({"spec": {
        "identityRef": identity(),
        "apiServerLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"]},
        "apiServerPort": 443, "disableAPIServerFloatingIP": true, "networkMTU": 1400,
        "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["1.1.1.1"]}],
        "managedSecurityGroups": {"allNodesSecurityGroupRules": [{"name": "a", "direction": "ingress"}]},
        "bastion": {"enabled": true, "spec": {
            "flavor": "m1.tiny", "flavorID": "f-1", "image": {"filter": {"name": "debian"}},
            "ports": [{"disablePortSecurity": true}],
        }},
    }})
}

fn content(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    value["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    value
}

/// Reads it in both versions and compares them.
async fn both(old: &Api<DynamicObject>, new: &Api<DynamicObject>, name: &str) -> (Value, Value) {
    let (old, new) = (old.get(name).await.unwrap(), new.get(name).await.unwrap());
    let (old, new) = (content(&old), content(&new));
    assert_eq!(
        convert(new.clone(), "infrastructure.cluster.x-k8s.io/v1beta1").unwrap(),
        old
    );
    (old, new)
}

#[tokio::test]
async fn edits_through_either_version_are_seen_in_both() {
    let served = Served::shared().await;
    let client = served.client().await;
    namespace(&client, "edits").await;
    let old = api(&client, CLUSTER, "v1beta1", "edits");
    let new = api(&client, CLUSTER, "v1beta2", "edits");

    old.create(
        &PostParams::default(),
        &object(CLUSTER, "v1beta1", "c", old_cluster()),
    )
    .await
    .unwrap();
    let (seen_old, seen_new) = both(&old, &new, "c").await;
    assert_eq!(seen_old["spec"]["bastion"]["spec"]["flavor"], "m1.tiny");
    assert_eq!(
        seen_old["status"],
        json!({"observedGeneration": -1, "ready": false})
    );
    assert_eq!(
        seen_new["spec"]["bastion"]["spec"]["flavor"],
        json!({"id": "f-1"})
    );
    assert_eq!(
        seen_new["spec"]["apiServer"]["enableFloatingIP"],
        json!(false)
    );

    // The controller writes spec and status.
    let merge = |value: Value| Patch::Merge(value);
    let parameters = PatchParams::default();
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443}}});
    new.patch("c", &parameters, &merge(endpoint)).await.unwrap();
    let status = json!({"status": {
        "observedGeneration": 2, "initialization": {"provisioned": true},
        "network": {"id": "n", "name": "net"}, "failureDomains": [{"name": "az1", "controlPlane": true}],
        "apiServerManagedLoadBalancer": {"name": "lb", "id": "l", "members": [{
            "machine": "m", "port": 443, "provisioningStatus": "ACTIVE", "operatingStatus": "ONLINE",
            "since": "2026-01-01T00:00:00Z", "lastObserved": "2026-01-01T00:00:00Z",
        }]},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 2,
             "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "APIServerLoadBalancerReady", "status": "False", "reason": "MemberPending", "message": "one",
             "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ],
    }});
    new.patch_status("c", &parameters, &merge(status))
        .await
        .unwrap();
    let (seen_old, before) = both(&old, &new, "c").await;
    assert_eq!(seen_old["status"]["ready"], json!(true));
    assert_eq!(
        seen_old["status"]["failureDomains"],
        json!({"az1": {"controlPlane": true}})
    );
    assert_eq!(seen_old["status"]["conditions"][1]["severity"], "Info");
    assert_eq!(
        seen_old["spec"]["controlPlaneEndpoint"]["host"],
        "203.0.113.5"
    );

    // A v1beta1 client reads, edits and writes the whole object back.
    let mut edited = old.get("c").await.unwrap();
    edited
        .labels_mut()
        .insert("edited".to_owned(), "yes".to_owned());
    edited.data["spec"]["apiServerLoadBalancer"]["allowedCIDRs"] = json!([]);
    old.replace("c", &PostParams::default(), &edited)
        .await
        .unwrap();
    let (_, after) = both(&old, &new, "c").await;
    assert_eq!(after["status"], before["status"]);
    assert_eq!(after["metadata"]["labels"]["edited"], "yes");
    let mut expected = before["spec"].clone();
    expected["apiServer"]["managedLoadBalancer"]["allowedCIDRs"] = json!([]);
    assert_eq!(after["spec"], expected);

    // An edit of the flavor in v1beta2 removes the values of v1beta1 that were kept for it.
    let flavor = json!({"spec": {"bastion": {"spec": {"flavor": {"id": "f-2"}}}}});
    new.patch("c", &parameters, &merge(flavor)).await.unwrap();
    let (seen_old, _) = both(&old, &new, "c").await;
    assert_eq!(seen_old["spec"]["bastion"]["spec"]["flavorID"], "f-2");
    assert_eq!(seen_old["spec"]["bastion"]["spec"].get("flavor"), None);
}

#[tokio::test]
async fn field_managers_of_two_versions_share_an_object() {
    let served = Served::shared().await;
    let client = served.client().await;
    namespace(&client, "managers").await;
    let old = api(&client, CLUSTER, "v1beta1", "managers");
    let new = api(&client, CLUSTER, "v1beta2", "managers");
    let (gitops, operator) = (PatchParams::apply("gitops"), PatchParams::apply("operator"));
    let applied_old = |parts: &Value| Patch::Apply(object(CLUSTER, "v1beta1", "c", parts.clone()));
    let applied_new = |parts: Value| Patch::Apply(object(CLUSTER, "v1beta2", "c", parts));

    let mut manifest = old_cluster();
    let first = old
        .patch("c", &gitops, &applied_old(&manifest))
        .await
        .unwrap();
    let monitor = json!({"spec": {
        "apiServer": {"managedLoadBalancer": {"monitor": {"delay": 5}}},
        "controlPlaneAvailabilityZones": ["az1"],
    }});
    new.patch("c", &operator, &applied_new(monitor))
        .await
        .unwrap();
    let (seen, _) = both(&old, &new, "c").await;
    assert_eq!(
        seen["spec"]["apiServerLoadBalancer"]["monitor"],
        json!({"delay": 5})
    );

    // The first manager applies again. Its own fields do not change, and no field of the other is lost.
    let again = old
        .patch("c", &gitops, &applied_old(&manifest))
        .await
        .unwrap();
    assert_ne!(again.resource_version(), first.resource_version());
    let settled = old
        .patch("c", &gitops, &applied_old(&manifest))
        .await
        .unwrap();
    assert_eq!(settled.resource_version(), again.resource_version());
    let (unchanged, _) = both(&old, &new, "c").await;
    assert_eq!(unchanged["spec"], seen["spec"]);

    // It changes one of its fields and leaves another one out. The fields of the other manager stay.
    manifest["spec"]["managedSubnets"][0]["dnsNameservers"] = json!(["9.9.9.9"]);
    manifest["spec"]["apiServerLoadBalancer"]
        .as_object_mut()
        .unwrap()
        .remove("allowedCIDRs");
    old.patch("c", &gitops, &applied_old(&manifest))
        .await
        .unwrap();
    let (_, seen) = both(&old, &new, "c").await;
    assert_eq!(
        seen["spec"]["managedSubnets"][0]["dnsNameservers"],
        json!(["9.9.9.9"])
    );
    assert_eq!(
        seen["spec"]["apiServer"]["managedLoadBalancer"],
        json!({"enabled": true, "monitor": {"delay": 5}})
    );
    assert_eq!(
        seen["spec"]["controlPlaneAvailabilityZones"],
        json!(["az1"])
    );

    // Each manager owns the fields that it has applied, whatever their names are in its version.
    let theirs = json!({"spec": {"apiServer": {"port": 8443}}});
    let conflict = new
        .patch("c", &operator, &applied_new(theirs))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        conflict.contains("conflict with \"gitops\": .spec.apiServerPort"),
        "{conflict}"
    );
}

#[tokio::test]
async fn every_kind_is_the_same_in_both_versions() {
    let served = Served::shared().await;
    let client = served.client().await;
    namespace(&client, "kinds").await;
    let machine = json!({"flavor": "m1", "image": {"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d"}});
    let cases = [
        (
            "OpenStackClusterTemplate",
            json!({"spec": {"template": old_cluster()}}),
        ),
        ("OpenStackMachine", json!({"spec": machine})),
        (
            "OpenStackMachineTemplate",
            json!({"spec": {"template": {"spec": machine}}}),
        ),
    ];
    for (kind, parts) in cases {
        let old = api(&client, kind, "v1beta1", "kinds");
        let new = api(&client, kind, "v1beta2", "kinds");
        let created = old
            .create(&PostParams::default(), &object(kind, "v1beta1", "a", parts))
            .await
            .unwrap();
        let (seen, mut twin) = both(&old, &new, "a").await;
        assert_eq!(seen["spec"], created.data["spec"], "{kind}");
        twin["metadata"] = json!({"name": "b", "annotations": twin["metadata"]["annotations"]});
        let twin: DynamicObject = serde_json::from_value(twin).unwrap();
        new.create(&PostParams::default(), &twin).await.unwrap();
        let (seen_twin, _) = both(&old, &new, "b").await;
        assert_eq!(seen_twin["spec"], seen["spec"], "{kind}");
    }
}

#[tokio::test]
async fn a_thousand_clusters_are_listed_and_large_ones_converted() {
    let served = Served::shared().await;
    let client = served.client().await;
    namespace(&client, "thousand").await;
    let old = api(&client, CLUSTER, "v1beta1", "thousand");
    let new = api(&client, CLUSTER, "v1beta2", "thousand");
    stream::iter(0..1000)
        .map(|number| {
            let new = new.clone();
            async move {
                let spec =
                    json!({"spec": {"identityRef": identity(), "apiServer": {"port": number}}});
                let cluster = object(CLUSTER, "v1beta2", &format!("c-{number}"), spec);
                new.create(&PostParams::default(), &cluster).await
            }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    // How long it may take is measured by `make bench`.
    let listed = old.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1000);
    assert!(
        listed
            .items
            .iter()
            .all(|cluster| cluster.data["spec"]["apiServerPort"].is_number())
    );

    // Five hundred conditions with odd texts.
    let conditions: Vec<Value> = (0..500)
        .map(|number| {
            json!({"type": format!("C{number}"), "status": "False", "reason": "R", "lastTransitionTime":
                "2026-01-01T00:00:00Z", "message": format!("ü\u{1f600}\u{7f}\"\\ {}", "x".repeat(500))})
        })
        .collect();
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    new.patch_status("c-0", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let (seen, _) = both(&old, &new, "c-0").await;
    assert_eq!(seen["status"]["conditions"].as_array().unwrap().len(), 500);
    assert_eq!(seen["status"]["conditions"][499]["severity"], "Error");
}

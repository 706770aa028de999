//! The Rust types read and write every field of their schemas.

use capo_api::{GROUP, v1alpha1, v1beta1, v1beta2};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use test_support::full_objects::objects;

fn read_and_written<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(read).unwrap()
}

#[test]
fn types_read_and_write_every_field() {
    for full in objects() {
        let mut object = full.object;
        if full.kind == "OpenStackServer" {
            // The field is read as its opposite, which the object has too.
            for list in ["/spec/ports/0", "/status/resolved/ports/0"] {
                let port = object.pointer_mut(list).unwrap();
                port.as_object_mut().unwrap().remove("disablePortSecurity");
            }
        }
        if full.version == "v1alpha1" {
            // Conditions are written in the form of Kubernetes, which has no severity.
            if let Some(condition) = object.pointer_mut("/status/conditions/0") {
                condition.as_object_mut().unwrap().remove("severity");
            }
        }
        let read = match (full.kind.as_str(), full.version.as_str()) {
            ("OpenStackCluster", "v1beta1") => read_and_written::<v1beta1::OpenStackCluster>,
            ("OpenStackCluster", _) => read_and_written::<v1beta2::OpenStackCluster>,
            ("OpenStackClusterTemplate", "v1beta1") => {
                read_and_written::<v1beta1::OpenStackClusterTemplate>
            }
            ("OpenStackClusterTemplate", _) => {
                read_and_written::<v1beta2::OpenStackClusterTemplate>
            }
            ("OpenStackMachine", "v1beta1") => read_and_written::<v1beta1::OpenStackMachine>,
            ("OpenStackMachine", _) => read_and_written::<v1beta2::OpenStackMachine>,
            ("OpenStackMachineTemplate", "v1beta1") => {
                read_and_written::<v1beta1::OpenStackMachineTemplate>
            }
            ("OpenStackMachineTemplate", _) => {
                read_and_written::<v1beta2::OpenStackMachineTemplate>
            }
            ("OpenStackServer", _) => read_and_written::<v1alpha1::OpenStackServer>,
            ("OpenStackFloatingIPPool", _) => read_and_written::<v1alpha1::OpenStackFloatingIPPool>,
            ("OpenStackClusterIdentity", _) => {
                read_and_written::<v1alpha1::OpenStackClusterIdentity>
            }
            (other, _) => panic!("unknown kind {other}"),
        };
        assert_eq!(read(&object), object, "{} {}", full.kind, full.version);
    }
}

#[test]
fn types_read_what_they_do_not_know() {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1beta2"),
        "kind": "OpenStackCluster",
        "metadata": {"name": "a"},
        "spec": {
            "identityRef": {"type": "Vault", "name": "a"},
            "managedSecurityGroups": {
                "clusterNodesSecurityGroupRules": [{"name": "a", "direction": "sideways", "etherType": "IPX"}],
            },
            "apiServer": {"managedLoadBalancer": {"monitor": {"delay": 4_294_967_296_u64}}},
            "later": true,
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "Perhaps", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "apiServerManagedLoadBalancer": {
                "members": [{"machine": "m", "port": 6443, "provisioningStatus": "RESTING"}],
            },
        },
    });
    let read: v1beta2::OpenStackCluster = serde_json::from_value(object).unwrap();
    assert_eq!(read.spec.identity_ref.type_.as_str(), "Vault");
    let rules = &read
        .spec
        .managed_security_groups
        .unwrap()
        .cluster_nodes_security_group_rules;
    assert_eq!(rules[0].direction.as_str(), "sideways");
    let status = read.status.unwrap();
    assert_eq!(status.conditions[0].status, "Perhaps");
    let load_balancer = status.api_server_managed_load_balancer.unwrap();
    assert_eq!(
        load_balancer.members[0].provisioning_status.as_deref(),
        Some("RESTING")
    );

    let bare: v1beta2::OpenStackCluster =
        serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let written = serde_json::to_value(&bare).unwrap();
    assert_eq!(written.get("spec"), None);
    assert_eq!(written["kind"], "OpenStackCluster");
}

#[test]
fn ports_of_capo_0_14_are_read_in_the_form_of_today() {
    let server: v1alpha1::OpenStackServer = serde_json::from_value(json!({
        "spec": {"ports": [
            {"disablePortSecurity": true},
            {"disablePortSecurity": true, "enablePortSecurity": true},
            {},
        ]},
        "status": {"resolved": {"ports": [{"name": "a", "disablePortSecurity": false}]}},
    }))
    .unwrap();
    let guarded: Vec<Option<bool>> = server
        .spec
        .ports
        .iter()
        .map(|port| port.enable_port_security)
        .collect();
    assert_eq!(guarded, [Some(false), Some(true), None]);
    let resolved = server.status.unwrap().resolved.unwrap();
    assert_eq!(resolved.ports[0].enable_port_security, Some(true));
}

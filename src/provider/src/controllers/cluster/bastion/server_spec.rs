//! Derives the server that the bastion's spec describes, and decides whether an existing server is that one. The
//! functions are pure.

use serde_json::Value;

use crate::reconcile::{
    server_names::ServerGroupOwner,
    server_spec::{ServerInputs, server_spec},
};
use capo_api::{
    v1alpha1::OpenStackServerSpec,
    v1beta2::{Bastion, OpenStackCluster, OpenStackMachineSpec},
};

/// The bastion's server as the spec of the cluster describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DesiredServer {
    /// The spec of the `OpenStackServer` that is created.
    pub spec: OpenStackServerSpec,
    /// The specs that CAPO creates from the same bastion. A server with one of them is not replaced.
    by_capo: Vec<OpenStackServerSpec>,
}

impl DesiredServer {
    /// Derives the server in the cluster's network, with the bastion's security group if security groups are managed.
    pub(crate) fn new(
        cluster: &OpenStackCluster,
        bastion: &Bastion,
        network: &str,
        group: Option<&str>,
    ) -> Self {
        let translated = |cluster: &OpenStackCluster, spec: &OpenStackMachineSpec| {
            let inputs = ServerInputs {
                cluster,
                // As in CAPO, the bastion always uses the cluster's credentials.
                identity: &cluster.spec.identity_ref,
                network: Some(network),
                security_group: group,
                availability_zone: bastion
                    .availability_zone
                    .as_deref()
                    .filter(|zone| !zone.is_empty()),
                user_data: None,
                group_owner: ServerGroupOwner::Bastion,
            };
            server_spec(spec, inputs)
        };
        let spec = bastion.spec.clone().unwrap_or_default();
        // CAPO replaces the addresses of a port without a network by the cluster's subnets. CAPO before 0.15 does not
        // prefer the primary subnet.
        let mut overwritten = spec.clone();
        for port in &mut overwritten.ports {
            if port.network.is_none() {
                port.fixed_ips.clear();
            }
        }
        let mut without_primary = cluster.clone();
        without_primary.spec.primary_subnet = None;
        Self {
            by_capo: vec![
                translated(cluster, &overwritten),
                translated(&without_primary, &overwritten),
            ],
            spec: translated(cluster, &spec),
        }
    }

    /// Whether a server was created from this spec. The credentials are not compared, because they can change without a
    /// replacement.
    pub(crate) fn matches(&self, found: &OpenStackServerSpec) -> bool {
        let found = comparable(found);
        std::iter::once(&self.spec)
            .chain(&self.by_capo)
            .any(|spec| comparable(spec) == found)
    }
}

/// Returns a spec without its credentials and without the differences that do not change the server.
fn comparable(spec: &OpenStackServerSpec) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    let Some(fields) = value.as_object_mut() else {
        return value;
    };
    fields.remove("identityRef");
    if fields.contains_key("flavorID") {
        fields.remove("flavor");
    }
    // For these fields `false` means the same as an absent field.
    for field in ["trunk", "configDrive"] {
        if fields.get(field) == Some(&Value::Bool(false)) {
            fields.remove(field);
        }
    }
    for field in ["tags", "securityGroups"] {
        sort(fields.get_mut(field));
    }
    for port in fields
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(port) = port.as_object_mut() else {
            continue;
        };
        // Neutron refuses security groups on a port without port security.
        if port.get("enablePortSecurity") == Some(&Value::Bool(false)) {
            port.remove("securityGroups");
        }
        for field in ["tags", "securityGroups"] {
            sort(port.get_mut(field));
        }
    }
    prune(&mut value);
    value
}

fn sort(list: Option<&mut Value>) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.sort_by_key(ToString::to_string);
        list.dedup();
    }
}

/// Removes empty fields.
fn prune(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, value| !is_empty(value));
        }
        // An item of a list stays even if it is empty: a port without any field is still a port.
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn cluster(more: Value) -> OpenStackCluster {
        let mut spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "tags": ["of-c"]});
        json_merge(&mut spec, more);
        from_value(json!({"metadata": {"name": "c"}, "spec": spec})).unwrap()
    }

    fn json_merge(into: &mut Value, more: Value) {
        let Value::Object(more) = more else {
            panic!("{more} is not an object");
        };
        into.as_object_mut().unwrap().extend(more);
    }

    fn machine(more: Value) -> Value {
        let mut spec =
            json!({"flavor": {"filter": {"name": "m1"}}, "image": {"filter": {"name": "i"}}});
        json_merge(&mut spec, more);
        spec
    }

    fn desired(cluster: &OpenStackCluster, more: Value) -> DesiredServer {
        let bastion: Bastion =
            from_value(json!({"spec": machine(more), "availabilityZone": "az1"})).unwrap();
        DesiredServer::new(cluster, &bastion, "net", Some("group"))
    }

    #[test]
    fn the_server_is_in_the_clusters_network_with_the_bastions_group_and_no_user_data() {
        let cluster = cluster(json!({}));
        let spec =
            serde_json::to_value(desired(&cluster, json!({"sshKeyName": "key"})).spec).unwrap();
        assert_eq!(
            spec["ports"],
            json!([{"network": {"id": "net"}, "securityGroups": [{"id": "group"}]}])
        );
        assert_eq!(spec["availabilityZone"], "az1");
        assert_eq!(spec["sshKeyName"], "key");
        assert_eq!(spec["tags"], json!(["of-c"]));
        assert_eq!(spec["userDataRef"], Value::Null);
    }

    #[test]
    fn every_change_of_the_spec_is_another_server() {
        let cluster = cluster(json!({}));
        let before = desired(&cluster, json!({}));
        for change in [
            json!({"flavor": {"filter": {"name": "m2"}}}),
            json!({"flavor": {"id": "m1"}}),
            json!({"image": {"id": "i"}}),
            json!({"sshKeyName": "key"}),
            json!({"ports": [{}, {"network": {"id": "other"}}]}),
            json!({"ports": [{"network": {"id": "net"}, "fixedIPs": [{"ipAddress": "10.6.0.9"}]}]}),
            json!({"ports": [{"enablePortSecurity": false}]}),
            json!({"securityGroups": [{"id": "extra"}]}),
            json!({"rootVolume": {"sizeGiB": 10}}),
            json!({"configDrive": true}),
            json!({"tags": ["more"]}),
            json!({"serverGroup": {"id": "g"}}),
        ] {
            let after = desired(&cluster, change.clone());
            assert!(
                !after.matches(&before.spec) && !before.matches(&after.spec),
                "{change}"
            );
            assert!(after.matches(&after.spec), "{change}");
        }
    }

    #[test]
    fn a_server_that_capo_created_for_the_same_spec_is_not_replaced() {
        let subnets =
            json!({"subnets": [{"id": "s1"}, {"id": "s2"}], "primarySubnet": {"id": "s2"}});
        let cluster = cluster(subnets);
        let desired = desired(
            &cluster,
            json!({"flavor": {"id": "f", "filter": {"name": "m1"}}, "tags": ["own", "of-c"],
                "ports": [{"fixedIPs": [{"ipAddress": "10.6.0.9"}]}]}),
        );
        let by_capo = |fixed_ips: Value| -> OpenStackServerSpec {
            from_value(json!({"flavor": "m1", "flavorID": "f", "image": {"filter": {"name": "i"}}, "sshKeyName": "",
                "configDrive": false, "availabilityZone": "az1", "tags": ["of-c", "own"],
                "identityRef": {"type": "Secret", "name": "another", "cloudName": "c"},
                "ports": [{"network": {"id": "net"}, "fixedIPs": fixed_ips, "securityGroups": [{"id": "group"}]}]}))
            .unwrap()
        };
        for (fixed_ips, expected) in [
            (json!([{"subnet": {"id": "s2"}}]), true),
            (
                json!([{"subnet": {"id": "s1"}}, {"subnet": {"id": "s2"}}]),
                true,
            ),
            (json!([{"ipAddress": "10.6.0.9"}]), true),
            (json!([{"ipAddress": "10.6.0.8"}]), false),
        ] {
            assert_eq!(
                desired.matches(&by_capo(fixed_ips.clone())),
                expected,
                "{fixed_ips}"
            );
        }
    }
}

//! Derives the `OpenStackServer` that a machine or a bastion needs from its spec. The functions are pure.

use super::{
    capi::{self, Machine},
    server_names::{ServerGroupOwner, merged_tags, server_group},
};
use capo_api::{
    v1alpha1::{LocalObjectReference, NamedServerGroup, OpenStackServerSpec},
    v1beta2::{
        FixedIp, FlavorParam, IdentityRef, NetworkParam, OpenStackCluster, OpenStackMachineSpec,
        PortOpts, SecurityGroupParam, SubnetParam,
    },
};

/// The inputs of an `OpenStackServer` besides the spec of its machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerInputs<'a> {
    /// The cluster of the machine.
    pub cluster: &'a OpenStackCluster,
    /// The credentials.
    pub identity: &'a IdentityRef,
    /// The id of the cluster's network. Ports that name no network are created in it.
    pub network: Option<&'a str>,
    /// The id of the managed security group. Ports that name no groups get it.
    pub security_group: Option<&'a str>,
    /// The availability zone.
    pub availability_zone: Option<&'a str>,
    /// The Secret with the user data.
    pub user_data: Option<&'a str>,
    /// The servers that share a managed server group with this one.
    pub group_owner: ServerGroupOwner<'a>,
}

impl<'a> ServerInputs<'a> {
    /// The inputs for a Machine, with the values that the status of its cluster has.
    pub(crate) fn of_machine(
        spec: &'a OpenStackMachineSpec,
        cluster: &'a OpenStackCluster,
        machine: &'a Machine,
        control_plane: bool,
    ) -> Self {
        let network = cluster.status.as_ref().and_then(|s| s.network.as_ref());
        Self {
            cluster,
            identity: identity(spec, cluster),
            network: network.and_then(|network| network.id.as_deref()),
            security_group: managed_group(cluster, control_plane),
            availability_zone: machine.spec.failure_domain.as_deref(),
            user_data: machine.spec.bootstrap.data_secret_name.as_deref(),
            group_owner: group_owner(machine, control_plane),
        }
    }
}

/// The Machines whose servers share a server group: those of the control plane, of a MachineDeployment, or else of a
/// MachineSet.
fn group_owner(machine: &Machine, control_plane: bool) -> ServerGroupOwner<'_> {
    let label = |key: &str| Some(machine.metadata.labels.as_ref()?.get(key)?.as_str());
    if control_plane {
        ServerGroupOwner::ControlPlane
    } else if let Some(name) = label(capi::DEPLOYMENT_NAME_LABEL) {
        ServerGroupOwner::Deployment(name)
    } else if let Some(name) = label(capi::SET_NAME_LABEL) {
        ServerGroupOwner::Set(name)
    } else {
        ServerGroupOwner::Machines
    }
}

/// The managed server group that the machine shares with others; `None` if the spec asks for none.
fn managed_group_of(
    spec: &OpenStackMachineSpec,
    inputs: ServerInputs<'_>,
) -> Option<NamedServerGroup> {
    let policy = spec.managed_server_group.as_ref()?.policy.clone();
    let metadata = &inputs.cluster.metadata;
    let owner = capi::owner(metadata, "Cluster").map(|owner| owner.name.as_str());
    let cluster = owner.or(metadata.name.as_deref()).unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = server_group(namespace, cluster, inputs.group_owner, policy.as_str());
    Some(NamedServerGroup { name, policy })
}

/// The identity of a machine: its own, or else that of its cluster.
pub(crate) fn identity<'a>(
    spec: &'a OpenStackMachineSpec,
    cluster: &'a OpenStackCluster,
) -> &'a IdentityRef {
    spec.identity_ref
        .as_ref()
        .unwrap_or(&cluster.spec.identity_ref)
}

/// The identity that an `OpenStackServer` should get in place of `present`; `None` if nothing changes. The region can't
/// change, because what exists in one region is not found in another.
pub(crate) fn identity_to_set(present: &IdentityRef, wanted: &IdentityRef) -> Option<IdentityRef> {
    let wanted = IdentityRef {
        region: present.region.clone(),
        ..wanted.clone()
    };
    (*present != wanted).then_some(wanted)
}

/// The spec of the `OpenStackServer` that a machine needs.
pub(crate) fn server_spec(
    spec: &OpenStackMachineSpec,
    inputs: ServerInputs<'_>,
) -> OpenStackServerSpec {
    let (flavor, flavor_id) = flavor(&spec.flavor);
    OpenStackServerSpec {
        additional_block_devices: spec.additional_block_devices.clone(),
        availability_zone: inputs.availability_zone.map(ToOwned::to_owned),
        config_drive: spec.config_drive,
        flavor,
        flavor_id,
        floating_ip_pool_ref: spec.floating_ip_pool_ref.clone(),
        identity_ref: inputs.identity.clone(),
        image: spec.image.clone(),
        ports: ports(spec, inputs),
        root_volume: spec.root_volume.clone(),
        ssh_key_name: spec.ssh_key_name.clone().unwrap_or_default(),
        // Every port has its security groups already.
        security_groups: Vec::new(),
        server_group: spec.server_group.clone(),
        managed_server_group: managed_group_of(spec, inputs),
        server_metadata: spec.server_metadata.clone(),
        tags: merged_tags(&spec.tags, &inputs.cluster.spec.tags),
        trunk: spec.trunk,
        user_data_ref: inputs.user_data.map(|name| LocalObjectReference {
            name: name.to_owned(),
        }),
        scheduler_hint_additional_properties: spec.scheduler_hint_additional_properties.clone(),
    }
}

fn flavor(param: &FlavorParam) -> (Option<String>, Option<String>) {
    match (&param.id, &param.filter) {
        (Some(id), _) => (None, Some(id.clone())),
        (None, filter) => (filter.as_ref().and_then(|filter| filter.name.clone()), None),
    }
}

/// The ports of a server, each with its network and its security groups. A machine without ports gets one.
fn ports(spec: &OpenStackMachineSpec, inputs: ServerInputs<'_>) -> Vec<PortOpts> {
    let mut ports = spec.ports.clone();
    if ports.is_empty() {
        ports.push(PortOpts::default());
    }
    for port in &mut ports {
        if port.network.is_none() {
            port.network = inputs.network.map(|id| NetworkParam {
                id: Some(id.to_owned()),
                filter: None,
            });
            if port.fixed_ips.is_empty() {
                port.fixed_ips = cluster_fixed_ips(inputs.cluster);
            }
        }
        if port.enable_port_security == Some(false) {
            // Neutron accepts security groups only on ports with port security.
            continue;
        }
        if port.security_groups.is_empty() {
            port.security_groups = inputs
                .security_group
                .iter()
                .map(|id| SecurityGroupParam {
                    id: Some((*id).to_owned()),
                    filter: None,
                })
                .collect();
        }
        for group in &spec.security_groups {
            if !port.security_groups.contains(group) {
                port.security_groups.push(group.clone());
            }
        }
    }
    ports
}

/// The fixed IPs of a port in the cluster's network: in the primary subnet, or in every subnet that the cluster names.
/// If the list is empty, Neutron chooses the subnet.
fn cluster_fixed_ips(cluster: &OpenStackCluster) -> Vec<FixedIp> {
    let fixed_ip = |subnet: &SubnetParam| FixedIp {
        subnet: Some(subnet.clone()),
        ip_address: None,
    };
    match &cluster.spec.primary_subnet {
        Some(primary) => vec![fixed_ip(primary)],
        None => cluster.spec.subnets.iter().map(fixed_ip).collect(),
    }
}

fn managed_group(cluster: &OpenStackCluster, control_plane: bool) -> Option<&str> {
    cluster.spec.managed_security_groups.as_ref()?;
    let status = cluster.status.as_ref()?;
    let group = if control_plane {
        status.control_plane_security_group.as_ref()
    } else {
        status.worker_security_group.as_ref()
    };
    group.map(|group| group.id.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use capo_api::v1beta2::OpenStackMachine;

    fn cluster(spec: &Value) -> OpenStackCluster {
        let mut whole = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": "c1", "namespace": "default"},
            "spec": {"identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack", "region": "R1"},
                "tags": ["cluster", "both"]},
            "status": {"network": {"id": "net-1", "name": "n", "subnets": [{"id": "sub-1", "name": "s", "cidr": "10.0.0.0/24"}]},
                "controlPlaneSecurityGroup": {"id": "cp", "name": "cp"}, "workerSecurityGroup": {"id": "w", "name": "w"}}});
        for (key, value) in spec.as_object().unwrap() {
            whole["spec"][key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    fn translate(machine_spec: &Value, cluster_spec: &Value, control_plane: bool) -> Value {
        let mut spec =
            json!({"image": {"filter": {"name": "i"}}, "flavor": {"filter": {"name": "m1"}}});
        for (key, value) in machine_spec.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let ours: OpenStackMachine = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "metadata": {"name": "m1", "namespace": "default"}, "spec": spec}))
        .unwrap();
        let machine: Machine = serde_json::from_value(json!({"spec": {"failureDomain": "az1",
            "bootstrap": {"dataSecretName": "boot"}}}))
        .unwrap();
        let cluster = cluster(cluster_spec);
        let inputs = ServerInputs::of_machine(&ours.spec, &cluster, &machine, control_plane);
        serde_json::to_value(server_spec(&ours.spec, inputs)).unwrap()
    }

    #[test]
    fn a_changed_identity_reaches_the_server_without_its_region() {
        let identity = |name: &str, region: Option<&str>| IdentityRef {
            name: name.to_owned(),
            region: region.map(str::to_owned),
            ..IdentityRef::default()
        };
        let present = identity("a", Some("R1"));
        assert_eq!(identity_to_set(&present, &present), None);
        assert_eq!(identity_to_set(&present, &identity("a", Some("R2"))), None);
        assert_eq!(
            identity_to_set(&present, &identity("b", None)),
            Some(identity("b", Some("R1")))
        );
    }

    #[test]
    fn the_least_machine_gets_one_port_in_the_clusters_network() {
        let server = translate(&json!({}), &json!({}), true);
        assert_eq!(server["ports"], json!([{"network": {"id": "net-1"}}]));
        assert_eq!(server["flavor"], json!("m1"));
        assert_eq!(server["availabilityZone"], json!("az1"));
        assert_eq!(server["userDataRef"], json!({"name": "boot"}));
        assert_eq!(server["tags"], json!(["cluster", "both"]));
        assert_eq!(server["identityRef"]["region"], json!("R1"));
    }

    #[test]
    fn own_identity_flavor_id_and_tags_win() {
        let server = translate(
            &json!({"identityRef": {"type": "Secret", "name": "mine", "cloudName": "c"}, "flavor": {"id": "f-1"},
                "tags": ["both", "machine"], "sshKeyName": "key"}),
            &json!({}),
            false,
        );
        assert_eq!(server["identityRef"]["name"], json!("mine"));
        assert_eq!(
            (&server["flavorID"], &server["flavor"]),
            (&json!("f-1"), &Value::Null)
        );
        assert_eq!(server["tags"], json!(["both", "machine", "cluster"]));
        assert_eq!(server["sshKeyName"], json!("key"));
    }

    #[test]
    fn machines_that_belong_together_share_a_managed_server_group() {
        let machine = |labels: Value| -> Machine {
            serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": {}})).unwrap()
        };
        let group = |labels: Value, control_plane| {
            let spec: OpenStackMachineSpec = serde_json::from_value(
                json!({"image": {"id": "i"}, "flavor": {"id": "f"}, "managedServerGroup": {}}),
            )
            .unwrap();
            let (cluster, machine) = (cluster(&json!({})), machine(labels));
            let inputs = ServerInputs::of_machine(&spec, &cluster, &machine, control_plane);
            server_spec(&spec, inputs)
                .managed_server_group
                .unwrap()
                .name
        };
        let set = json!({"cluster.x-k8s.io/set-name": "md-0-abcde"});
        let mut deployment = set.clone();
        deployment["cluster.x-k8s.io/deployment-name"] = json!("md-0");
        for (labels, control_plane, expected) in [
            (set.clone(), true, "controlplane"),
            (deployment, false, "deployment-md-0"),
            (set, false, "set-md-0-abcde"),
            (json!({}), false, "machines"),
        ] {
            assert_eq!(
                group(labels, control_plane),
                format!("k8s-clusterapi-cluster-default-c1-{expected}-soft-anti-affinity")
            );
        }
        assert_eq!(
            translate(&json!({}), &json!({}), true)["managedServerGroup"],
            Value::Null
        );
    }

    #[test]
    fn groups_by_role_and_from_the_machine() {
        let managed = json!({"managedSecurityGroups": {}});
        let groups = |spec: Value, control_plane| {
            translate(&spec, &managed, control_plane)["ports"]
                .as_array()
                .unwrap()
                .iter()
                .map(|port| port["securityGroups"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(groups(json!({}), true), [json!([{"id": "cp"}])]);
        assert_eq!(groups(json!({}), false), [json!([{"id": "w"}])]);
        assert_eq!(
            groups(
                json!({"securityGroups": [{"filter": {"name": "extra"}}],
                    "ports": [{}, {"securityGroups": [{"id": "own"}]}, {"enablePortSecurity": false}]}),
                false
            ),
            [
                json!([{"id": "w"}, {"filter": {"name": "extra"}}]),
                json!([{"id": "own"}, {"filter": {"name": "extra"}}]),
                Value::Null,
            ]
        );
    }

    #[test]
    fn addresses_come_from_the_clusters_subnets_unless_the_port_says_more() {
        let fixed =
            |spec: Value, cluster: &Value| translate(&spec, cluster, true)["ports"][0].clone();
        let subnets = json!({"subnets": [{"id": "s1"}, {"filter": {"name": "s2"}}]});
        assert_eq!(
            fixed(json!({}), &subnets)["fixedIPs"],
            json!([{"subnet": {"id": "s1"}}, {"subnet": {"filter": {"name": "s2"}}}])
        );
        let mut primary = subnets.clone();
        primary["primarySubnet"] = json!({"id": "s2"});
        assert_eq!(
            fixed(json!({}), &primary)["fixedIPs"],
            json!([{"subnet": {"id": "s2"}}])
        );
        let own = json!({"ports": [{"fixedIPs": [{"ipAddress": "10.0.0.9"}]}]});
        assert_eq!(
            fixed(own, &subnets)["fixedIPs"],
            json!([{"ipAddress": "10.0.0.9"}])
        );
        let elsewhere = json!({"ports": [{"network": {"id": "other"}}]});
        assert_eq!(
            fixed(elsewhere, &subnets),
            json!({"network": {"id": "other"}})
        );
    }
}

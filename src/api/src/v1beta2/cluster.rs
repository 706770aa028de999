//! `OpenStackCluster`: the network, the API endpoint and the security groups of one cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApiEndpoint, ApiServer, ApiServerLoadBalancer, IdentityRef, LoadBalancerStatus,
    MachineResources, ManagedNetwork, ManagedRouter, ManagedSecurityGroups, NetworkParam,
    OpenStackMachineSpec, ResolvedMachineSpec, RouterParam, SecurityGroupStatus, SubnetParam,
    SubnetSpec,
};
use crate::{resource::custom_resource, schema};

custom_resource! {
    /// The network, the API endpoint and the security groups of one cluster in OpenStack.
    OpenStackCluster, version "v1beta2", plural "openstackclusters", Namespaced,
    spec OpenStackClusterSpec, status OpenStackClusterStatus
}

/// The desired state of the cluster. Most of it can't be changed later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "!has(self.enableExternalNetwork) || self.enableExternalNetwork || !has(self.bastion) || \
     !has(self.bastion.floatingIP)",
    "bastion.floatingIP must not be set when enableExternalNetwork is false",
))]
#[schemars(transform = schema::rule(
    "!has(self.enableExternalNetwork) || self.enableExternalNetwork || (has(self.apiServer) && \
     has(self.apiServer.enableFloatingIP) && !self.apiServer.enableFloatingIP)",
    "apiServer.enableFloatingIP must be set to false when enableExternalNetwork is false",
))]
pub struct OpenStackClusterSpec {
    /// Subnet that is created for the cluster, with a network and a router around it. Without any, the network and the
    /// subnets are looked up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1), transform = schema::atomic)]
    pub managed_subnets: Vec<SubnetSpec>,
    /// Existing subnets to use instead of creating one. The default is all subnets of the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub subnets: Vec<SubnetParam>,
    /// The subnet from which machines get their addresses if there are several. The default is the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_subnet: Option<SubnetParam>,
    /// Properties of the router that is created. They are used only if managedSubnets is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_router: Option<ManagedRouter>,
    /// Existing router to use instead of creating one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterParam>,
    /// Properties of the network that is created. They are used only if managedSubnets is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<ManagedNetwork>,
    /// Existing network to use. It is used only if managedSubnets is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkParam>,
    /// External network for the router and floating IPs. It may be omitted if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_network: Option<NetworkParam>,
    /// Whether the cluster uses an external network. The default is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_external_network: Option<bool>,
    /// The endpoint of the API servers and what is in front of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiServer>,
    /// Security groups that are created for the machines. Without this field no groups are created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_security_groups: Option<ManagedSecurityGroups>,
    /// Tags for everything that is created for the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub tags: Vec<String>,
    /// Where clients reach the API server. The provider sets it once it is known, unless the user sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Availability zones over which control-plane machines are spread. The default is all zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub control_plane_availability_zones: Vec<String>,
    /// Whether control-plane machines are placed without an availability zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_omit_availability_zone: Option<bool>,
    /// A server through which the machines can be reached by SSH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bastion: Option<Bastion>,
    /// The credentials for OpenStack.
    pub identity_ref: IdentityRef,
}

impl OpenStackClusterSpec {
    /// The load balancer in front of the API servers that should exist; `None` if there should be none.
    pub fn enabled_load_balancer(&self) -> Option<&ApiServerLoadBalancer> {
        self.api_server.as_ref()?.enabled_load_balancer()
    }
}

/// A server through which the machines of the cluster can be reached by SSH. Set enabled to false
/// before removing it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "!has(self.enabled) || !self.enabled || has(self.spec)",
    "spec is required when the bastion is enabled",
))]
pub struct Bastion {
    /// Whether the bastion is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::default_to(true))]
    pub enabled: Option<bool>,
    /// The properties of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<OpenStackMachineSpec>,
    /// Availability zone of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Floating IP of the server, which must exist. It is never deleted. Without it, one is
    /// allocated.
    #[serde(rename = "floatingIP", skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::ipv4)]
    pub floating_ip: Option<String>,
}

/// The state of the cluster in OpenStack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// The conditions of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether the cluster is ready for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The network of the cluster and its subnets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatusWithSubnets>,
    /// The external network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_network: Option<NetworkStatus>,
    /// The router of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterStatus>,
    /// The load balancer in front of the API servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server_managed_load_balancer: Option<LoadBalancerStatus>,
    /// Availability zones in which machines can be placed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub failure_domains: Vec<FailureDomain>,
    /// The security group of the control-plane machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_security_group: Option<SecurityGroupStatus>,
    /// The security group of the workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_security_group: Option<SecurityGroupStatus>,
    /// The security group of the bastion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bastion_security_group: Option<SecurityGroupStatus>,
    /// The bastion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bastion: Option<BastionStatus>,
}

/// The progress of the initial set-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Initialization {
    /// Whether the initial set-up is complete. Once true, it stays true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A network that was found or created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkStatus {
    /// Its name. Neutron allows networks without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its ID.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub id: String,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub tags: Vec<String>,
}

/// A network that was found or created, and its subnets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkStatusWithSubnets {
    /// Its name. Neutron allows networks without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its ID. Absent until it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub tags: Vec<String>,
    /// Its subnets that the cluster uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::atomic))]
    pub subnets: Vec<SubnetStatus>,
}

/// A subnet that was found or created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SubnetStatus {
    /// Its name. Neutron allows subnets without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its ID.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub id: String,
    /// Its address range in CIDR notation.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub cidr: String,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub tags: Vec<String>,
}

/// A router that was found or created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RouterStatus {
    /// Its name. Neutron allows routers without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its ID.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub id: String,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub tags: Vec<String>,
    /// Its addresses on the external network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub ips: Vec<String>,
}

/// An availability zone in which machines can be placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the availability zone.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control-plane machines may be placed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// The bastion as last read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BastionStatus {
    /// ID of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the SSH key it was created with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,
    /// Status of the server in Nova.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its address on the cluster network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Its floating IP.
    #[serde(rename = "floatingIP", skip_serializing_if = "Option::is_none")]
    pub floating_ip: Option<String>,
    /// The references of its spec, resolved to ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedMachineSpec>,
    /// What was created for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
}

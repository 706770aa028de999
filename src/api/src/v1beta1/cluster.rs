//! `OpenStackCluster` as CAPO up to 0.14 stores it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApiEndpoint, ApiServerLoadBalancer, BastionStatus, Condition, ExternalRouterIp, IdentityRef,
    Initialization, LoadBalancerStatus, ManagedSecurityGroups, NetworkParam, NetworkStatus,
    NetworkStatusWithSubnets, OpenStackMachineSpec, RouterParam, RouterStatus, SecurityGroupStatus,
    SubnetParam, SubnetSpec,
};
use crate::{resource::custom_resource, schema};

custom_resource! {
    /// The network, the API endpoint and the security groups of one cluster in OpenStack.
    OpenStackCluster, version "v1beta1", plural "openstackclusters", Namespaced,
    spec OpenStackClusterSpec, status OpenStackClusterStatus
}

/// The desired state of the cluster. Most of it can't be changed later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "!has(self.disableExternalNetwork) || !self.disableExternalNetwork || !has(self.bastion) || \
     !has(self.bastion.floatingIP)",
    "bastion.floatingIP must not be set when disableExternalNetwork is true",
))]
#[schemars(transform = schema::rule(
    "!has(self.disableExternalNetwork) || !self.disableExternalNetwork || \
     (has(self.disableAPIServerFloatingIP) && self.disableAPIServerFloatingIP)",
    "disableAPIServerFloatingIP must be set to true when disableExternalNetwork is true",
))]
pub struct OpenStackClusterSpec {
    /// Subnet that is created for the cluster, with a network and a router around it. Without any, the network and the
    /// subnets are looked up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1), transform = schema::atomic)]
    pub managed_subnets: Vec<SubnetSpec>,
    /// Existing router to use instead of creating one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterParam>,
    /// Existing network to use. It is used only if managedSubnets is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkParam>,
    /// Existing subnets to use instead of creating one. The default is all subnets of the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub subnets: Vec<SubnetParam>,
    /// The subnet from which machines get their addresses if there are several. The default is the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_subnet: Option<SubnetParam>,
    /// Largest packet of the created network in bytes. Without it, the cloud chooses.
    #[serde(rename = "networkMTU", skip_serializing_if = "Option::is_none")]
    pub network_mtu: Option<i64>,
    /// Addresses the created router takes on the external network. Without any, the cloud chooses one.
    #[serde(rename = "externalRouterIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub external_router_ips: Vec<ExternalRouterIp>,
    /// External network for the router and floating IPs. It may be omitted if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_network: Option<NetworkParam>,
    /// Whether the cluster uses no external network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_external_network: Option<bool>,
    /// The load balancer in front of the API servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server_load_balancer: Option<ApiServerLoadBalancer>,
    /// Whether the endpoint of the API servers has no floating IP.
    #[serde(
        rename = "disableAPIServerFloatingIP",
        skip_serializing_if = "Option::is_none"
    )]
    pub disable_api_server_floating_ip: Option<bool>,
    /// Floating IP of the endpoint, which must exist. It is never deleted. Without it, one is
    /// allocated and deleted with the cluster.
    #[serde(
        rename = "apiServerFloatingIP",
        skip_serializing_if = "Option::is_none"
    )]
    pub api_server_floating_ip: Option<String>,
    /// Address of the endpoint on the cluster network: of the load balancer, or, without one, an address that something
    /// else provides.
    #[serde(rename = "apiServerFixedIP", skip_serializing_if = "Option::is_none")]
    pub api_server_fixed_ip: Option<String>,
    /// TCP port of the API server. The default is 6443.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub api_server_port: Option<i64>,
    /// Security groups that are created for the machines. Without this field no groups are created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_security_groups: Option<ManagedSecurityGroups>,
    /// Whether security groups are turned off for the ports of the created network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_port_security: Option<bool>,
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
    /// Whether the cluster is ready, as its Ready condition reports.
    #[schemars(transform = schema::default_to(false))]
    pub ready: bool,
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
    pub api_server_load_balancer: Option<LoadBalancerStatus>,
    /// Availability zones in which machines can be placed, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_domains: BTreeMap<String, FailureDomainSpec>,
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
    /// A failure that CAPO regarded as terminal. It is not set any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The message of that failure. It is not set any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The conditions of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An availability zone in which machines can be placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FailureDomainSpec {
    /// Whether control-plane machines may be placed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

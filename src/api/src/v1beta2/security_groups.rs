//! Security groups that are created for the cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, wire::wire_enum};

wire_enum! {
    /// Direction of the traffic of a rule.
    pub enum RuleDirection {
        /// To the instance.
        Ingress = "ingress",
        /// From the instance.
        Egress = "egress",
    }
}

wire_enum! {
    /// IP version of a rule.
    pub enum RuleEtherType {
        /// IPv4.
        Ipv4 = "IPv4",
        /// IPv6.
        Ipv6 = "IPv6",
    }
}

wire_enum! {
    /// A security group that is created for the cluster.
    pub enum ManagedSecurityGroupName {
        /// The group of the bastion.
        Bastion = "bastion",
        /// The group of the control-plane machines.
        ControlPlane = "controlplane",
        /// The group of the workers.
        Worker = "worker",
    }
}

/// Security groups that are created for the machines of the cluster, and rules to add to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedSecurityGroups {
    /// Rules for every machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub cluster_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
    /// Rules for control-plane machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub control_plane_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
    /// Rules for workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::map_by("name"))]
    pub worker_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
    /// Whether all traffic between the machines of the cluster is allowed. Otherwise only the traffic that Kubernetes
    /// needs is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::default_to(false))]
    pub allow_all_in_cluster_traffic: Option<bool>,
}

/// A rule of a security group. At most one of remoteGroupID, remoteIPPrefix and remoteManagedGroups
/// may be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityGroupRuleSpec {
    /// Name of this entry. It is not sent to Neutron.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
    /// Description of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Direction of the traffic, seen from the instance.
    pub direction: RuleDirection,
    /// IP version. The default is IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ether_type: Option<RuleEtherType>,
    /// First port, or ICMP type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::since_v1beta2(schema::int32))]
    pub port_range_min: Option<i64>,
    /// Last port, or ICMP code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::since_v1beta2(schema::int32))]
    pub port_range_max: Option<i64>,
    /// Protocol by name or number. The default is every protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// ID of the security group the other side must be in.
    #[serde(rename = "remoteGroupID", skip_serializing_if = "Option::is_none")]
    pub remote_group_id: Option<String>,
    /// Address range the other side must be in.
    #[serde(rename = "remoteIPPrefix", skip_serializing_if = "Option::is_none")]
    pub remote_ip_prefix: Option<String>,
    /// Managed groups the other side must be in. One rule is created for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub remote_managed_groups: Vec<ManagedSecurityGroupName>,
}

/// A security group of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityGroupStatus {
    /// Its name.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
    /// Its ID.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub id: String,
}

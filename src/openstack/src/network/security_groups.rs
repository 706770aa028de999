//! Security groups and their rules.

use serde::{Deserialize, Serialize};

use crate::{
    Service,
    request::{Call, calls},
    wire::{TagFilter, null_as_default},
};
use capo_core::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use capo_core::wire_enum;

const NEUTRON: Service = Service::Network;

wire_enum! {
    /// The direction of a rule's traffic.
    pub enum Direction {
        /// To the port.
        Ingress = "ingress",
        /// From the port.
        Egress = "egress",
    }
}

wire_enum! {
    /// The IP version of a rule.
    pub enum EtherType {
        /// IPv4.
        Ipv4 = "IPv4",
        /// IPv6.
        Ipv6 = "IPv6",
    }
}

/// A security group with its rules.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SecurityGroup {
    /// Neutron's id.
    pub id: SecurityGroupId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Its rules.
    #[serde(
        default,
        rename = "security_group_rules",
        deserialize_with = "null_as_default"
    )]
    pub rules: Vec<SecurityGroupRule>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SecurityGroupRule {
    /// Neutron's id.
    pub id: SecurityGroupRuleId,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The direction.
    #[serde(default)]
    pub direction: Direction,
    /// The IP version.
    #[serde(default, rename = "ethertype")]
    pub ether_type: EtherType,
    /// Protocol by name or number, as Neutron sent it; `None` means every protocol.
    #[serde(default)]
    pub protocol: Option<String>,
    /// The first port.
    #[serde(default)]
    pub port_range_min: Option<i32>,
    /// The last port.
    #[serde(default)]
    pub port_range_max: Option<i32>,
    /// The address range of the other side, as Neutron sent it.
    #[serde(default)]
    pub remote_ip_prefix: Option<String>,
    /// The security group of the other side.
    #[serde(default)]
    pub remote_group_id: Option<SecurityGroupId>,
    /// The address group of the other side.
    #[serde(default)]
    pub remote_address_group_id: Option<String>,
}

/// The security groups to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SecurityGroupFilter {
    /// The id.
    pub id: Option<SecurityGroupId>,
    /// The exact name.
    pub name: Option<String>,
    /// Any of these exact names.
    pub names: Vec<String>,
    /// The exact description.
    pub description: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// Conditions on its tags.
    pub tags: TagFilter,
}

/// A security group to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewSecurityGroup {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A rule to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewSecurityGroupRule {
    /// The group.
    pub security_group_id: SecurityGroupId,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The direction.
    pub direction: Direction,
    /// The IP version.
    #[serde(rename = "ethertype")]
    pub ether_type: EtherType,
    /// Protocol by name or number; `None` means every protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The first port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range_min: Option<i32>,
    /// The last port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range_max: Option<i32>,
    /// The address range of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_ip_prefix: Option<String>,
    /// The security group of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_group_id: Option<SecurityGroupId>,
    /// The address group of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_address_group_id: Option<String>,
}

calls! {
    /// Security groups that match, with their rules.
    fn security_groups(filter: &SecurityGroupFilter) -> Vec<SecurityGroup> = list(
        Call::get(NEUTRON, "group_list", ["security-groups"])
            .each("id", &filter.id)
            .each("name", &filter.name)
            .each("name", &filter.names)
            .each("description", &filter.description)
            .each("project_id", &filter.project_id)
            .tags(&filter.tags),
        "security_groups"
    );

    /// One security group with its rules.
    fn security_group(id: &SecurityGroupId) -> SecurityGroup = one(
        Call::get(NEUTRON, "security_group_get", ["security-groups", id.as_str()]),
        "security_group"
    );

    /// Creates a security group. Neutron gives it two rules that allow all outgoing traffic.
    fn create_security_group(new: &NewSecurityGroup) -> SecurityGroup = one(
        Call::post(NEUTRON, "security_group_create", ["security-groups"])
            .json("security_group", new),
        "security_group"
    );

    /// Deletes a security group. While a port uses it, Neutron answers 409.
    fn delete_security_group(id: &SecurityGroupId) -> () =
        done(Call::delete(NEUTRON, "security_group_delete", ["security-groups", id.as_str()]));

    /// Creates rules in one call, all of them or none.
    fn create_security_group_rules(new: &[NewSecurityGroupRule]) -> Vec<SecurityGroupRule> = one(
        Call::post(NEUTRON, "security_group_rule_create", ["security-group-rules"])
            .json("security_group_rules", new),
        "security_group_rules"
    );

    /// Deletes a rule.
    fn delete_security_group_rule(id: &SecurityGroupRuleId) -> () = done(
        Call::delete(NEUTRON, "security_group_rule_delete", ["security-group-rules", id.as_str()])
    );
}

//! `OpenStackFloatingIPPool`: floating IPs that machines get and give back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    resource::custom_resource,
    schema,
    v1beta2::{IdentityRef, NetworkParam, NetworkStatus},
    wire::wire_enum,
};

custom_resource! {
    /// Floating IPs that machines get and give back.
    OpenStackFloatingIPPool, version "v1alpha1", plural "openstackfloatingippools", Namespaced,
    spec OpenStackFloatingIPPoolSpec, status OpenStackFloatingIPPoolStatus
}

wire_enum! {
    /// What happens to a floating IP whose claim is released.
    pub enum ReclaimPolicy {
        /// It stays in the pool.
        Retain = "Retain",
        /// It is deleted, unless the user brought it along.
        Delete = "Delete",
    }
}

/// The desired state of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackFloatingIPPoolSpec {
    /// Existing floating IPs that are used before new ones are allocated.
    #[serde(
        rename = "preAllocatedFloatingIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub pre_allocated_floating_ips: Vec<String>,
    /// With this many floating IPs given out, the pool allocates no further one. By default it
    /// allocates as many as are claimed.
    #[serde(rename = "maxIPs", skip_serializing_if = "Option::is_none")]
    pub max_ips: Option<i64>,
    /// The credentials for OpenStack.
    pub identity_ref: IdentityRef,
    /// External network to allocate from. It may be omitted if there is only one.
    #[serde(rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub floating_ip_network: Option<NetworkParam>,
    /// What happens to a floating IP whose claim is released: Retain keeps it in the pool, Delete deletes it unless
    /// it is one of preAllocatedFloatingIPs. Those that the pool allocated go with the pool either way.
    pub reclaim_policy: ReclaimPolicy,
}

/// The state of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackFloatingIPPoolStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// Floating IPs that are in use.
    #[serde(rename = "claimedIPs")]
    #[schemars(transform = schema::default_to_list)]
    pub claimed_ips: Vec<String>,
    /// Floating IPs that are free.
    #[serde(rename = "availableIPs")]
    #[schemars(transform = schema::default_to_list)]
    pub available_ips: Vec<String>,
    /// Floating IPs of preAllocatedFloatingIPs that do not exist.
    #[serde(rename = "failedIPs", skip_serializing_if = "Vec::is_empty")]
    pub failed_ips: Vec<String>,
    /// The external network.
    #[serde(rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub floating_ip_network: Option<NetworkStatus>,
    /// The conditions of the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_of_either_form")]
    pub conditions: Vec<Condition>,
}

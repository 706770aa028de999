//! `OpenStackFloatingIPPool`: floating IPs that are given to machines and taken back.

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
    /// Floating IPs that are given to machines and taken back.
    OpenStackFloatingIPPool, version "v1alpha1", plural "openstackfloatingippools", Namespaced,
    spec OpenStackFloatingIPPoolSpec, status OpenStackFloatingIPPoolStatus
}

wire_enum! {
    /// What becomes of the floating IPs of a pool that is deleted.
    pub enum ReclaimPolicy {
        /// They stay.
        Retain = "Retain",
        /// They are deleted.
        Delete = "Delete",
    }
}

/// What is wanted of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackFloatingIPPoolSpec {
    /// Existing floating IPs that are given out before new ones are allocated.
    #[serde(
        rename = "preAllocatedFloatingIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub pre_allocated_floating_ips: Vec<String>,
    /// How many floating IPs the pool may allocate. Without it or with 0, as many as are asked for.
    #[serde(rename = "maxIPs", skip_serializing_if = "Option::is_none")]
    pub max_ips: Option<i64>,
    /// The credentials for OpenStack.
    pub identity_ref: IdentityRef,
    /// External network to allocate from. Without it, the only one there is.
    #[serde(rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub floating_ip_network: Option<NetworkParam>,
    /// What becomes of the floating IPs when the pool is deleted: Retain keeps them, Delete deletes
    /// those that were not given in preAllocatedFloatingIPs.
    pub reclaim_policy: ReclaimPolicy,
}

/// What is in the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackFloatingIPPoolStatus {
    /// Generation of the object to which this status belongs. -1 until it was looked at for the
    /// first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// Floating IPs that are given out.
    #[serde(rename = "claimedIPs")]
    #[schemars(transform = schema::default_to_list)]
    pub claimed_ips: Vec<String>,
    /// Floating IPs that are free.
    #[serde(rename = "availableIPs")]
    #[schemars(transform = schema::default_to_list)]
    pub available_ips: Vec<String>,
    /// Floating IPs that could not be deleted.
    #[serde(rename = "failedIPs", skip_serializing_if = "Vec::is_empty")]
    pub failed_ips: Vec<String>,
    /// The external network.
    #[serde(rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub floating_ip_network: Option<NetworkStatus>,
    /// What is true of the pool now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_of_either_form")]
    pub conditions: Vec<Condition>,
}

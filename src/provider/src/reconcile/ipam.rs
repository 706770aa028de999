//! Cluster API's IPAM kinds. An `IPAddressClaim` asks a pool for an address, and an `IPAddress` is the answer.
//!
//! As in [`capi`](super::capi), a field that is missing or of an unexpected type reads as its default.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::capi::{ContractReference, lenient};

/// The API group of Cluster API's IPAM kinds.
pub(crate) const GROUP: &str = "ipam.cluster.x-k8s.io";
/// The version at which capo-rs reads and writes them.
pub(crate) const VERSION: &str = "v1beta2";

/// A request to a pool for an address.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct IPAddressClaim {
    /// The usual metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The requested address: for which Cluster, and from which pool.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: IPAddressClaimSpec,
    /// The answer of the pool.
    #[serde(default, deserialize_with = "lenient")]
    pub status: IPAddressClaimStatus,
}

/// What a claim asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IPAddressClaimSpec {
    /// The Cluster that the address is for.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "lenient"
    )]
    pub cluster_name: String,
    /// The pool.
    #[serde(default, deserialize_with = "lenient")]
    pub pool_ref: PoolReference,
}

/// The answer to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IPAddressClaimStatus {
    /// The `IPAddress`. Its name is empty until the pool has answered.
    #[serde(default, deserialize_with = "lenient")]
    pub address_ref: NameReference,
}

/// An address that a pool has given to a claim.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct IPAddress {
    /// The usual metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The address with its claim and its pool.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: IPAddressSpec,
}

/// The address with its claim and its pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IPAddressSpec {
    /// The claim that has the address.
    #[serde(default, deserialize_with = "lenient")]
    pub claim_ref: NameReference,
    /// The pool that the address is from.
    #[serde(default, deserialize_with = "lenient")]
    pub pool_ref: PoolReference,
    /// The address as text.
    #[serde(default, deserialize_with = "lenient")]
    pub address: String,
    /// The length of the network prefix in bits.
    #[serde(default, deserialize_with = "lenient")]
    pub prefix: u8,
}

/// An object of a known kind in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameReference {
    /// Its name.
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
}

/// A pool in the same namespace.
pub(crate) type PoolReference = ContractReference;

impl PoolReference {
    /// The name of the `OpenStackFloatingIPPool` to which this refers; `None` if it refers to another kind.
    pub(crate) fn floating_ip_pool(&self) -> Option<&str> {
        let ours = self.api_group == capo_api::GROUP && self.kind == "OpenStackFloatingIPPool";
        ours.then_some(self.name.as_str())
    }
}

super::capi::resource!(IPAddressClaim, "ipaddressclaims", GROUP, VERSION);
super::capi::resource!(IPAddress, "ipaddresses", GROUP, VERSION);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_references_to_our_kind_are_ours_and_odd_values_read_as_nothing() {
        let pool = |group: &str, kind: &str| {
            let claim: IPAddressClaim = serde_json::from_value(json!({
                "metadata": {"name": "a"}, "spec": {"poolRef": {"apiGroup": group, "kind": kind, "name": "p"}}}))
            .unwrap();
            claim.spec.pool_ref.floating_ip_pool().map(str::to_owned)
        };
        assert_eq!(
            pool("infrastructure.cluster.x-k8s.io", "OpenStackFloatingIPPool").as_deref(),
            Some("p")
        );
        assert_eq!(pool("ipam.cluster.x-k8s.io", "InClusterIPPool"), None);
        assert_eq!(pool("example.com", "OpenStackFloatingIPPool"), None);
        let odd: IPAddress =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"address": 7}}))
                .unwrap();
        assert_eq!(odd.spec, IPAddressSpec::default());
    }
}

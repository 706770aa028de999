//! The credentials for a cloud.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, wire::wire_enum};

wire_enum! {
    /// The kind of the object that holds the credentials.
    pub enum IdentityRefType, default Secret {
        /// A Secret in the namespace of the object.
        Secret = "Secret",
        /// A cluster-wide `OpenStackClusterIdentity`.
        ClusterIdentity = "ClusterIdentity",
    }
}

/// The credentials for OpenStack: a clouds.yaml in a Secret, or a cluster-wide identity that names
/// one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::rule(
    "has(self.region) == has(oldSelf.region) && (!has(self.region) || self.region == \
     oldSelf.region)",
    "region is immutable: it can't be changed, added or removed",
))]
pub struct IdentityRef {
    /// Secret: a Secret in the namespace of this object. ClusterIdentity: an
    /// OpenStackClusterIdentity that allows this namespace.
    #[schemars(transform = schema::default_to("Secret"))]
    pub type_: IdentityRefType,
    /// Name of the Secret or of the OpenStackClusterIdentity. The Secret holds the key clouds.yaml
    /// and may hold a key cacert.
    #[schemars(transform = schema::non_empty)]
    pub name: String,
    /// Entry of clouds.yaml to use.
    #[schemars(transform = schema::non_empty)]
    pub cloud_name: String,
    /// OpenStack region, instead of the one in clouds.yaml. Can't be changed, added or removed
    /// later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

//! `OpenStackClusterIdentity`: credentials that several namespaces may use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{resource::custom_resource, schema};

custom_resource! {
    /// Credentials that several namespaces may use without seeing them.
    OpenStackClusterIdentity, version "v1alpha1", plural "openstackclusteridentities", Cluster,
    spec OpenStackClusterIdentitySpec, status OpenStackClusterIdentityStatus
}

/// The Secret with the credentials, and the namespaces that may use them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterIdentitySpec {
    /// The Secret that holds the credentials.
    pub secret_ref: CredentialSecretReference,
    /// Labels of the namespaces whose objects may use the credentials. Without it, every namespace may use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
}

/// A Secret that holds the key clouds.yaml and may hold a key cacert.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CredentialSecretReference {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
}

/// The state of the credentials. It shows nothing of the Secret's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterIdentityStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// The conditions of the credentials. Ready: the Secret exists and its clouds.yaml can be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

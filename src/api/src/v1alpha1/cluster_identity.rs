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

/// Where the credentials are and who may use them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterIdentitySpec {
    /// The Secret that holds the credentials.
    pub secret_ref: CredentialSecretReference,
    /// Labels of the namespaces whose objects may use the credentials. Without it, every namespace
    /// may.
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

/// What was found of the credentials. Nothing of the Secret's content is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterIdentityStatus {
    /// Generation of the object to which this status belongs. -1 until it was looked at for the
    /// first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// What is true of the credentials now. Ready: the Secret is there and its clouds.yaml can be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

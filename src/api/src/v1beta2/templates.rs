//! Templates from which Cluster API creates clusters and machines.

use std::collections::BTreeMap;

use k8s_openapi::{
    apimachinery::pkg::api::resource::Quantity, apimachinery::pkg::apis::meta::v1::Condition,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OpenStackClusterSpec, OpenStackMachineSpec};
use crate::{resource::custom_resource, schema};

custom_resource! {
    /// A template from which the OpenStackCluster of a ClusterClass is created.
    OpenStackClusterTemplate, version "v1beta2", plural "openstackclustertemplates", Namespaced,
    spec OpenStackClusterTemplateSpec, status OpenStackClusterTemplateStatus
}

custom_resource! {
    /// A template from which OpenStackMachines are created.
    OpenStackMachineTemplate, version "v1beta2", plural "openstackmachinetemplates", Namespaced,
    spec OpenStackMachineTemplateSpec, status OpenStackMachineTemplateStatus
}

/// The desired state of the clusters that are created from the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterTemplateSpec {
    /// The cluster that is created.
    pub template: OpenStackClusterTemplateResource,
}

/// A cluster that is created from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterTemplateResource {
    /// Labels and annotations of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The spec of the cluster. It can't be changed; create a new template instead.
    pub spec: OpenStackClusterSpec,
}

/// Labels and annotations of an object that is created from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct TemplateMetadata {
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The state of the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterTemplateStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
}

/// The desired state of the machines that are created from the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineTemplateSpec {
    /// The machine that is created.
    pub template: OpenStackMachineTemplateResource,
}

/// A machine that is created from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineTemplateResource {
    /// The spec of the machine. Only the allowedAddressPairs of ports can be changed; create a new template instead.
    pub spec: OpenStackMachineSpec,
}

/// The properties of a machine that is created from the template, for the cluster autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineTemplateStatus {
    /// Generation of the object to which this status belongs. -1 until the first reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// The conditions of the template.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The resources of such a node: cpu, memory, ephemeral-storage, storage.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Further properties of such a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// Properties of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(transform = schema::at_least_one)]
pub struct NodeInfo {
    /// Its operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
}

//! Templates as CAPO up to 0.14 stores them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Condition, NodeInfo, OpenStackClusterSpec, OpenStackClusterTemplateStatus,
    OpenStackMachineSpec, TemplateMetadata,
};
use crate::{resource::custom_resource, schema};

custom_resource! {
    /// A template from which the OpenStackCluster of a ClusterClass is made.
    OpenStackClusterTemplate, version "v1beta1", plural "openstackclustertemplates", Namespaced,
    spec OpenStackClusterTemplateSpec, status OpenStackClusterTemplateStatus
}

custom_resource! {
    /// A template from which OpenStackMachines are made.
    OpenStackMachineTemplate, version "v1beta1", plural "openstackmachinetemplates", Namespaced,
    spec OpenStackMachineTemplateSpec, status OpenStackMachineTemplateStatus
}

/// What is wanted of the clusters made from the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterTemplateSpec {
    /// The cluster as it is made.
    pub template: OpenStackClusterTemplateResource,
}

/// A cluster as it is made from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackClusterTemplateResource {
    /// Labels and annotations of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The spec of the cluster. It can't be changed; make a new template instead.
    pub spec: OpenStackClusterSpec,
}

/// What is wanted of the machines made from the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineTemplateSpec {
    /// The machine as it is made.
    pub template: OpenStackMachineTemplateResource,
}

/// A machine as it is made from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineTemplateResource {
    /// The spec of the machine. Only the allowedAddressPairs of ports can be changed; make a new
    /// template instead.
    pub spec: OpenStackMachineSpec,
}

/// What a machine made from the template would offer, for the cluster autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenStackMachineTemplateStatus {
    /// Generation of the object to which this status belongs. -1 until it was looked at for the
    /// first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::observed_generation)]
    pub observed_generation: Option<i64>,
    /// What a node would have: cpu, memory, ephemeral-storage, storage.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Properties a node would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// What is true of the template now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

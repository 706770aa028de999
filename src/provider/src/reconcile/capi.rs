//! The kinds `Cluster` and `Machine` of Cluster API, trimmed to the fields that it uses.
//!
//! Reading never fails because of an object's content: a field that is missing, unknown or of an unexpected type reads
//! as its default, because one object of another project must not stop the watch of all the others.

pub mod condition;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use capo_core::ConditionStatus;

/// The API group of Cluster API's own kinds.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The version at which capo-rs reads them.
pub const VERSION: &str = "v1beta2";

/// Label: the name of the Cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label, presence only: the object belongs to a control-plane machine.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Label: the MachineDeployment that a Machine belongs to.
pub const DEPLOYMENT_NAME_LABEL: &str = "cluster.x-k8s.io/deployment-name";
/// Label: the MachineSet that a Machine belongs to.
pub const SET_NAME_LABEL: &str = "cluster.x-k8s.io/set-name";
/// Label: only the manager that was started with the same `--watch-filter` reconciles the object.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Annotation, presence only: the object is paused.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Annotation, presence only: another program manages the object.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Annotation, presence only: clusterctl has moved the object away and deletes it here.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// A Cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Cluster {
    /// The usual metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: ClusterSpec,
    /// The state that Cluster API observed.
    #[serde(default, deserialize_with = "lenient")]
    pub status: ClusterStatus,
}

/// The fields of a Cluster's spec that capo-rs reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether all changes of the cluster are paused.
    #[serde(default, deserialize_with = "lenient")]
    pub paused: bool,
    /// The endpoint of the API server.
    #[serde(default, deserialize_with = "lenient")]
    pub control_plane_endpoint: Endpoint,
    /// The control-plane object, usually a KubeadmControlPlane.
    #[serde(default, deserialize_with = "lenient")]
    pub control_plane_ref: Option<ContractReference>,
    /// The infrastructure object: an `OpenStackCluster` for the clusters of this provider.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_ref: Option<ContractReference>,
}

/// The fields of a Cluster's status that capo-rs reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Milestones that are never taken back.
    #[serde(default, deserialize_with = "lenient")]
    pub initialization: ClusterInitialization,
    /// Cluster API's conditions.
    #[serde(default, deserialize_with = "lenient_list")]
    pub conditions: Vec<SeenCondition>,
}

/// A Cluster's milestones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// The infrastructure has reported `provisioned`.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_provisioned: bool,
    /// Whether the control plane has reported that it is initialised.
    #[serde(default, deserialize_with = "lenient")]
    pub control_plane_initialized: bool,
}

/// Host and port of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Endpoint {
    /// Name or address; empty until it is set.
    #[serde(default, deserialize_with = "lenient")]
    pub host: String,
    /// TCP port; 0 until it is set.
    #[serde(default, deserialize_with = "lenient")]
    pub port: u16,
}

impl Endpoint {
    /// Whether host and port are both set.
    pub fn is_set(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// A reference to an object of a contract kind in the same namespace. The labels of the CRD give its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractReference {
    /// API group.
    #[serde(default, deserialize_with = "lenient")]
    pub api_group: String,
    /// Kind.
    #[serde(default, deserialize_with = "lenient")]
    pub kind: String,
    /// Name.
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
}

/// A Machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Machine {
    /// The usual metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: MachineSpec,
    /// The state that Cluster API observed.
    #[serde(default, deserialize_with = "lenient")]
    pub status: MachineStatus,
}

/// The fields of a Machine's spec that capo-rs reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The name of the Cluster to which the Machine belongs.
    #[serde(default, deserialize_with = "lenient")]
    pub cluster_name: String,
    /// The source of its boot data.
    #[serde(default, deserialize_with = "lenient")]
    pub bootstrap: Bootstrap,
    /// The infrastructure object.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_ref: Option<ContractReference>,
    /// The provider id. Cluster API sets it once the infrastructure has reported `provisioned`. From then on the
    /// machine counts as admitted.
    #[serde(default, rename = "providerID", deserialize_with = "lenient")]
    pub provider_id: Option<String>,
    /// The availability zone of the machine.
    #[serde(default, deserialize_with = "lenient")]
    pub failure_domain: Option<String>,
    /// The Kubernetes version of the Machine.
    #[serde(default, deserialize_with = "lenient")]
    pub version: Option<String>,
}

/// The source of a Machine's boot data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The Secret that holds the user data under the key `value`.
    #[serde(default, deserialize_with = "lenient")]
    pub data_secret_name: Option<String>,
}

/// The fields of a Machine's status that capo-rs reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The Node of the Machine.
    #[serde(default, deserialize_with = "lenient")]
    pub node_ref: Option<NodeReference>,
    /// Cluster API's conditions.
    #[serde(default, deserialize_with = "lenient_list")]
    pub conditions: Vec<SeenCondition>,
    /// Milestones that are never taken back.
    #[serde(default, deserialize_with = "lenient")]
    pub initialization: MachineInitialization,
}

/// A Machine's Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct NodeReference {
    /// Its name.
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
}

/// A Machine's milestones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineInitialization {
    /// The infrastructure has reported `provisioned`.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_provisioned: bool,
}

/// A condition of an object of another provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenCondition {
    /// Its type.
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    pub kind: String,
    /// Its status; Unknown where it has another text.
    #[serde(default, deserialize_with = "lenient")]
    pub status: ConditionStatus,
    /// Its reason.
    #[serde(default, deserialize_with = "lenient")]
    pub reason: String,
    /// Its message.
    #[serde(default, deserialize_with = "lenient")]
    pub message: String,
    /// The time at which it got its status.
    #[serde(default, deserialize_with = "lenient")]
    pub last_transition_time: Option<Timestamp>,
}

impl SeenCondition {
    /// Whether its status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

impl Cluster {
    /// Its condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&SeenCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether a Cluster is being deleted, or was absent in an uncached read.
    pub fn is_deleting_or_absent(cluster: Option<&Self>) -> bool {
        cluster.is_none_or(Self::is_deleting)
    }
}

impl Machine {
    /// Its condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&SeenCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it belongs to the control plane: by its label, or because the control-plane object owns it although the
    /// label was removed.
    pub fn is_control_plane(&self, cluster: Option<&Cluster>) -> bool {
        has_label(&self.metadata, CONTROL_PLANE_LABEL)
            || cluster
                .and_then(|cluster| cluster.spec.control_plane_ref.as_ref())
                .is_some_and(|control_plane| {
                    let owners = self.metadata.owner_references.iter().flatten();
                    owners.into_iter().any(|owner| {
                        owner.kind == control_plane.kind && owner.name == control_plane.name
                    })
                })
    }

    /// Whether its infrastructure object is the `OpenStackMachine` of this name.
    pub fn is_on(&self, openstack_machine: &str) -> bool {
        self.spec
            .infrastructure_ref
            .as_ref()
            .is_some_and(|reference| {
                reference.kind == "OpenStackMachine" && reference.name == openstack_machine
            })
    }

    /// Whether the machine is admitted, which means that Cluster API has copied its provider id. Cluster API never
    /// removes it.
    pub fn is_admitted(&self) -> bool {
        self.spec
            .provider_id
            .as_deref()
            .is_some_and(|id| !id.is_empty())
    }
}

/// Whether an object carries an annotation, whatever its value.
pub fn has_annotation(metadata: &ObjectMeta, key: &str) -> bool {
    metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(key))
}

/// Whether an object carries a label, whatever its value.
pub fn has_label(metadata: &ObjectMeta, key: &str) -> bool {
    metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(key))
}

/// The owner of this kind in Cluster API's group, whatever the version of the reference.
pub fn owner<'a>(metadata: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == kind && owner.api_version.split('/').next() == Some(GROUP))
}

/// Reads a value, or its default where the value has an unexpected type.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads the items of a list that have the expected type.
fn lenient_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    let serde_json::Value::Array(items) = value else {
        return Ok(Vec::new());
    };
    Ok(items
        .into_iter()
        .filter_map(|item| serde_json::from_value(item).ok())
        .collect())
}

macro_rules! resource {
    ($kind:ident, $plural:literal) => {
        $crate::reconcile::capi::resource!(
            $kind,
            $plural,
            $crate::reconcile::capi::GROUP,
            $crate::reconcile::capi::VERSION
        );
    };
    ($kind:ident, $plural:literal, $group:expr, $version:expr) => {
        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use resource;

resource!(Cluster, "clusters");
resource!(Machine, "machines");

#[cfg(test)]
mod tests;

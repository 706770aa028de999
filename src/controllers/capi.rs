//! The two Cluster API kinds that we read, trimmed to the fields that decide something here.
//!
//! Reading never fails on content: a field that is missing, unknown or of an unexpected type reads as
//! its default, because an object of another project must not stop the watch of all the others.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta,
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// The API group of Cluster API's own kinds.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The version that we read them at.
pub const VERSION: &str = "v1beta2";

/// Label: the Cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label, presence only: the object belongs to a control-plane machine.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Label: only the manager started with the same `--watch-filter` looks at the object.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Annotation, presence only: the object is paused.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Annotation, presence only: somebody else looks after the object.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Annotation, presence only: clusterctl has moved the object away and deletes it here.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Our pre-terminate hook on control-plane Machines: while it is there, a deletion waits before the
/// control plane provider takes the API server down.
pub const HOOK_ANNOTATION: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// The hook's value: names its owner.
pub const HOOK_VALUE: &str = "capo-rs";

/// A Cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Cluster {
    /// The usual metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What its user wants.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: ClusterSpec,
    /// What Cluster API saw.
    #[serde(default, deserialize_with = "lenient")]
    pub status: ClusterStatus,
}

/// The fields of a Cluster's spec that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Nothing of the cluster may be touched.
    #[serde(default, deserialize_with = "lenient")]
    pub paused: bool,
    /// Where the API server is reached.
    #[serde(default, deserialize_with = "lenient")]
    pub control_plane_endpoint: Endpoint,
    /// The control-plane object, usually a KubeadmControlPlane.
    #[serde(default, deserialize_with = "lenient")]
    pub control_plane_ref: Option<ContractReference>,
    /// The infrastructure object, an `OpenStackCluster` for the clusters that concern us.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_ref: Option<ContractReference>,
}

/// The fields of a Cluster's status that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Milestones that never go back.
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
    /// The infrastructure said `provisioned` once.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_provisioned: bool,
    /// The control plane said that it is initialised once.
    #[serde(default, deserialize_with = "lenient")]
    pub control_plane_initialized: bool,
}

/// Host and port of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Endpoint {
    /// Name or address; empty until known.
    #[serde(default, deserialize_with = "lenient")]
    pub host: String,
    /// TCP port; 0 until known.
    #[serde(default, deserialize_with = "lenient")]
    pub port: u16,
}

impl Endpoint {
    /// Host and port are both known.
    pub fn is_set(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// A reference to an object of a contract kind in the same namespace. Its version is found out from the CRD's labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
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
    /// What its user wants.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: MachineSpec,
    /// What Cluster API saw.
    #[serde(default, deserialize_with = "lenient")]
    pub status: MachineStatus,
}

/// The fields of a Machine's spec that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The Cluster it belongs to.
    #[serde(default, deserialize_with = "lenient")]
    pub cluster_name: String,
    /// Where its boot data comes from.
    #[serde(default, deserialize_with = "lenient")]
    pub bootstrap: Bootstrap,
    /// The infrastructure object.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_ref: Option<ContractReference>,
    /// Set by Cluster API once the infrastructure said `provisioned`: the machine is admitted for good.
    #[serde(default, rename = "providerID", deserialize_with = "lenient")]
    pub provider_id: Option<String>,
    /// The availability zone it must lie in.
    #[serde(default, deserialize_with = "lenient")]
    pub failure_domain: Option<String>,
    /// The Kubernetes version it runs.
    #[serde(default, deserialize_with = "lenient")]
    pub version: Option<String>,
}

/// Where a Machine's boot data comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The Secret that holds the user data under the key `value`.
    #[serde(default, deserialize_with = "lenient")]
    pub data_secret_name: Option<String>,
}

/// The fields of a Machine's status that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The Node it became.
    #[serde(default, deserialize_with = "lenient")]
    pub node_ref: Option<NodeReference>,
    /// Cluster API's conditions.
    #[serde(default, deserialize_with = "lenient_list")]
    pub conditions: Vec<SeenCondition>,
    /// How far its deletion is.
    #[serde(default, deserialize_with = "lenient")]
    pub deletion: MachineDeletion,
    /// Milestones that never go back.
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

/// How far a Machine's deletion is. Written by Cluster API 1.14 and later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeletion {
    /// Since when it waits for pre-terminate hooks.
    #[serde(default, deserialize_with = "lenient")]
    pub wait_for_pre_terminate_hook_start_time: Option<Timestamp>,
}

/// A Machine's milestones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineInitialization {
    /// The infrastructure said `provisioned` once.
    #[serde(default, deserialize_with = "lenient")]
    pub infrastructure_provisioned: bool,
}

/// A condition of an object that is not ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenCondition {
    /// Its type.
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default, deserialize_with = "lenient")]
    pub status: String,
    /// Its reason.
    #[serde(default, deserialize_with = "lenient")]
    pub reason: String,
    /// Its message.
    #[serde(default, deserialize_with = "lenient")]
    pub message: String,
    /// Since when it has its status.
    #[serde(default, deserialize_with = "lenient")]
    pub last_transition_time: Option<Timestamp>,
}

impl SeenCondition {
    /// Its status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Its status is `False`.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}

impl Cluster {
    /// Its condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&SeenCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// It is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl Machine {
    /// Its condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&SeenCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// It is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// It belongs to the control plane.
    pub fn is_control_plane(&self) -> bool {
        has_label(&self.metadata, CONTROL_PLANE_LABEL)
    }

    /// It carries our pre-terminate hook.
    pub fn has_our_hook(&self) -> bool {
        has_annotation(&self.metadata, HOOK_ANNOTATION)
    }

    /// Cluster API has taken over its provider id: it is admitted, which can't be taken back.
    pub fn is_admitted(&self) -> bool {
        self.spec
            .provider_id
            .as_deref()
            .is_some_and(|id| !id.is_empty())
    }

    /// Its deletion has come to the pre-terminate hooks.
    pub fn waits_for_pre_terminate_hook(&self) -> bool {
        self.is_deleting()
            && self.condition("Deleting").is_some_and(|deleting| {
                deleting.is_true() && deleting.reason == "WaitingForPreTerminateHook"
            })
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

/// Reads a value, or its default when it is not what we expect.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads those items of a list that are what we expect.
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
        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                VERSION.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(Cluster, "clusters");
resource!(Machine, "machines");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cluster, Machine, owner};

    #[test]
    fn reads_what_cluster_api_writes() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "name": "c1-abcde", "namespace": "default",
                "labels": {"cluster.x-k8s.io/control-plane": ""},
                "deletionTimestamp": "2026-11-21T10:00:00Z",
                "annotations": {"pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member": "capo-rs"},
            },
            "spec": {
                "clusterName": "c1", "version": "v1.34.4", "failureDomain": "nova",
                "bootstrap": {"dataSecretName": "c1-abcde"},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "c1-abcde"},
                "providerID": "openstack:///42",
            },
            "status": {
                "nodeRef": {"name": "c1-abcde"},
                "deletion": {"waitForPreTerminateHookStartTime": "2026-11-21T10:00:10Z"},
                "initialization": {"infrastructureProvisioned": true},
                "conditions": [{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                    "message": "…", "lastTransitionTime": "2026-11-21T10:00:10Z", "observedGeneration": 2}],
            },
        }))
        .unwrap();
        assert!(machine.is_control_plane() && machine.is_admitted() && machine.has_our_hook());
        assert!(machine.waits_for_pre_terminate_hook());
        assert_eq!(
            machine.spec.bootstrap.data_secret_name.as_deref(),
            Some("c1-abcde")
        );
        assert_eq!(machine.status.node_ref.unwrap().name, "c1-abcde");
    }

    #[test]
    fn reads_anything() {
        for odd in [
            json!({}),
            json!({"metadata": {"name": "x"}, "spec": null, "status": null}),
            json!({"metadata": {"name": "x"}, "spec": [1], "status": "no"}),
            json!({"metadata": {"name": "x"},
                "spec": {"paused": "yes", "controlPlaneEndpoint": {"host": 7, "port": 700_000}, "controlPlaneRef": [],
                    "clusterName": {}, "bootstrap": 1, "providerID": null},
                "status": {"initialization": [], "conditions": [null, 1, {"type": "Ready", "status": "True", "lastTransitionTime": 4}],
                    "nodeRef": 3, "deletion": {"waitForPreTerminateHookStartTime": "soon"}}}),
        ] {
            let cluster: Cluster = serde_json::from_value(odd.clone()).unwrap();
            assert!(!cluster.spec.paused && !cluster.spec.control_plane_endpoint.is_set());
            let machine: Machine = serde_json::from_value(odd.clone()).unwrap();
            assert!(!machine.is_admitted() && !machine.waits_for_pre_terminate_hook());
            if odd["status"]["conditions"].is_array() {
                assert!(machine.condition("Ready").unwrap().is_true());
            }
        }
    }

    #[test]
    fn finds_its_owner_at_any_version() {
        let machine: Machine = serde_json::from_value(json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Machine", "name": "no", "uid": "1"},
            {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "yes", "uid": "2"},
        ]}}))
        .unwrap();
        assert_eq!(owner(&machine.metadata, "Machine").unwrap().name, "yes");
        assert!(owner(&machine.metadata, "Cluster").is_none());
    }
}

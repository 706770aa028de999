//! A management cluster of a test's own, for managers as processes: a kube-apiserver with everything of capo-rs but a
//! manager, and Cluster API as a script.

use kube::Client;
use serde_json::{Value, json};

use super::{
    ClusterApi, Error, Installation, Kubernetes,
    apply::{apply, credentials},
};

/// The namespace of all objects.
pub const NAMESPACE: &str = "default";

/// The management cluster. Its managers must be dropped before it.
pub struct ScriptedCluster {
    // The fields are dropped in this order.
    /// Cluster API, as a script.
    pub cluster_api: ClusterApi,
    /// The Kubernetes API, as cluster-admin.
    pub admin: Client,
    pub installation: Installation,
    pub kubernetes: Kubernetes,
}

impl ScriptedCluster {
    pub async fn start() -> Result<Self, Error> {
        Self::with(Installation::in_new_cluster().await?).await
    }

    /// The same, installed from what `capo-rs manifests` printed with options.
    pub async fn start_from(manifests: &str) -> Result<Self, Error> {
        Self::with(Installation::in_new_cluster_from(manifests).await?).await
    }

    async fn with((kubernetes, installation): (Kubernetes, Installation)) -> Result<Self, Error> {
        let admin = kubernetes.admin().await?;
        Ok(Self {
            cluster_api: ClusterApi::play(admin.clone(), NAMESPACE),
            admin,
            installation,
            kubernetes,
        })
    }

    /// Writes the Secret with the credentials of a cloud.
    pub async fn credentials(&self, name: &str, clouds_yaml: &str) {
        let secret = credentials(NAMESPACE, name, clouds_yaml);
        apply(&self.admin, &[secret]).await.unwrap();
    }
}

/// The credentials of the cloud `cloud` in a Secret, as objects refer to them.
pub fn identity(secret: &str, cloud: &str) -> Value {
    json!({"name": secret, "cloudName": cloud})
}

/// An OpenStackCluster whose network and load balancer are managed; `change` is merged into its spec.
pub fn open_stack_cluster(namespace: &str, name: &str, identity: &Value, change: &Value) -> Value {
    let mut spec = json!({
        "identityRef": identity,
        "managedSubnets": [{"cidr": "10.6.0.0/24"}],
        "managedSecurityGroups": {"allowAllInClusterTraffic": true},
        "apiServer": {"managedLoadBalancer": {}},
    });
    json_patch::merge(&mut spec, change);
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

/// The spec of a small machine.
pub fn machine_spec(identity: &Value, image: &str) -> Value {
    json!({
        "identityRef": identity,
        "flavor": {"filter": {"name": "m1.small"}},
        "image": {"filter": {"name": image}},
    })
}

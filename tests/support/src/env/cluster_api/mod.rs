//! A scripted Cluster API on a real kube-apiserver: what its core controllers and a control-plane
//! provider do to the objects that an infrastructure provider sees, in their order, and nothing else.
//!
//! It plays: owner references and labels on infrastructure objects, the copy of `providerID` once an OpenStackMachine
//! is provisioned, the node that joins, the conditions that name it healthy ([`script`]); deletion with pre-drain and
//! pre-terminate hooks, the control plane's own hook last from Kubernetes 1.31 on ([`deletion`]). When an object
//! changes it reads all objects and does the next step, at most once every [`INTERVAL`], so a test waits for the state
//! that it needs and never for the script.

mod deletion;
mod script;

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

use super::Error;
use crate::waiting::{PATIENCE, Wait};
use script::Script;

/// The default of the shortest time between two steps of the script.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// The longest time between two steps, for changes that no watch has shown because it was interrupted.
const WITHOUT_A_CHANGE: Duration = Duration::from_secs(2);

/// The kinds on whose objects the script's steps depend.
const WATCHED: [&str; 4] = ["Cluster", "Machine", "OpenStackCluster", "OpenStackMachine"];

/// Part of every machine's boot data, which is secret: tests search for it where it must not occur.
pub const BOOTSTRAP_CANARY: &str = "canary-bootstrap-data-55de";

const CONTROL_PLANE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
const CLUSTER_FINALIZER: &str = "cluster.cluster.x-k8s.io";
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// A running script in one namespace. It stops when dropped.
pub struct ClusterApi {
    client: Client,
    namespace: String,
    interval: Duration,
    work: JoinSet<()>,
}

impl ClusterApi {
    /// Starts to play in `namespace`.
    pub fn play(client: Client, namespace: &str) -> Self {
        Self::play_every(client, namespace, INTERVAL)
    }

    /// Starts the script in `namespace`, with an interval that leaves an API server time for many namespaces.
    pub fn play_every(client: Client, namespace: &str, interval: Duration) -> Self {
        let script = Script::new(client.clone(), namespace);
        let changed = Arc::new(Notify::new());
        let mut work = JoinSet::new();
        for kind in WATCHED {
            let objects = watcher(api(&client, namespace, kind), watcher::Config::default());
            let changed = Arc::clone(&changed);
            work.spawn(objects.default_backoff().for_each(move |_| {
                changed.notify_one();
                std::future::ready(())
            }));
        }
        work.spawn(async move {
            loop {
                let done = script.carry_out().await;
                tokio::time::sleep(interval).await;
                // A conflict or a restarting API server is handled in the next step.
                if done.is_ok() {
                    let _ = timeout(WITHOUT_A_CHANGE, changed.notified()).await;
                }
            }
        });
        Self {
            client,
            namespace: namespace.to_owned(),
            interval,
            work,
        }
    }

    /// Stops the script. The objects stay.
    pub fn stop(&mut self) {
        self.work.abort_all();
    }

    /// Creates a Cluster whose infrastructure is the OpenStackCluster of the same name and whose
    /// control plane is a KubeadmControlPlane of the same name.
    pub async fn create_cluster(&self, name: &str, infrastructure: Value) {
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": self.namespace, "finalizers": [CLUSTER_FINALIZER]},
            "spec": {
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name},
                "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name},
            },
        });
        let control_plane = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {CLUSTER_NAME: name}},
            "spec": {},
        });
        self.create(cluster).await;
        self.create(control_plane).await;
        self.create(infrastructure).await;
    }

    /// Creates a Machine with its OpenStackMachine and its bootstrap Secret, as a control plane or a
    /// MachineSet would.
    pub async fn create_machine(
        &self,
        cluster: &str,
        name: &str,
        control_plane: bool,
        infrastructure_spec: Value,
    ) {
        self.create_machine_of(cluster, name, control_plane, infrastructure_spec, "v1.34.4")
            .await;
    }

    /// The same with this version of Kubernetes.
    pub async fn create_machine_of(
        &self,
        cluster: &str,
        name: &str,
        control_plane: bool,
        infrastructure_spec: Value,
        version: &str,
    ) {
        let mut labels = json!({CLUSTER_NAME: cluster});
        let mut annotations = json!({});
        if control_plane {
            labels[CONTROL_PLANE] = json!("");
            annotations[CONTROL_PLANE_HOOK] = json!("");
        }
        self.create(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-bootstrap"), "namespace": self.namespace, "labels": {CLUSTER_NAME: cluster}},
            "type": "cluster.x-k8s.io/secret",
            "stringData": {"value": format!("#cloud-config\n# {BOOTSTRAP_CANARY}\n")},
        }))
        .await;
        self.create(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels, "annotations": annotations,
                         "finalizers": [MACHINE_FINALIZER]},
            "spec": {
                "clusterName": cluster, "version": version,
                "bootstrap": {"dataSecretName": format!("{name}-bootstrap")},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name},
            },
        }))
        .await;
        self.create(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {CLUSTER_NAME: cluster}},
            "spec": infrastructure_spec,
        }))
        .await;
    }

    /// Deletes an object. The script carries the deletion out.
    pub async fn delete(&self, kind: &str, name: &str) {
        let api = api(&self.client, &self.namespace, kind);
        if let Err(error) = api.delete(name, &DeleteParams::default()).await {
            panic!("deleting {kind} {name}: {error}");
        }
    }

    /// The object as it is now, or `None`.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, Error> {
        let object = api(&self.client, &self.namespace, kind)
            .get_opt(name)
            .await?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    /// The object as soon as `wanted` holds for it (`Value::Null` stands for an absent object).
    pub async fn wait_for(
        &self,
        kind: &str,
        name: &str,
        at_most: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Error> {
        let mut last = Value::Null;
        let wait = Wait::default().at_most(at_most).between(self.interval / 2);
        let waiting = wait.start();
        loop {
            if let Ok(object) = self.get(kind, name).await {
                last = object.unwrap_or_default();
                if wanted(&last) {
                    return Ok(last);
                }
            }
            if !waiting.again().await {
                break;
            }
        }
        if let Some(metadata) = last["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Err(format!("{kind} {name} is not as wanted after {at_most:?}:\n{last:#}").into())
    }

    /// The same, but at most for [`PATIENCE`]. The test fails if `wanted` does not hold by then.
    pub async fn until_object(
        &self,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        match self.wait_for(kind, name, PATIENCE, wanted).await {
            Ok(object) => object,
            Err(error) => panic!("{error}"),
        }
    }

    /// The object as soon as its `status.initialization.provisioned` is true.
    pub async fn until_provisioned(&self, kind: &str, name: &str) -> Value {
        self.until_object(kind, name, is_provisioned).await
    }

    /// Waits until an object does not exist any more.
    pub async fn until_gone(&self, kind: &str, name: &str) {
        self.until_object(kind, name, Value::is_null).await;
    }

    async fn create(&self, object: Value) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let name = object.name_any();
        let api = api(&self.client, &self.namespace, &kind);
        if let Err(error) = api.create(&PostParams::default(), &object).await {
            panic!("creating {kind} {name}: {error}");
        }
    }
}

/// Whether Cluster API may continue with the object.
pub fn is_provisioned(object: &Value) -> bool {
    object["status"]["initialization"]["provisioned"] == true
}

/// The API of a kind that the script supports.
pub fn api(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = match kind {
        "Cluster" | "Machine" | "MachineDeployment" | "MachineHealthCheck" => {
            ("cluster.x-k8s.io", "v1beta2")
        }
        "KubeadmControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta2"),
        "OpenStackCluster"
        | "OpenStackMachine"
        | "OpenStackClusterTemplate"
        | "OpenStackMachineTemplate" => ("infrastructure.cluster.x-k8s.io", "v1beta2"),
        "OpenStackServer" | "OpenStackFloatingIPPool" => {
            ("infrastructure.cluster.x-k8s.io", "v1alpha1")
        }
        "IPAddressClaim" | "IPAddress" => ("ipam.cluster.x-k8s.io", "v1beta2"),
        _ => ("", "v1"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// The condition of `object` as (status, reason, message).
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let found = object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)?;
    Some((
        found["status"].as_str()?,
        found["reason"].as_str()?,
        found["message"].as_str().unwrap_or_default(),
    ))
}

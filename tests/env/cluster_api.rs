//! A scripted Cluster API on a real kube-apiserver: what its core controllers and a control-plane
//! provider do to the objects that an infrastructure provider sees, in their order, and nothing else.
//!
//! Played: owner references and labels on infrastructure objects, the copy of `providerID` once an
//! OpenStackMachine is provisioned, the node that joins, the conditions that name it healthy, and
//! deletion with pre-terminate hooks, the control plane's own hook last. It looks at the world every
//! [`BEAT`] and does the next thing, so a test waits for what it wants to see and never for the script.

use std::time::Duration;

use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Error;

/// How often the script looks at the world.
pub const BEAT: Duration = Duration::from_millis(100);

const HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
const CONTROL_PLANE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
const CLUSTER_FINALIZER: &str = "cluster.cluster.x-k8s.io";
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// The script at work in one namespace; it stops when dropped.
pub struct ClusterApi {
    client: Client,
    namespace: String,
    work: JoinHandle<()>,
}

impl Drop for ClusterApi {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl ClusterApi {
    /// Starts to play in `namespace`.
    pub fn play(client: Client, namespace: &str) -> Self {
        let stage = Stage {
            client: client.clone(),
            namespace: namespace.to_owned(),
        };
        let work = tokio::spawn(async move {
            loop {
                // A lost race or a restarting API server shows in the next beat.
                let _ = stage.beat().await;
                tokio::time::sleep(BEAT).await;
            }
        });
        Self {
            client,
            namespace: namespace.to_owned(),
            work,
        }
    }

    /// Creates a Cluster whose infrastructure is the OpenStackCluster of the same name and whose
    /// control plane is a KubeadmControlPlane of the same name.
    pub async fn create_cluster(&self, name: &str, infrastructure: Value) -> Result<(), Error> {
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
        self.create(cluster).await?;
        self.create(control_plane).await?;
        self.create(infrastructure).await
    }

    /// Creates a Machine with its OpenStackMachine and its bootstrap Secret, as a control plane or a
    /// MachineSet would.
    pub async fn create_machine(
        &self,
        cluster: &str,
        name: &str,
        control_plane: bool,
        infrastructure_spec: Value,
    ) -> Result<(), Error> {
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
            "stringData": {"value": "#cloud-config\n"},
        }))
        .await?;
        self.create(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels, "annotations": annotations,
                         "finalizers": [MACHINE_FINALIZER]},
            "spec": {
                "clusterName": cluster, "version": "v1.34.4",
                "bootstrap": {"dataSecretName": format!("{name}-bootstrap")},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name},
            },
        }))
        .await?;
        self.create(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {CLUSTER_NAME: cluster}},
            "spec": infrastructure_spec,
        }))
        .await
    }

    /// Deletes an object; the script carries the deletion through.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<(), Error> {
        api(&self.client, &self.namespace, kind)
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The object as it is now, or nothing.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, Error> {
        let object = api(&self.client, &self.namespace, kind)
            .get_opt(name)
            .await?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    /// The object as soon as `wanted` holds for it (`Value::Null` stands for "not there").
    pub async fn wait_for(
        &self,
        kind: &str,
        name: &str,
        at_most: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Error> {
        let mut last = Value::Null;
        let seen = tokio::time::timeout(at_most, async {
            loop {
                if let Ok(object) = self.get(kind, name).await {
                    last = object.unwrap_or_default();
                    if wanted(&last) {
                        return;
                    }
                }
                tokio::time::sleep(BEAT / 2).await;
            }
        })
        .await;
        match seen {
            Ok(()) => Ok(last),
            Err(_) => Err(format!(
                "{kind} {name} is not as wanted after {at_most:?}:\n{}",
                serde_json::to_string_pretty(&last)?
            )
            .into()),
        }
    }

    async fn create(&self, object: Value) -> Result<(), Error> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object)?;
        let name = object.name_any();
        api(&self.client, &self.namespace, &kind)
            .create(&kube::api::PostParams::default(), &object)
            .await
            .map_err(|error| format!("creating {kind} {name}: {error}"))?;
        Ok(())
    }
}

/// The API of a kind that the script knows.
pub fn api(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = match kind {
        "Cluster" | "Machine" => ("cluster.x-k8s.io", "v1beta2"),
        "KubeadmControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta2"),
        "OpenStackCluster" | "OpenStackMachine" => ("infrastructure.cluster.x-k8s.io", "v1beta2"),
        "OpenStackServer" => ("infrastructure.cluster.x-k8s.io", "v1alpha1"),
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

struct Stage {
    client: Client,
    namespace: String,
}

impl Stage {
    async fn beat(&self) -> Result<(), Error> {
        let clusters = self.list("Cluster").await?;
        let machines = self.list("Machine").await?;
        for cluster in &clusters {
            let name = name_of(cluster);
            let own: Vec<&Value> = machines
                .iter()
                .filter(|machine| machine["spec"]["clusterName"] == name)
                .collect();
            let infrastructure = self.get("OpenStackCluster", name).await?;
            if going(cluster) {
                self.delete_cluster(cluster, &own, infrastructure.as_ref())
                    .await?;
            } else if let Some(infrastructure) = &infrastructure {
                self.provision_cluster(cluster, infrastructure).await?;
            }
            for machine in own {
                if going(machine) {
                    self.delete_machine(machine).await?;
                } else {
                    self.provision_machine(cluster, machine).await?;
                }
            }
        }
        Ok(())
    }

    async fn provision_cluster(
        &self,
        cluster: &Value,
        infrastructure: &Value,
    ) -> Result<(), Error> {
        let name = name_of(cluster);
        self.own(infrastructure, cluster, false).await?;
        if infrastructure["status"]["initialization"]["provisioned"] != true {
            return Ok(());
        }
        let endpoint = &infrastructure["spec"]["controlPlaneEndpoint"];
        if cluster["spec"]["controlPlaneEndpoint"].is_null() && !endpoint.is_null() {
            self.patch(
                "Cluster",
                name,
                json!({"spec": {"controlPlaneEndpoint": endpoint}}),
            )
            .await?;
        }
        if cluster["status"]["initialization"]["infrastructureProvisioned"] != true {
            self.patch_status(
                "Cluster",
                name,
                json!({"initialization": {"infrastructureProvisioned": true}}),
            )
            .await?;
        }
        Ok(())
    }

    async fn provision_machine(&self, cluster: &Value, machine: &Value) -> Result<(), Error> {
        let name = name_of(machine);
        let Some(infrastructure) = self.get("OpenStackMachine", name).await? else {
            return Ok(());
        };
        self.own(&infrastructure, machine, true).await?;
        let provider_id = &infrastructure["spec"]["providerID"];
        if infrastructure["status"]["initialization"]["provisioned"] != true
            || provider_id.is_null()
        {
            return Ok(());
        }
        if machine["spec"]["providerID"].is_null() {
            self.patch(
                "Machine",
                name,
                json!({"spec": {"providerID": provider_id}}),
            )
            .await?;
        }
        if machine["status"]["nodeRef"].is_null() {
            let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let good = |kind: &str| {
                json!({"type": kind, "status": "True", "reason": "Played", "message": "",
                       "lastTransitionTime": since})
            };
            self.patch_status(
                "Machine",
                name,
                json!({
                    "nodeRef": {"name": name},
                    "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
                    "conditions": [good("NodeHealthy"), good("APIServerPodHealthy")],
                }),
            )
            .await?;
            let control_plane = machine["metadata"]["labels"][CONTROL_PLANE].is_string();
            if control_plane
                && cluster["status"]["initialization"]["controlPlaneInitialized"] != true
            {
                self.patch_status(
                    "Cluster",
                    name_of(cluster),
                    json!({
                        "initialization": {"controlPlaneInitialized": true},
                        "conditions": [good("RemoteConnectionProbe"), good("ControlPlaneInitialized")],
                    }),
                )
                .await?;
                self.patch_status(
                    "KubeadmControlPlane",
                    name_of(cluster),
                    json!({"initialization": {"controlPlaneInitialized": true}}),
                )
                .await?;
            }
        }
        Ok(())
    }

    /// Order of Cluster API's core: pre-terminate hooks, infrastructure, the Machine itself. The
    /// control plane drops its own hook when no other is left, unless everything is going.
    async fn delete_machine(&self, machine: &Value) -> Result<(), Error> {
        let name = name_of(machine);
        let hooks: Vec<&str> = machine["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .filter(|key| key.starts_with(HOOK_PREFIX))
            .collect();
        if hooks == [CONTROL_PLANE_HOOK] {
            return self.drop_annotation(name, CONTROL_PLANE_HOOK).await;
        }
        if !hooks.is_empty() {
            return self.deleting(machine, "WaitingForPreTerminateHook").await;
        }
        match self.get("OpenStackMachine", name).await? {
            Some(infrastructure) => {
                self.deleting(machine, "WaitingForInfrastructureDeletion")
                    .await?;
                self.start_deleting("OpenStackMachine", &infrastructure)
                    .await
            }
            None => self.drop_finalizers("Machine", machine).await,
        }
    }

    async fn delete_cluster(
        &self,
        cluster: &Value,
        machines: &[&Value],
        infrastructure: Option<&Value>,
    ) -> Result<(), Error> {
        for machine in machines {
            self.start_deleting("Machine", machine).await?;
        }
        if !machines.is_empty() {
            return Ok(());
        }
        let name = name_of(cluster);
        if let Some(control_plane) = self.get("KubeadmControlPlane", name).await? {
            self.start_deleting("KubeadmControlPlane", &control_plane)
                .await?;
        }
        match infrastructure {
            Some(infrastructure) => {
                self.start_deleting("OpenStackCluster", infrastructure)
                    .await
            }
            None => self.drop_finalizers("Cluster", cluster).await,
        }
    }

    async fn deleting(&self, machine: &Value, reason: &str) -> Result<(), Error> {
        let shown = machine["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Deleting");
        if shown.is_some_and(|condition| condition["reason"] == reason) {
            return Ok(());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut conditions: Vec<Value> = machine["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|condition| condition["type"] != "Deleting")
            .cloned()
            .collect();
        conditions.push(
            json!({"type": "Deleting", "status": "True", "reason": reason, "message": "",
                               "lastTransitionTime": now}),
        );
        let mut status = json!({"conditions": conditions});
        if reason == "WaitingForPreTerminateHook" {
            status["deletion"] = json!({"waitForPreTerminateHookStartTime": now});
        }
        self.patch_status("Machine", name_of(machine), status).await
    }

    /// Sets label and owner reference as core does on an object that a Cluster or Machine refers to.
    async fn own(&self, object: &Value, owner: &Value, controller: bool) -> Result<(), Error> {
        if object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|references| !references.is_empty())
        {
            return Ok(());
        }
        let cluster = owner["spec"]["clusterName"]
            .as_str()
            .unwrap_or_else(|| name_of(owner));
        self.patch(
            object["kind"].as_str().unwrap_or_default(),
            name_of(object),
            json!({"metadata": {
                "labels": {CLUSTER_NAME: cluster},
                "ownerReferences": [{
                    "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name_of(owner),
                    "uid": owner["metadata"]["uid"], "controller": controller,
                }],
            }}),
        )
        .await
    }

    async fn start_deleting(&self, kind: &str, object: &Value) -> Result<(), Error> {
        if going(object) {
            return Ok(());
        }
        api(&self.client, &self.namespace, kind)
            .delete(name_of(object), &DeleteParams::default())
            .await?;
        Ok(())
    }

    async fn drop_finalizers(&self, kind: &str, object: &Value) -> Result<(), Error> {
        self.patch(
            kind,
            name_of(object),
            json!({"metadata": {"finalizers": null}}),
        )
        .await
    }

    async fn drop_annotation(&self, machine: &str, annotation: &str) -> Result<(), Error> {
        self.patch(
            "Machine",
            machine,
            json!({"metadata": {"annotations": {annotation: null}}}),
        )
        .await
    }

    async fn list(&self, kind: &str) -> Result<Vec<Value>, Error> {
        let mut objects = api(&self.client, &self.namespace, kind)
            .list(&ListParams::default())
            .await?
            .items
            .into_iter()
            .map(serde_json::to_value)
            .collect::<Result<Vec<_>, _>>()?;
        for object in &mut objects {
            // Items of a list carry neither.
            object["kind"] = json!(kind);
            object["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
        }
        Ok(objects)
    }

    async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, Error> {
        let object = api(&self.client, &self.namespace, kind)
            .get_opt(name)
            .await?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<(), Error> {
        api(&self.client, &self.namespace, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    async fn patch_status(&self, kind: &str, name: &str, status: Value) -> Result<(), Error> {
        api(&self.client, &self.namespace, kind)
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({"status": status})),
            )
            .await?;
        Ok(())
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

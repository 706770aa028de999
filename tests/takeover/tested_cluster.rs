//! One cluster with its namespace and its cloud.

use std::{collections::BTreeSet, net::TcpListener, path::Path, sync::Arc, time::Duration};

use fake_cloud::{Durations, Event, FakeCloud, Options};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use test_support::{
    env::apply,
    rollout::subnet,
    waiting::{PATIENCE, Wait},
};
use tokio::{io::AsyncWriteExt as _, sync::Mutex};

use crate::{
    control_plane::ControlPlane,
    kinds::Kind,
    moment::{LONG, Moment},
    requests::ANSWER,
};

const NAME: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// Many clusters are checked side by side, so each is checked less often than usual.
pub(crate) const CHECK: Wait = Wait {
    at_most: PATIENCE,
    between: Duration::from_millis(250),
};

/// The two versions of CAPO's kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Version {
    V1Beta1,
    V1Beta2,
}

pub(crate) struct TestedCluster {
    pub kind: Kind,
    pub cloud: FakeCloud,
    pub client: Client,
    /// Name of the namespace; the cluster's too.
    pub name: String,
    subnet: String,
    /// This socket is held so that no other process derives the same addresses.
    _claim: TcpListener,
    /// Addresses on which something listens in place of an API server.
    listening: Arc<Mutex<BTreeSet<String>>>,
    /// A real control plane, which some kinds have in place of Machines without an owner.
    pub control_plane: Option<ControlPlane>,
}

impl TestedCluster {
    pub(crate) async fn start(kind: Kind, client: Client, logs: &Path) -> Self {
        let claim = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let options = Options {
            durations: Durations {
                load_balancer_create: match Moment::of(kind) {
                    Moment::HalfCreatedCluster => LONG,
                    _ => 1.0,
                },
                operation: 0.2,
                ..Durations::instant()
            },
            ..Options::default()
        };
        let cloud = FakeCloud::start(options).await.unwrap();
        let control_plane = match kind {
            Kind::RollingUpdate => Some(("rolling-update", 3)),
            Kind::ClusterClass => Some(("cluster-class", 1)),
            _ => None,
        };
        let control_plane = control_plane.map(|(name, replicas)| {
            ControlPlane::start(name, replicas, client.clone(), &cloud, logs)
        });
        let cluster = Self {
            kind,
            cloud,
            client,
            control_plane,
            name: kind.name().replace('_', "-"),
            subnet: subnet(claim.local_addr().unwrap().port()),
            _claim: claim,
            listening: Arc::default(),
        };
        // The machines of a real control plane have API servers.
        if cluster.control_plane.is_none() {
            cluster.listen();
        }
        cluster
    }

    pub(crate) fn control_plane(&self) -> &ControlPlane {
        self.control_plane
            .as_ref()
            .expect("this kind has a real control plane")
    }

    /// The machines that it has from the beginning, besides those of a real control plane.
    pub(crate) fn first_machines(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::ClusterClass => &[],
            Kind::RollingUpdate => &["w-0"],
            _ => &["cp-0", "w-0"],
        }
    }

    /// Something accepts connections on every server, so that health checks find their members up.
    fn listen(&self) {
        let mut events = self.cloud.control().events();
        let listening = self.listening.clone();
        tokio::spawn(async move {
            while let Ok(event) = events.recv().await {
                let Event::ServerUp { addresses, .. } = event else {
                    continue;
                };
                for port in [6443, 9345] {
                    for address in &addresses {
                        let at = format!("{address}:{port}");
                        if listening.lock().await.insert(at.clone())
                            && let Ok(listener) = tokio::net::TcpListener::bind(&at).await
                        {
                            tokio::spawn(async move {
                                while let Ok((mut connection, _)) = listener.accept().await {
                                    // A health check closes the connection without reading, so an error is expected.
                                    let _ = connection.write_all(ANSWER).await;
                                }
                            });
                        }
                    }
                }
            }
        });
    }

    /// Creates the Cluster, with a control-plane machine and a worker.
    pub(crate) async fn create(&self) -> Result<(), String> {
        let spec = self.kind.specification(&self.cloud, &self.subnet).await;
        let name = &self.name;
        let secret = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            apply::credentials(name, "cloud-config", &self.cloud.clouds_yaml()),
        ];
        self.apply(&secret).await?;
        self.apply(&self.kind.before(&self.cloud, name).await)
            .await?;
        if let Some(control_plane) = &self.control_plane
            && self.kind == Kind::ClusterClass
        {
            let machine = self.kind.machine_specification(Version::V1Beta1);
            let documents = control_plane.of_class(&spec, &machine);
            return self.until_applied(&documents).await;
        }
        let mut cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": name},
            "spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name}},
        });
        if let Some(control_plane) = &self.control_plane {
            let machine = self.kind.machine_specification(Version::V1Beta1);
            self.apply(&control_plane.documents(&machine)).await?;
            cluster["spec"]["controlPlaneRef"] = json!({
                "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name});
        }
        let documents = [
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackCluster",
                "metadata": {"name": name, "namespace": name}, "spec": spec,
            }),
            cluster,
        ];
        self.apply(&documents).await?;
        for machine in self.first_machines() {
            self.machine(machine, machine.starts_with("cp"), Version::V1Beta1)
                .await?;
        }
        Ok(())
    }

    /// Creates a Machine with its OpenStackMachine.
    pub(crate) async fn machine(
        &self,
        name: &str,
        control_plane: bool,
        version: Version,
    ) -> Result<(), String> {
        let (cluster, namespace) = (&self.name, &self.name);
        let mut labels = json!({NAME: cluster});
        if control_plane {
            labels[CONTROL_PLANE] = json!("");
        }
        let api_version = match version {
            Version::V1Beta1 => "v1beta1",
            Version::V1Beta2 => "v1beta2",
        };
        let spec = self.kind.machine_specification(version);
        let documents = [
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                "metadata": {"name": format!("{name}-bootstrap"), "namespace": namespace, "labels": {NAME: cluster}},
                "stringData": {"value": "#cloud-config\n"},
            }),
            json!({
                "apiVersion": format!("infrastructure.cluster.x-k8s.io/{api_version}"), "kind": "OpenStackMachine",
                "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec,
            }),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": {
                    "clusterName": cluster, "version": "v1.34.4",
                    "bootstrap": {"dataSecretName": format!("{name}-bootstrap")},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name},
                },
            }),
        ];
        self.apply(&documents).await
    }

    pub(crate) async fn apply(&self, documents: &[Value]) -> Result<(), String> {
        apply::apply(&self.client, documents)
            .await
            .map_err(|error| error.to_string())
    }

    fn api(&self, kind: &str, version: Version) -> Api<DynamicObject> {
        let (group, version) = match (kind, version) {
            ("Cluster" | "Machine" | "MachineDeployment", _) => ("cluster.x-k8s.io", "v1beta2"),
            ("KubeadmControlPlane", _) => ("controlplane.cluster.x-k8s.io", "v1beta2"),
            ("IPAddressClaim" | "IPAddress", _) => ("ipam.cluster.x-k8s.io", "v1beta2"),
            ("OpenStackServer" | "OpenStackFloatingIPPool", _) => {
                ("infrastructure.cluster.x-k8s.io", "v1alpha1")
            }
            (_, Version::V1Beta1) => ("infrastructure.cluster.x-k8s.io", "v1beta1"),
            (_, Version::V1Beta2) => ("infrastructure.cluster.x-k8s.io", "v1beta2"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.name, &resource)
    }

    /// The object as it is now, or `Null` if it does not exist.
    pub(crate) async fn get(&self, kind: &str, name: &str, version: Version) -> Value {
        match self.api(kind, version).get_opt(name).await {
            Ok(Some(object)) => {
                let mut object = serde_json::to_value(object).unwrap_or_default();
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
                object
            }
            _ => Value::Null,
        }
    }

    /// The name of the object that a field of its Cluster refers to, once it is set.
    pub(crate) async fn referred(&self, field: &str) -> Result<String, String> {
        let v = Version::V1Beta2;
        let set = |cluster: &Value| cluster["spec"][field]["name"].is_string();
        self.until_object("Cluster", &self.name, v, set).await?;
        let cluster = self.get("Cluster", &self.name, v).await;
        let name = cluster["spec"][field]["name"].as_str();
        Ok(name.unwrap_or_default().to_owned())
    }

    /// All its objects of a kind.
    pub(crate) async fn list(&self, kind: &str, version: Version) -> Vec<DynamicObject> {
        let list = self.api(kind, version).list(&ListParams::default()).await;
        list.map(|list| list.items).unwrap_or_default()
    }

    /// The names of its OpenStackServers.
    pub(crate) async fn servers(&self) -> Vec<String> {
        let servers = self.list("OpenStackServer", Version::V1Beta1).await;
        let names = servers.into_iter();
        names.filter_map(|server| server.metadata.name).collect()
    }

    /// Every object of CAPO's kinds, by kind and name.
    pub(crate) async fn objects(&self, version: Version) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        for kind in ["OpenStackCluster", "OpenStackMachine", "OpenStackServer"] {
            for object in self.list(kind, version).await {
                all.push((kind, object.metadata.name.unwrap_or_default()));
            }
        }
        all
    }

    /// The resource version of every object of CAPO's kinds.
    pub(crate) async fn resource_versions(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for kind in ["OpenStackCluster", "OpenStackMachine", "OpenStackServer"] {
            let api = self.api(kind, Version::V1Beta1);
            let list = api.list(&ListParams::default()).await.unwrap();
            for object in list.items {
                let name = object.metadata.name.unwrap_or_default();
                all.push((name, object.metadata.resource_version.unwrap_or_default()));
            }
        }
        all
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, version: Version, change: Value) {
        let _ = self
            .api(kind, version)
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await;
    }

    pub(crate) async fn patch_status(&self, kind: &str, name: &str, change: Value) {
        let _ = self
            .api(kind, Version::V1Beta2)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(change))
            .await;
    }

    /// Pauses its Cluster, or resumes it.
    pub(crate) async fn pause(&self, paused: bool) {
        let change = json!({"spec": {"paused": paused}});
        self.patch("Cluster", &self.name, Version::V1Beta2, change)
            .await;
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let _ = self
            .api(kind, Version::V1Beta2)
            .delete(name, &DeleteParams::default())
            .await;
    }

    /// Changes an annotation of every object, so that the provider makes a pass over it.
    pub(crate) async fn touch(&self, version: Version, mark: &str) {
        let change = json!({"metadata": {"annotations": {"takeover.test/pass": mark}}});
        for (kind, name) in self.objects(version).await {
            self.patch(kind, &name, version, change.clone()).await;
        }
    }

    /// Waits until `wanted` holds for an object. The error shows the last state of the object.
    pub(crate) async fn until_object(
        &self,
        kind: &str,
        name: &str,
        version: Version,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), String> {
        let at_most = match kind {
            // It replaces all of its machines one after the other.
            "KubeadmControlPlane" => 3 * PATIENCE,
            _ => PATIENCE,
        };
        let wait = CHECK.at_most(at_most);
        let seen = wait.ok(async || {
            let object = self.get(kind, name, version).await;
            if wanted(&object) { Ok(()) } else { Err(object) }
        });
        seen.await.map_err(|object| {
            let shown = json!({"spec": object["spec"], "status": object["status"], "metadata": object["metadata"]});
            format!("{kind} {name} is not as wanted after {at_most:?}: {shown:#}")
        })
    }

    /// Its control-plane Machines.
    pub(crate) async fn control_plane_machines(&self) -> Vec<String> {
        let only = ListParams::default().labels(CONTROL_PLANE);
        let listed = self.api("Machine", Version::V1Beta2).list(&only).await;
        let names = listed.unwrap().items.into_iter();
        names.filter_map(|machine| machine.metadata.name).collect()
    }

    /// Waits until one of its control-plane Machines is as wanted.
    pub(crate) async fn some_machine(
        &self,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), String> {
        let seen = CHECK.some(async || {
            for name in self.control_plane_machines().await {
                if wanted(&self.get("Machine", &name, Version::V1Beta2).await) {
                    return Some(());
                }
            }
            None
        });
        seen.await
            .ok_or_else(|| format!("no control-plane Machine {what} after {PATIENCE:?}"))
    }
}

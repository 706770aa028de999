//! One cluster with its namespace and its cloud.

use std::{collections::BTreeSet, net::TcpListener, sync::Arc, time::Duration};

use fake_cloud::{Durations, Event, FakeCloud, Options};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use test_support::{env::apply, rollout::subnet};
use tokio::sync::Mutex;

use crate::kinds::Kind;

/// How long any one thing may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
const NAME: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// The two versions of CAPO's kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Version {
    V1Beta1,
    V1Beta2,
}

pub(crate) struct Site {
    pub kind: Kind,
    pub cloud: FakeCloud,
    pub client: Client,
    /// Name of the namespace; the cluster's too.
    pub name: String,
    subnet: String,
    /// Held so that no other process derives the same addresses.
    _claim: TcpListener,
    /// Addresses on which something listens in place of an API server.
    listening: Arc<Mutex<BTreeSet<String>>>,
}

impl Site {
    pub(crate) async fn start(kind: Kind, client: Client) -> Self {
        let claim = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let options = Options {
            durations: Durations {
                load_balancer_create: 1.0,
                operation: 0.2,
                ..Durations::instant()
            },
            ..Options::default()
        };
        let site = Self {
            kind,
            cloud: FakeCloud::start(options).await.unwrap(),
            client,
            name: kind.name().replace('_', "-"),
            subnet: subnet(claim.local_addr().unwrap().port()),
            _claim: claim,
            listening: Arc::default(),
        };
        site.listen();
        site
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
                            tokio::spawn(async move { while listener.accept().await.is_ok() {} });
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
        let documents = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-config", "namespace": name},
                "stringData": {"clouds.yaml": self.cloud.clouds_yaml()},
            }),
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackCluster",
                "metadata": {"name": name, "namespace": name}, "spec": spec,
            }),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": name, "namespace": name},
                "spec": {"infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name}},
            }),
        ];
        self.apply(&documents).await?;
        self.machine("cp-0", true, Version::V1Beta1).await?;
        self.machine("w-0", false, Version::V1Beta1).await
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
        let (api_version, flavor) = match version {
            Version::V1Beta1 => ("v1beta1", json!("m1.small")),
            Version::V1Beta2 => ("v1beta2", json!({"filter": {"name": "m1.small"}})),
        };
        let mut spec = json!({"flavor": flavor, "image": {"filter": {"name": "cirros"}}});
        if matches!(version, Version::V1Beta1) {
            spec["sshKeyName"] = json!("");
        }
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

    async fn apply(&self, documents: &[Value]) -> Result<(), String> {
        apply::apply(&self.client, documents)
            .await
            .map_err(|error| error.to_string())
    }

    fn api(&self, kind: &str, version: Version) -> Api<DynamicObject> {
        let (group, version) = match (kind, version) {
            ("Cluster" | "Machine", _) => ("cluster.x-k8s.io", "v1beta2"),
            ("OpenStackServer", _) => ("infrastructure.cluster.x-k8s.io", "v1alpha1"),
            (_, Version::V1Beta1) => ("infrastructure.cluster.x-k8s.io", "v1beta1"),
            (_, Version::V1Beta2) => ("infrastructure.cluster.x-k8s.io", "v1beta2"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.name, &resource)
    }

    /// An object, `Null` when there is none.
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

    /// Every object of CAPO's kinds, by kind and name.
    pub(crate) async fn objects(&self, version: Version) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        for kind in ["OpenStackCluster", "OpenStackMachine", "OpenStackServer"] {
            let list = self.api(kind, version).list(&ListParams::default()).await;
            for object in list.map(|list| list.items).unwrap_or_default() {
                all.push((kind, object.metadata.name.unwrap_or_default()));
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

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let _ = self
            .api(kind, Version::V1Beta2)
            .delete(name, &DeleteParams::default())
            .await;
    }

    /// Makes the provider look at every object once more.
    pub(crate) async fn touch(&self, version: Version, mark: &str) {
        let change = json!({"metadata": {"annotations": {"takeover.test/pass": mark}}});
        for (kind, name) in self.objects(version).await {
            self.patch(kind, &name, version, change.clone()).await;
        }
    }

    /// Waits until `wanted` holds for an object; the error shows the object as it was last.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        version: Version,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), String> {
        let begun = tokio::time::Instant::now();
        loop {
            let object = self.get(kind, name, version).await;
            if wanted(&object) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let shown = json!({"spec": object["spec"], "status": object["status"], "metadata": object["metadata"]});
                return Err(format!(
                    "{kind} {name} is not as wanted after {PATIENCE:?}: {shown:#}"
                ));
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// The writing calls to the cloud after a call, sign-ins left out.
    pub(crate) fn writes_since(&self, mark: u64) -> Vec<String> {
        let calls = self.cloud.control().calls_since(mark);
        calls
            .into_iter()
            .filter(|call| !["GET", "HEAD"].contains(&call.method.as_str()))
            .filter(|call| call.label != "token_create")
            .map(|call| {
                let status = call
                    .status
                    .map_or("no answer".to_owned(), |status| status.to_string());
                let body = call.body.map(|body| body.to_string()).unwrap_or_default();
                format!("{} {} {body} -> {status}", call.method, call.path)
            })
            .collect()
    }

    /// Waits until nobody has changed anything in the cloud for so long.
    pub(crate) async fn until_quiet(&self, quiet: Duration) {
        let begun = tokio::time::Instant::now();
        loop {
            let mark = self.cloud.control().last_call();
            tokio::time::sleep(quiet).await;
            if self.writes_since(mark).is_empty() || begun.elapsed() > PATIENCE {
                return;
            }
        }
    }

    /// Checks that the load balancer has a member of the machine in ACTIVE on every port.
    pub(crate) async fn members_of(&self, machine: &str) -> Result<(), String> {
        let balancer = format!("k8s-clusterapi-cluster-{0}-{0}-kubeapi", self.name);
        let begun = tokio::time::Instant::now();
        loop {
            let (_, found) = self.cloud.control().load_balancers(&balancer);
            let missing: Vec<u16> = self
                .kind
                .ports()
                .iter()
                .copied()
                .filter(|port| {
                    let wanted = format!("{balancer}-{port}-{machine}");
                    !found
                        .iter()
                        .flat_map(|(balancer, _)| &balancer.pools)
                        .any(|pool| {
                            pool.members.iter().any(|member| {
                                member.head.name == wanted
                                    && member.head.provisioning == fake_cloud::Provisioning::Active
                            })
                        })
                })
                .collect();
            if missing.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!(
                    "{machine} is no ACTIVE member of ports {missing:?}"
                ));
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

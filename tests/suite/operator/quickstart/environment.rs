//! A management cluster on which the commands of a page are run.

use std::{path::Path, sync::Arc};

use fake_cloud::FakeCloud;
use kube::{
    Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_support::{
    rollout::{certificates, workload_cluster::WorkloadCluster},
    waiting::until,
};

use crate::env::{
    Clusterctl, Deployments, Kubernetes, apply,
    cluster_api::{api, condition},
};

/// The entry of `clouds.yaml` that the pages name.
const CLOUD: &str = "demo";
/// The cluster of the pages, and its namespace.
pub(super) const NAME: &str = "demo";

/// The commands of a page below ```` ```bash NAME ````.
pub(super) fn block(page: &'static str, name: &str) -> &'static str {
    let (_, rest) = page
        .split_once(&format!("```bash {name}\n"))
        .unwrap_or_else(|| panic!("the page has no block {name}"));
    rest.split("```").next().unwrap_or_default()
}

/// A management cluster whose providers clusterctl installs.
pub(super) struct QuickstartEnvironment {
    pub(super) kubernetes: Arc<Kubernetes>,
    pub(super) client: Client,
    _deployments: Deployments,
}

impl QuickstartEnvironment {
    pub(super) async fn start() -> Self {
        let kubernetes = Arc::new(Kubernetes::start().await.unwrap());
        Self {
            client: kubernetes.admin().await.unwrap(),
            _deployments: Deployments::start(&kubernetes).await.unwrap(),
            kubernetes,
        }
    }

    /// What the commands print, once they end well.
    pub(super) async fn run(&self, clusterctl: &Arc<Clusterctl>, lines: &str) -> String {
        let (succeeded, printed) = self.attempt(clusterctl, lines).await;
        assert!(succeeded, "{lines}\n{printed}");
        printed
    }

    /// Whether the commands end well, and what they print.
    pub(super) async fn attempt(
        &self,
        clusterctl: &Arc<Clusterctl>,
        lines: &str,
    ) -> (bool, String) {
        let (clusterctl, kubeconfig) = (clusterctl.clone(), self.kubernetes.admin_kubeconfig());
        let text = lines.to_owned();
        let run = tokio::task::spawn_blocking(move || clusterctl.bash(&kubeconfig, &text).unwrap());
        let output = run.await.unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        (output.status.success(), printed)
    }

    pub(super) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let object = api(&self.client, NAME, kind).get_opt(name).await.ok()??;
        serde_json::to_value(object).ok()
    }

    pub(super) async fn all(&self, kind: &str) -> Vec<DynamicObject> {
        let list = api(&self.client, NAME, kind)
            .list(&ListParams::default())
            .await;
        list.map(|list| list.items).unwrap_or_default()
    }

    pub(super) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        api(&self.client, NAME, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(super) async fn until_available(&self) {
        until("the Cluster is Available", async || {
            let cluster = self.get("Cluster", NAME).await?;
            (condition(&cluster, "Available")?.0 == "True").then_some(())
        })
        .await;
    }
}

/// The generated objects with what no server of the fake cloud has: kubeadm, and etcd on the machine.
pub(super) fn with_external_etcd(manifest: &str, workload: &WorkloadCluster) -> String {
    let mut documents = apply::documents(manifest).unwrap();
    documents.extend(certificates(NAME, workload).unwrap());
    for document in &mut documents {
        if document["kind"] == "KubeadmControlPlane" {
            let spec = &mut document["spec"];
            spec["machineTemplate"]["metadata"]["annotations"]["machine.cluster.x-k8s.io/certificates-expiry"] =
                json!("2099-01-01T00:00:00Z");
            spec["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"] = json!({"external": {
                "endpoints": ["https://127.0.0.1:2379"],
                "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
                "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
                "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
            }});
        }
    }
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

/// A `clouds.yaml` and an `openstack` command that prints the id of the external network of the pages' cloud, the only
/// use that the pages make of it.
pub(super) fn install_openstack(home: &Path, cloud: &FakeCloud) {
    use std::os::unix::fs::PermissionsExt as _;
    let id = external_network(&cloud.control().dump());
    let program = home.join("bin/openstack");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n\"--os-cloud {CLOUD} network list --external \"*) echo {id} ;;\n\
         *) echo \"openstack: unexpected arguments $*\" >&2; exit 1 ;;\nesac\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(home.join("clouds.yaml"), cloud.clouds_yaml()).unwrap();
}

/// The id of the network `public`, wherever the dump has it.
fn external_network(dump: &Value) -> String {
    fn search(value: &Value) -> Option<&str> {
        match value {
            Value::Object(map) => {
                let is_it = map.get("name").is_some_and(|name| name == "public")
                    && map.get("router:external").is_some_and(|is| is == true);
                if is_it {
                    return map.get("id")?.as_str();
                }
                map.values().find_map(search)
            }
            Value::Array(list) => list.iter().find_map(search),
            _ => None,
        }
    }
    search(dump).expect("a network public").to_owned()
}

//! The real Cluster API: its definitions, its webhooks and its three managers, as processes.
//!
//! What kustomize and cert-manager do for an operator is done here: contract labels on the definitions, conversion and
//! admission by URL on the loopback address, one certificate for all three.

use std::{fs, path::Path, time::Duration};

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    discovery::pinned_kind,
};
use serde_json::{Value, json};

use super::{
    Error, Guarded, Kubernetes, apply, guarded::Program, installation, kubernetes::free_port,
    programs,
};
use crate::waiting::PATIENCE;

/// The managers, and whether their kinds are found by contract labels.
const PARTS: [(&str, bool); 3] = [
    ("core", false),
    ("bootstrap", true),
    ("control-plane", true),
];

/// The running managers. They are ended when this is dropped.
pub struct ClusterApiManagers {
    parts: Vec<(&'static str, Guarded)>,
}

impl ClusterApiManagers {
    /// Installs Cluster API in `kubernetes`, which must not have the stand-ins of its definitions, starts its managers
    /// and returns when all of their admission works. Logs are written to `logs`.
    pub async fn start(kubernetes: &Kubernetes, logs: &Path) -> Result<Self, Error> {
        Self::start_with(kubernetes, logs, &[]).await
    }

    /// The same, with these feature gates, each as `Name=true`.
    pub async fn start_with(
        kubernetes: &Kubernetes,
        logs: &Path,
        features: &[&str],
    ) -> Result<Self, Error> {
        let manifests = programs::cluster_api_manifests()?;
        let serving = kubernetes.authority().server(&["127.0.0.1"])?;
        let certificates = kubernetes.folder().join("cluster-api-webhooks");
        installation::write_pair(&certificates, &serving.certificate, &serving.key)?;
        let bundle = kubernetes.authority().certificate();
        let client = kubernetes.admin().await?;
        let mut webhooks = Vec::new();
        for (part, labelled) in PARTS {
            let port = free_port()?;
            webhooks.push(port);
            let folder = manifests.join(part);
            let documents = documents(part, &folder, labelled, &|path| {
                installation::local(port, path, &bundle)
            })?;
            apply::apply(&client, &documents).await?;
        }
        let mut parts = Vec::new();
        for ((part, _), port) in PARTS.into_iter().zip(webhooks) {
            let mut all = vec![
                format!("--kubeconfig={}", kubernetes.admin_kubeconfig().display()),
                format!("--webhook-port={port}"),
                format!("--webhook-cert-dir={}", certificates.display()),
                format!("--health-addr=127.0.0.1:{}", free_port()?),
                format!("--diagnostics-address=127.0.0.1:{}", free_port()?),
                "--insecure-diagnostics=true".to_owned(),
                // They rewrite all objects of definitions that were just made.
                "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields"
                    .to_owned(),
                "--v=2".to_owned(),
            ];
            if !features.is_empty() {
                all.push(format!("--feature-gates={}", features.join(",")));
            }
            if part != "bootstrap" {
                // Conditions that no manager could refresh for this time turn Unknown. It is the shortest time that is
                // allowed.
                all.push("--remote-conditions-grace-period=2m".to_owned());
            }
            let process = Guarded::start(&Program {
                path: &programs::cluster_api_manager(part)?,
                arguments: all,
                variables: Vec::new(),
                log: logs.join(format!("cluster-api-{part}.log")),
                remove_after: None,
            })?;
            parts.push((part, process));
        }
        let mut started = Self { parts };
        // A manager reports that it is ready before the webhooks of all kinds work.
        for sample in samples() {
            started.until_admitted(&client, &sample).await?;
        }
        Ok(started)
    }

    async fn until_admitted(&mut self, client: &Client, sample: &Value) -> Result<(), Error> {
        let object: DynamicObject = serde_json::from_value(sample.clone())?;
        let types = object.types.clone().ok_or("a sample without a kind")?;
        let (resource, _) = pinned_kind(client, &(&types).try_into()?).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let mut last = String::new();
        let admitted = tokio::time::timeout(PATIENCE, async {
            loop {
                match api.create(&dry_run, &object).await {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error.to_string(),
                }
                for (part, process) in &mut self.parts {
                    if let Some(status) = process.ended()? {
                        let lines = process.last_lines(5);
                        return Err(Error::from(format!(
                            "Cluster API's {part} manager ended ({status}):\n{lines}"
                        )));
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        admitted.map_err(|_| {
            format!(
                "a {} is still refused after {PATIENCE:?}: {last}",
                types.kind
            )
        })?
    }
}

/// The definitions and webhook configurations of one manager.
fn documents(
    part: &str,
    folder: &Path,
    labelled: bool,
    local: &impl Fn(&str) -> Value,
) -> Result<Vec<Value>, Error> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder.join("crds"))? {
        let text = fs::read_to_string(entry?.path())?;
        for mut definition in apply::documents(&text)? {
            if labelled {
                let labels = &mut definition["metadata"]["labels"];
                labels["cluster.x-k8s.io/v1beta1"] = json!("v1beta1");
                labels["cluster.x-k8s.io/v1beta2"] = json!("v1beta2");
            }
            let versions = definition["spec"]["versions"].as_array();
            if versions.is_some_and(|versions| versions.len() > 1) {
                definition["spec"]["conversion"] = json!({
                    "strategy": "Webhook",
                    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": local("/convert")},
                });
            }
            documents.push(definition);
        }
    }
    for configuration in apply::documents(&fs::read_to_string(folder.join("webhooks.yaml"))?)? {
        let mut configuration = installation::localised(configuration, local);
        // All three use the same names.
        let name = configuration["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        configuration["metadata"]["name"] = json!(format!("{part}-{name}"));
        documents.push(configuration);
    }
    Ok(documents)
}

/// One object of each manager that its admission accepts once it works.
fn samples() -> [Value; 3] {
    let name = "admission-sample";
    [
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name},
            },
        }),
        json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"format": "cloud-config"},
        }),
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "version": "v1.34.4", "replicas": 1,
                "machineTemplate": {"spec": {"infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": name,
                }}},
                "kubeadmConfigSpec": {"format": "cloud-config"},
            },
        }),
    ]
}

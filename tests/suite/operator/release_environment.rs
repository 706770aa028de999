//! A management cluster without nodes, and a home from which an operator runs the commands of
//! docs/migrate-from-capo.md.

use std::{
    path::PathBuf,
    process::{Command, Output},
    time::Duration,
};

use capo_rs::webhooks::validation::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::migration_page::{self, RUN_ON_THE_RELEASE};
use tokio_util::task::AbortOnDropHandle;

use crate::env::{Kubernetes, programs};

/// The kinds of cert-manager that both releases have objects of. No cert-manager issues certificates here.
const CERT_MANAGER: [(&str, &str); 2] = [("Certificate", "certificates"), ("Issuer", "issuers")];

/// The commands of a block of docs/migrate-from-capo.md.
pub(super) fn block(name: &str) -> String {
    assert!(RUN_ON_THE_RELEASE.contains(&name), "{name}");
    migration_page::block(name).replace("REGISTRY/capo-rs:TAG", "ghcr.io/capo-rs/capo-rs:v1.0.0")
}

/// An API server, a home with the programs and a local repository of releases.
pub(super) struct ReleaseEnvironment {
    pub(super) kubernetes: Kubernetes,
    home: TempDir,
}

impl ReleaseEnvironment {
    pub(super) async fn start() -> Self {
        let kubernetes = Kubernetes::start().await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let environment = Self { kubernetes, home };
        std::fs::create_dir_all(environment.path("bin")).unwrap();
        for (name, program) in [
            ("capo-rs", PathBuf::from(env!("CARGO_BIN_EXE_capo-rs"))),
            ("kubectl", programs::kubectl().unwrap()),
            ("clusterctl", programs::clusterctl().unwrap()),
        ] {
            std::os::unix::fs::symlink(program, environment.path("bin").join(name)).unwrap();
        }
        let definitions = CERT_MANAGER.map(|(kind, plural)| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.cert-manager.io")},
                "spec": {
                    "group": "cert-manager.io", "scope": "Namespaced",
                    "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                        "singular": kind.to_lowercase()},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                        {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
                },
            })
        });
        let admin = environment.kubernetes.admin().await.unwrap();
        crate::env::apply::apply(&admin, &definitions)
            .await
            .unwrap();
        std::fs::create_dir_all(environment.path(".kube")).unwrap();
        let kubeconfig = environment.kubernetes.admin_kubeconfig();
        std::os::unix::fs::symlink(kubeconfig, environment.path(".kube/config")).unwrap();
        environment
    }

    /// Reports the Deployment as rolled out all the time, as its controller would, because there are no nodes here.
    pub(super) async fn roll_out(&self) -> AbortOnDropHandle<()> {
        let deployments: Api<Deployment> =
            Api::namespaced(self.kubernetes.admin().await.unwrap(), "capo-system");
        let rolling = async move {
            loop {
                for deployment in deployments
                    .list(&ListParams::default())
                    .await
                    .into_iter()
                    .flatten()
                {
                    let replicas = deployment.spec.replicas;
                    let status = json!({"status": {
                        "observedGeneration": deployment.metadata.generation,
                        "replicas": replicas, "updatedReplicas": replicas,
                        "readyReplicas": replicas, "availableReplicas": replicas,
                    }});
                    let name = deployment.metadata.name.unwrap_or_default();
                    let (with, change) = (PatchParams::default(), Patch::Merge(status));
                    // The Deployment may not exist any more.
                    let _ = deployments.patch_status(&name, &with, &change).await;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        AbortOnDropHandle::new(tokio::spawn(rolling))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(super) async fn bash(&self, commands: &str) -> Output {
        let mut bash = Command::new("bash");
        let path = std::env::var("PATH").unwrap_or_default();
        bash.args(["-euo", "pipefail", "-c", commands])
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env_remove("XDG_CONFIG_HOME")
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("KUBECONFIG", self.kubernetes.admin_kubeconfig())
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        tokio::task::spawn_blocking(move || bash.output().unwrap())
            .await
            .unwrap()
    }

    /// What the commands print, once they end well.
    pub(super) async fn run(&self, commands: &str) -> String {
        let output = self.bash(commands).await;
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        assert!(output.status.success(), "{commands}\n{printed}");
        printed
    }

    /// Creates these definitions of Cluster API.
    pub(super) async fn create_cluster_api(&self, files: &[&str]) {
        let folder = programs::cluster_api_manifests().unwrap();
        for file in files {
            let file = folder.join(file);
            self.run(&format!("kubectl create -f {}", file.display()))
                .await;
        }
    }

    pub(super) async fn get(&self, what: &str) -> Value {
        let output = self.bash(&format!("kubectl get {what} -o json")).await;
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// What the manager is, and that every entry of the webhook configuration is answered.
    pub(super) async fn is_ours(&self) -> usize {
        let deployment = self
            .get("-n capo-system deployment capo-controller-manager")
            .await;
        let containers = deployment["spec"]["template"]["spec"]["containers"].clone();
        assert_eq!(containers.as_array().unwrap().len(), 1, "{containers:#}");
        let manager = &containers[0];
        assert_eq!(manager["command"], json!(["/capo-rs"]));
        assert_eq!(manager["image"], "ghcr.io/capo-rs/capo-rs:v1.0.0");
        let kinds = [
            "openstackclusters",
            "openstackclustertemplates",
            "openstackmachines",
            "openstackmachinetemplates",
        ];
        for plural in kinds {
            let crd = self
                .get(&format!("crd {plural}.infrastructure.cluster.x-k8s.io"))
                .await;
            let versions = crd["spec"]["versions"].as_array().unwrap();
            let versions: Vec<_> = versions
                .iter()
                .map(|one| (&one["name"], &one["storage"]))
                .collect();
            assert_eq!(
                versions,
                [
                    (&json!("v1beta1"), &json!(false)),
                    (&json!("v1beta2"), &json!(true))
                ]
            );
            let service = &crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
            assert_eq!(
                *service,
                json!({"name": "capo-webhook-service", "namespace": "capo-system", "path": "/convert", "port": 443})
            );
        }
        let served: Vec<&str> = Kind::ALL
            .into_iter()
            .flat_map(Kind::paths)
            .copied()
            .collect();
        let webhooks = self
            .get("validatingwebhookconfiguration capo-validating-webhook-configuration")
            .await;
        let entries = webhooks["webhooks"].as_array().unwrap();
        for entry in entries {
            let path = entry["clientConfig"]["service"]["path"].as_str().unwrap();
            assert!(served.contains(&path), "{path} is not served");
        }
        // The swap gives no user a right that the user did not have.
        for role in ["capo-editor-role", "capo-viewer-role"] {
            let role = self.get(&format!("clusterrole {role}")).await;
            let labels = role["metadata"]["labels"].to_string();
            assert!(!labels.contains("aggregate-to"), "{labels}");
        }
        entries.len()
    }
}

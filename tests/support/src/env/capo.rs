//! The real CAPO (cluster-api-provider-openstack, in Go), whose installations capo-rs takes over: its definitions, its
//! webhooks and its manager, as a process.
//!
//! The tests do the work of kustomize and cert-manager: labels, and conversion and admission by URL on the loopback
//! address.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    discovery::pinned_kind,
};
use serde_json::{Value, json};

use super::{
    Error, Guarded, Kubernetes, guarded::Program, installation, kubernetes::free_port, manager,
    programs,
};

/// The name that CAPO's release gives its webhook configuration. That of capo-rs has the same name.
pub const WEBHOOKS: &str = "capo-validating-webhook-configuration";

/// Kinds that are served in more than one version by some release.
const CONVERTED: [&str; 4] = [
    "OpenStackCluster",
    "OpenStackClusterTemplate",
    "OpenStackMachine",
    "OpenStackMachineTemplate",
];

/// An installation of CAPO, whose manager can be started and stopped.
#[derive(Debug)]
pub struct Capo {
    kubeconfig: PathBuf,
    webhook_port: u16,
    certificates: PathBuf,
    bundle: String,
}

impl Capo {
    /// Prepares the files that its manager needs. Nothing is installed yet.
    pub fn new(kubernetes: &Kubernetes) -> Result<Self, Error> {
        let webhook_port = free_port()?;
        let serving = kubernetes.authority().server(&["127.0.0.1"])?;
        let certificates = kubernetes.folder().join(format!("capo-{webhook_port}"));
        installation::write_pair(&certificates, &serving.certificate, &serving.key)?;
        Ok(Self {
            kubeconfig: kubernetes.admin_kubeconfig(),
            webhook_port,
            certificates,
            bundle: kubernetes.authority().certificate(),
        })
    }

    /// Its definitions, as its release has them.
    pub fn definitions(&self) -> Result<Vec<Value>, Error> {
        let mut definitions = Vec::new();
        for entry in fs::read_dir(programs::capo_manifests()?.join("crds"))? {
            let text = fs::read_to_string(entry?.path())?;
            for mut definition in super::apply::documents(&text)? {
                let kind = definition["spec"]["names"]["kind"].as_str();
                if definition["spec"]["group"] == "infrastructure.cluster.x-k8s.io" {
                    if kind.is_some_and(|kind| CONVERTED.contains(&kind)) {
                        definition["spec"]["conversion"] = json!({
                            "strategy": "Webhook",
                            "webhook": {
                                "conversionReviewVersions": ["v1", "v1beta1"],
                                "clientConfig": self.local("/convert"),
                            },
                        });
                    }
                    definition["metadata"]["labels"] = json!({
                        "cluster.x-k8s.io/provider": "infrastructure-openstack",
                        "cluster.x-k8s.io/v1beta1": "v1beta1",
                    });
                }
                definitions.push(definition);
            }
        }
        Ok(definitions)
    }

    /// Its webhook configuration, as its release has it.
    pub fn webhooks(&self) -> Result<Value, Error> {
        let text = fs::read_to_string(programs::capo_manifests()?.join("webhooks.yaml"))?;
        let configuration = super::apply::documents(&text)?.into_iter().next();
        let configuration =
            configuration.ok_or("CAPO's manifests have no webhook configuration")?;
        let mut configuration = installation::localised(configuration, &|path| self.local(path));
        configuration["metadata"]["name"] = json!(WEBHOOKS);
        Ok(configuration)
    }

    fn local(&self, path: &str) -> Value {
        installation::local(self.webhook_port, path, &self.bundle)
    }

    /// Creates definitions and webhooks, with a field manager other than that of capo-rs.
    pub async fn install(&self, client: &Client) -> Result<(), Error> {
        for definition in self.definitions()? {
            create(client, definition).await?;
        }
        create(client, self.webhooks()?).await
    }

    /// Starts its manager and returns when it is ready. Its log is `capo.log` in `folder`.
    pub async fn start(&self, folder: &Path) -> Result<Guarded, Error> {
        let health = free_port()?;
        let mut process = Guarded::start(&Program {
            path: &programs::capo()?,
            arguments: vec![
                format!("--kubeconfig={}", self.kubeconfig.display()),
                format!("--webhook-port={}", self.webhook_port),
                format!("--webhook-cert-dir={}", self.certificates.display()),
                format!("--health-addr=127.0.0.1:{health}"),
                format!("--diagnostics-address=127.0.0.1:{}", free_port()?),
                "--insecure-diagnostics=true".to_owned(),
                "--v=2".to_owned(),
            ],
            variables: Vec::new(),
            log: folder.join("capo.log"),
            remove_after: None,
        })?;
        let begun = Instant::now();
        loop {
            if let Some(status) = process.ended()? {
                let lines = process.last_lines(10);
                return Err(format!("CAPO ended ({status}):\n{lines}").into());
            }
            let ready = manager::get(&format!("127.0.0.1:{health}/readyz")).await;
            if ready.is_ok_and(|(status, _)| status == 200) {
                return Ok(process);
            }
            if begun.elapsed() > Duration::from_mins(3) {
                let lines = process.last_lines(10);
                return Err(format!("CAPO is not ready after 3 minutes:\n{lines}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn create(client: &Client, document: Value) -> Result<(), Error> {
    let object: DynamicObject = serde_json::from_value(document)?;
    let types = object.types.clone().ok_or("a document without a kind")?;
    let name = object.metadata.name.clone().unwrap_or_default();
    let (resource, _) = pinned_kind(client, &(&types).try_into()?).await?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let parameters = PostParams {
        field_manager: Some("clusterctl".to_owned()),
        ..PostParams::default()
    };
    api.create(&parameters, &object)
        .await
        .map_err(|error| format!("creating {} {name}: {error}", types.kind))?;
    Ok(())
}

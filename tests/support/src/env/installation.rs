//! capo-rs as an operator installs it: its definitions, its ServiceAccount with exactly the shipped roles, its
//! webhooks. A URL and a certificate on the loopback address take the place of a Service and cert-manager. Nothing else
//! differs from the shipped manifests.

use std::path::{Path, PathBuf};

use capo_api::ConversionTarget;
use serde_json::{Value, json};

use super::{Error, Kubernetes, Manager, apply, kubernetes::free_port};

/// Namespace and name of the shipped ServiceAccount.
const ACCOUNT: (&str, &str) = ("capo-system", "capo-manager");

/// What the manager needs to start.
#[derive(Debug)]
pub struct Installation {
    /// A kubeconfig of the shipped ServiceAccount.
    pub kubeconfig: PathBuf,
    /// The port on which the manager must serve the webhooks.
    pub webhook_port: u16,
    certificates: PathBuf,
}

impl Installation {
    /// Starts a kube-apiserver of the caller's own, with Cluster API's definitions and everything of capo-rs but a
    /// manager.
    pub async fn in_new_cluster() -> Result<(Kubernetes, Self), Error> {
        Self::in_new_cluster_from(&shipped_manifests()?).await
    }

    /// The same with the output of `capo-rs manifests` with options.
    pub async fn in_new_cluster_from(manifests: &str) -> Result<(Kubernetes, Self), Error> {
        let kubernetes = Kubernetes::start().await?;
        kubernetes.install_cluster_api().await?;
        let installation = Self::install_from(&kubernetes, manifests).await?;
        Ok((kubernetes, installation))
    }

    /// Installs everything in `kubernetes`. Objects of our kinds can be created as soon as a manager is ready.
    pub async fn install(kubernetes: &Kubernetes) -> Result<Self, Error> {
        Self::install_from(kubernetes, &shipped_manifests()?).await
    }

    async fn install_from(kubernetes: &Kubernetes, manifests: &str) -> Result<Self, Error> {
        let client = kubernetes.admin().await?;
        let webhook_port = free_port()?;
        let serving = kubernetes.authority().server(&["127.0.0.1"])?;
        let certificates = kubernetes.folder().join(format!("webhook-{webhook_port}"));
        write_pair(&certificates, &serving.certificate, &serving.key)?;
        let bundle = kubernetes.authority().certificate();
        let local = |path: &str| local(webhook_port, path, &bundle);
        let mut documents = Vec::new();
        for manifest in apply::documents(manifests)? {
            match manifest["kind"].as_str().unwrap_or_default() {
                // These need a node or cert-manager, neither of which runs here.
                "Deployment" | "Service" | "Certificate" | "Issuer" => {}
                "ValidatingWebhookConfiguration" => documents.push(localised(manifest, &local)),
                _ => documents.push(manifest),
            }
        }
        let conversion = ConversionTarget::Url {
            url: format!("https://127.0.0.1:{webhook_port}/convert"),
            certificate_authority: bundle.clone(),
        };
        for definition in capo_api::crds(&conversion)? {
            documents.push(serde_json::to_value(definition)?);
        }
        apply::apply(&client, &documents).await?;
        Ok(Self {
            kubeconfig: kubernetes
                .kubeconfig_of_service_account(ACCOUNT.0, ACCOUNT.1)
                .await?,
            webhook_port,
            certificates,
        })
    }

    /// Starts a manager that serves the webhooks installed here, and returns it when it is ready. Its log is in `logs`.
    pub async fn ready_manager(&self, logs: &Path, flags: &[&str]) -> Result<Manager, Error> {
        let mut manager = self.start_manager(logs, flags, Vec::new())?;
        manager.until_ready().await?;
        Ok(manager)
    }

    /// The same with these variables in its environment, but returns at once.
    pub fn start_manager(
        &self,
        logs: &Path,
        flags: &[&str],
        variables: Vec<(String, String)>,
    ) -> Result<Manager, Error> {
        let port = format!("--webhook-port={}", self.webhook_port);
        let certificates = format!("--webhook-cert-dir={}", self.certificates.display());
        let arguments = [&[port.as_str(), &certificates], flags].concat();
        Manager::start_with(logs, &self.kubeconfig, &arguments, variables)
    }
}

fn shipped_manifests() -> Result<String, Error> {
    use capo_rs::cli::manifests::{Choices, yaml};
    Ok(yaml(&Choices::default())?)
}

/// The `clientConfig` of a webhook on the loopback address.
pub fn local(port: u16, path: &str, bundle: &str) -> Value {
    use base64::Engine as _;
    json!({
        "url": format!("https://127.0.0.1:{port}{path}"),
        "caBundle": base64::engine::general_purpose::STANDARD.encode(bundle),
    })
}

/// Writes `tls.crt` and `tls.key` into `folder`.
pub fn write_pair(folder: &Path, certificate: &str, key: &str) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("tls.crt"), certificate)?;
    std::fs::write(folder.join("tls.key"), key)?;
    Ok(())
}

/// A webhook configuration whose Services are replaced by what `local` makes of their paths.
pub fn localised(mut configuration: Value, local: &impl Fn(&str) -> Value) -> Value {
    for webhook in configuration["webhooks"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let path = webhook["clientConfig"]["service"]["path"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        webhook["clientConfig"] = local(&path);
    }
    configuration
}

//! capo-rs as an operator installs it: its definitions, its ServiceAccount with exactly the shipped roles, its webhooks. A URL
//! and a certificate on the loopback address take the place of a Service and cert-manager. Nothing else differs from the shipped
//! manifests.

use std::path::{Path, PathBuf};

use capo_api::ConversionTarget;
use serde_json::{Value, json};

use super::{Error, Kubernetes, apply, kubernetes::free_port};

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
    /// Installs everything in `kubernetes`. Objects of our kinds can be created as soon as a manager is ready.
    pub async fn install(kubernetes: &Kubernetes) -> Result<Self, Error> {
        let manifests =
            capo_rs::cli::manifests::yaml(&capo_rs::cli::manifests::Choices::default())?;
        Self::install_from(kubernetes, &manifests).await
    }

    /// The same with the output of `capo-rs manifests` with options.
    pub async fn install_from(kubernetes: &Kubernetes, manifests: &str) -> Result<Self, Error> {
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

    /// The arguments that make the manager serve the webhooks installed here.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            format!("--webhook-port={}", self.webhook_port),
            format!("--webhook-cert-dir={}", self.certificates.display()),
        ]
    }
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

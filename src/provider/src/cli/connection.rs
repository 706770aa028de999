//! The connection to the Kubernetes API with the kubeconfig and the rights of the user.

use std::path::PathBuf;

use clap::Args;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// The Kubernetes API to connect to, and the user's credentials.
#[derive(Debug, Clone, Args)]
pub(super) struct Connection {
    /// Namespace of the Cluster; the context's own if not given
    #[arg(short, long)]
    namespace: Option<String>,
    /// Kubeconfig file; else KUBECONFIG, ~/.kube/config, or the Pod's own account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; its current one if not given
    #[arg(long)]
    context: Option<String>,
}

impl Connection {
    /// A client, and the namespace that the flags or the kubeconfig select.
    ///
    /// # Errors
    /// What is missing, and the flag that would set it.
    pub(super) async fn open(&self) -> Result<(Client, String), String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = self.config().await?;
        config.connect_timeout = Some(std::time::Duration::from_secs(5));
        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        Ok((client, namespace))
    }

    async fn config(&self) -> Result<Config, String> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let file = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .map_err(|error| format!("--kubeconfig {}: {error}", path.display()))?,
            None => match Kubeconfig::read() {
                Ok(file) => file,
                Err(error) if self.context.is_none() => {
                    return Config::incluster().map_err(|_| {
                        format!("no kubeconfig, see --kubeconfig and KUBECONFIG: {error}")
                    });
                }
                Err(error) => return Err(format!("no kubeconfig, see --kubeconfig: {error}")),
            },
        };
        Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(|error| format!("the kubeconfig can't be used: {error}"))
    }
}

/// The text of an error of the Kubernetes API, with what the user can do about it.
pub(super) fn api_error(doing: &str, error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "{doing}: {}; the ClusterRole capo-viewer-role is enough",
            status.message
        ),
        kube::Error::Api(status) => format!("{doing}: {}", status.message),
        other => {
            // Only the cause contains that the connection was refused, or that the certificate is not trusted.
            let mut text = format!("{doing}: {other}");
            let mut cause = std::error::Error::source(other);
            while let Some(error) = cause {
                let more = error.to_string();
                if !text.contains(&more) {
                    text = format!("{text}: {more}");
                }
                cause = error.source();
            }
            text
        }
    }
}

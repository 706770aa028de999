//! A kube-apiserver process. Authorisation is RBAC; Pods can be created without a ServiceAccount.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kube::Client;

use super::{Error, Guarded, authority::Pair, guarded::Program, programs};

/// Go collects garbage when the heap has grown to five times what is in use instead of twice. A test that starts an API
/// server takes a sixth less of the processor then, and the API server more memory.
const FEWER_COLLECTIONS: [&str; 2] = ["GOGC", "400"];

/// The settings of a kube-apiserver. Those of one cluster share all settings except address, certificate and folder.
#[derive(Debug)]
pub struct ApiServer<'a> {
    /// The URL of its etcd.
    pub etcd: &'a str,
    /// The address on which it listens.
    pub address: SocketAddr,
    /// Its certificate and key.
    pub serving: &'a Pair,
    /// The authority of the client certificates that it trusts, in PEM.
    pub authority: &'a str,
    /// The keys with which ServiceAccount tokens are signed and verified.
    pub service_accounts: &'a Pair,
    /// An existing folder of its own, for its files and its log `kube-apiserver.log`.
    pub folder: &'a Path,
    /// Further arguments.
    pub more: Vec<String>,
}

impl ApiServer<'_> {
    /// Starts the process. It does not answer yet.
    pub fn start(&self) -> Result<Guarded, Error> {
        let file = |name: &str, content: &str| -> Result<String, Error> {
            let path = self.folder.join(name);
            std::fs::write(&path, content)?;
            Ok(path.display().to_string())
        };
        let mut arguments = [
            "--etcd-servers",
            self.etcd,
            "--bind-address",
            &self.address.ip().to_string(),
            "--secure-port",
            &self.address.port().to_string(),
            "--advertise-address",
            "127.0.0.1",
            "--endpoint-reconciler-type",
            "none",
            "--tls-cert-file",
            &file("serving.crt", &self.serving.certificate)?,
            "--tls-private-key-file",
            &file("serving.key", &self.serving.key)?,
            "--client-ca-file",
            &file("authority.crt", self.authority)?,
            "--authorization-mode",
            "RBAC",
            "--service-account-issuer",
            "https://kubernetes.default.svc",
            "--service-account-key-file",
            &file("service-account.crt", &self.service_accounts.certificate)?,
            "--service-account-signing-key-file",
            &file("service-account.key", &self.service_accounts.key)?,
            "--service-cluster-ip-range",
            "10.96.0.0/16",
            "--disable-admission-plugins",
            "ServiceAccount",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(self.more.iter().cloned());
        Guarded::start(&Program {
            path: &programs::kube_apiserver()?,
            arguments,
            variables: vec![FEWER_COLLECTIONS.map(str::to_owned).into()],
            log: self.log(),
            remove_after: None,
        })
    }

    fn log(&self) -> PathBuf {
        self.folder.join("kube-apiserver.log")
    }
}

/// Returns when `process`, to which `client` is connected, is ready.
pub async fn until_ready(process: &mut Guarded, client: &Client) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.ended()? {
            return Err(format!(
                "kube-apiserver ended ({status}):\n{}",
                process.last_lines(5)
            )
            .into());
        }
        let request = http::Request::get("/readyz").body(Vec::new())?;
        if client.request_text(request).await.is_ok() {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_mins(4) {
            return Err(format!(
                "kube-apiserver is not ready after 4 minutes:\n{}",
                process.last_lines(5)
            )
            .into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

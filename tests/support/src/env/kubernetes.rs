//! A real etcd and kube-apiserver on free ports of the loopback address.
//!
//! Authorisation is RBAC. No kube-controller-manager runs, so nothing is collected by owner references, the deletion of
//! a Namespace never ends, and no ServiceAccount is created automatically. It is ready in about 3 s and needs 480 MB.

use std::{
    net::{SocketAddr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Authority, Error, Etcd, Guarded, api_server, api_server::ApiServer, apply};

const CLUSTER_API: &str = include_str!("../../crds/cluster-api.yaml");

/// The ports that are used. They are below those that Linux assigns by itself, which begin at 32768.
const PORTS: Range<u16> = 18_000..30_000;

/// Every request of the provider (a ServiceAccount of capo-system) is recorded without its body, so that granted rights
/// can be compared with used ones. No other request is recorded.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ['system:serviceaccounts:capo-system']
- level: None
";

/// A running Kubernetes API; ended when dropped, and with this process.
pub struct Kubernetes {
    // The fields are dropped in this order.
    apiserver: Guarded,
    _etcd: Etcd,
    authority: Authority,
    port: u16,
    folder: TempDir,
}

impl Kubernetes {
    /// Starts a Kubernetes API that only the caller uses.
    pub async fn start() -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut attempt = 0;
        loop {
            attempt += 1;
            match Self::try_start().await {
                Ok(started) => return Ok(started),
                // Another process may take the port between finding it and binding it.
                Err(error)
                    if attempt < 3 && error.to_string().contains("address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The Kubernetes API that all tests of this process share. Each test uses a namespace of its own in it.
    ///
    /// # Panics
    /// When it can't be started.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<Kubernetes> = OnceLock::new();
        started_once(&SHARED, async || Self::start().await).await
    }

    async fn try_start() -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("capo-rs-kubernetes-")
            .tempdir()?;
        let authority = Authority::new("capo-rs test authority")?;
        let audit_policy = folder.path().join("audit-policy.yaml");
        std::fs::write(&audit_policy, AUDIT_POLICY)?;
        let etcd = Etcd::start(folder.path(), Some(folder.path().to_owned()))?;
        let port = free_port()?;
        let apiserver = ApiServer {
            etcd: etcd.url(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            serving: &authority.server(&["127.0.0.1", "localhost", "10.96.0.1"])?,
            authority: &authority.certificate(),
            service_accounts: &authority.client("service-account-signing", &[])?,
            folder: folder.path(),
            more: vec![
                format!("--audit-policy-file={}", audit_policy.display()),
                format!(
                    "--audit-log-path={}",
                    folder.path().join("audit.log").display()
                ),
                "--audit-log-mode=blocking".to_owned(),
            ],
        }
        .start()?;
        let mut started = Self {
            apiserver,
            _etcd: etcd,
            authority,
            port,
            folder,
        };
        started.kubeconfig_of("admin", &["system:masters"])?;
        let client = started.admin().await?;
        api_server::until_ready(&mut started.apiserver, &client).await?;
        Ok(started)
    }

    /// The URL at which it listens.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The authority of its certificates; it issues clients too.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A folder that is deleted when this ends: logs, kubeconfigs, and whatever a test writes there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig file of cluster-admin.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// A client as cluster-admin. It belongs to the runtime of the caller.
    pub async fn admin(&self) -> Result<Client, Error> {
        client(&self.admin_kubeconfig()).await
    }

    /// The kubeconfig file of a user by client certificate.
    pub fn kubeconfig_of(&self, user: &str, groups: &[&str]) -> Result<PathBuf, Error> {
        let pair = self.authority.client(user, groups)?;
        self.write_kubeconfig(
            user,
            &json!({
                "client-certificate-data": base64(&pair.certificate),
                "client-key-data": base64(&pair.key),
            }),
        )
    }

    /// The kubeconfig file of a ServiceAccount that exists, with a token as a Pod would get it.
    pub async fn kubeconfig_of_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf, Error> {
        let token = self.token(namespace, name).await?;
        self.write_kubeconfig(&format!("{namespace}-{name}"), &json!({"token": token}))
    }

    /// A token of a ServiceAccount that exists, as a Pod would get it.
    pub async fn token(&self, namespace: &str, name: &str) -> Result<String, Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin().await?, namespace);
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 86400}}))?;
        let answer = api
            .create_subresource::<TokenRequest, TokenRequest>(
                "token",
                name,
                &PostParams::default(),
                &request,
            )
            .await?;
        let token = answer.status.and_then(|status| status.token);
        Ok(token.ok_or("a TokenRequest without a token")?)
    }

    fn write_kubeconfig(&self, user: &str, credentials: &Value) -> Result<PathBuf, Error> {
        let path = self
            .folder
            .path()
            .join(format!("{}.kubeconfig", user.replace([':', '/'], "-")));
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url(),
                "certificate-authority-data": base64(&self.authority.certificate()),
            }}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        });
        // Another test may be reading the file of the same user.
        let new = path.with_extension(uuid::Uuid::new_v4().simple().to_string());
        std::fs::write(&new, serde_json::to_vec_pretty(&content)?)?;
        std::fs::rename(new, &path)?;
        Ok(path)
    }

    /// Installs stand-ins for Cluster API's definitions. Their names, versions, scopes and subresources are right, and
    /// they allow any content. They are enough for a provider, which reads few of their fields.
    pub async fn install_cluster_api(&self) -> Result<(), Error> {
        apply::apply(&self.admin().await?, &apply::documents(CLUSTER_API)?).await
    }

    /// Installs what the manager runs with, as shipped: namespace, ServiceAccount, roles. Returns the kubeconfig of
    /// that ServiceAccount. In tests the manager never runs as another user.
    pub async fn install_provider(&self) -> Result<PathBuf, Error> {
        let admin = self.admin().await?;
        for file in [
            include_str!("../../../../deploy/namespace.yaml"),
            include_str!("../../../../deploy/rbac.yaml"),
        ] {
            apply::apply(&admin, &apply::documents(file)?).await?;
        }
        self.kubeconfig_of_service_account("capo-system", "capo-manager")
            .await
    }

    /// The recorded requests of ServiceAccounts in capo-system, oldest first.
    pub fn audit_events(&self) -> Result<Vec<Value>, Error> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log"))?;
        text.lines()
            .map(|line| serde_json::from_str(line).map_err(Error::from))
            .collect()
    }

    /// The kube-apiserver process, for tests that freeze or kill it.
    pub fn apiserver(&mut self) -> &mut Guarded {
        &mut self.apiserver
    }
}

/// A client from a kubeconfig file.
pub async fn client(kubeconfig: &Path) -> Result<Client, Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// A port of the loopback address that was free a moment ago. This process gets none twice, and the kernel gives none
/// of them to a process that asks for any port, so that no other process takes it before the program that it is for.
pub fn free_port() -> Result<u16, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each process begins at another port.
    let first = std::process::id().wrapping_mul(7_919);
    for _ in PORTS {
        let next = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + u16::try_from(next % u32::from(PORTS.end - PORTS.start))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no port of {PORTS:?} is free").into())
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// What `start` returns, started by the first test of this process that needs it. It is started on a thread of its own,
/// because the runtime of the first test ends with that test.
///
/// # Panics
/// When it can't be started.
pub async fn started_once<T: Send + Sync>(
    shared: &'static OnceLock<T>,
    start: impl AsyncFnOnce() -> Result<T, Error> + Send + 'static,
) -> &'static T {
    let start = move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::from)
            .and_then(|runtime| runtime.block_on(start()))
            .unwrap()
    };
    let get = || shared.get_or_init(|| std::thread::spawn(start).join().unwrap());
    tokio::task::spawn_blocking(get).await.unwrap()
}

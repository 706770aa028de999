//! The webhook server, in this process, behind a kube-apiserver that calls it as in a deployment.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use capo_api::{ConversionTarget, crds};
use capo_rs::webhooks::server::{Server, Settings, WebhookObserver};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    env::{Authority, Error, Kubernetes, apply},
    waiting::{PATIENCE, Wait},
};

/// A listener that ends with the test.
pub struct Listening {
    pub url: String,
    pub authority: Authority,
    pub folder: tempfile::TempDir,
    pub stop: CancellationToken,
    pub task: AbortOnDropHandle<()>,
}

impl Listening {
    pub async fn start(
        change: impl FnOnce(&mut Settings),
        observer: Arc<dyn WebhookObserver>,
    ) -> Result<Self, Error> {
        let authority = Authority::new("webhook test authority")?;
        let folder = tempfile::tempdir()?;
        write_pair(&authority, folder.path())?;
        let mut settings = Settings::new(0, folder.path());
        settings.address = "127.0.0.1:0".parse()?;
        settings.limits.certificate_poll = Duration::from_millis(50);
        change(&mut settings);
        let server = Server::bind(settings, observer).await?;
        let stop = CancellationToken::new();
        Ok(Self {
            url: format!("https://{}", server.local_addr()?),
            authority,
            folder,
            task: AbortOnDropHandle::new(tokio::spawn(server.serve(stop.clone()))),
            stop,
        })
    }
}

/// Writes a new certificate as `tls.crt` and `tls.key`.
pub fn write_pair(authority: &Authority, folder: &Path) -> Result<(), Error> {
    let pair = authority.server(&["127.0.0.1", "localhost"])?;
    write_at_once(&folder.join("tls.crt"), &pair.certificate)?;
    write_at_once(&folder.join("tls.key"), &pair.key)
}

/// Writes a file so that no reader sees half of it.
pub fn write_at_once(path: &Path, content: &str) -> Result<(), Error> {
    let new = path.with_extension("new");
    std::fs::write(&new, content)?;
    Ok(std::fs::rename(new, path)?)
}

/// A kube-apiserver with the definitions of capo-rs, whose webhooks are served by this process.
pub struct Served {
    pub kubernetes: Kubernetes,
    /// The kubeconfig of the manager's ServiceAccount, once what a manager runs with is installed.
    manager: OnceCell<PathBuf>,
    _listening: Listening,
}

impl Served {
    /// Starts one that only the caller uses.
    pub async fn start() -> Result<Self, Error> {
        let kubernetes = Kubernetes::start().await?;
        let client = kubernetes.admin().await?;
        let listening = Listening::start(|_| {}, Arc::new(())).await?;
        apply::apply(&client, &definitions(&listening)?).await?;
        apply::apply(&client, &admission(&listening)?).await?;
        until_refused(&client).await?;
        Ok(Self {
            kubernetes,
            manager: OnceCell::new(),
            _listening: listening,
        })
    }

    /// The one that the tests of this process share. It has a runtime of its own, because the runtime of the first test
    /// ends with that test.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<Served> = OnceLock::new();
        tokio::task::spawn_blocking(|| {
            SHARED.get_or_init(|| {
                let (send, receive) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_multi_thread()
                        .worker_threads(2)
                        .enable_all()
                        .build()
                        .unwrap();
                    runtime.block_on(async {
                        send.send(Self::start().await).unwrap();
                        std::future::pending::<()>().await;
                    });
                });
                receive.recv().unwrap().unwrap()
            })
        })
        .await
        .unwrap()
    }

    /// Installs what a manager runs with besides our definitions, and returns the kubeconfig of its ServiceAccount. It
    /// is applied by the first call alone, because it is the same for all tests.
    pub async fn install_for_manager(&self) -> Result<PathBuf, Error> {
        let install = async || {
            self.kubernetes.install_cluster_api().await?;
            self.kubernetes.install_provider().await
        };
        Ok(self.manager.get_or_try_init(install).await?.clone())
    }

    /// A client for this test's runtime.
    pub async fn client(&self) -> Client {
        self.kubernetes.admin().await.unwrap()
    }
}

/// Our definitions, with this process's address for conversion.
pub fn definitions(listening: &Listening) -> Result<Vec<Value>, Error> {
    let conversion = ConversionTarget::Url {
        url: format!("{}/convert", listening.url),
        certificate_authority: listening.authority.certificate(),
    };
    let definitions = crds(&conversion)?
        .into_iter()
        .map(|definition| {
            typed(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                &definition,
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(definitions)
}

/// Returns when the API server applies the configuration of the validating webhooks.
async fn until_refused(client: &Client) -> Result<(), Error> {
    let api = api(client, "OpenStackMachineTemplate", "v1beta2", "default");
    let wrong = object(
        "OpenStackMachineTemplate",
        "v1beta2",
        "refused",
        json!({"spec": {"template": {"spec": {
            "providerID": "openstack:///1", "flavor": {"id": "f"}, "image": {"filter": {"name": "i"}},
        }}}}),
    );
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let wait = Wait::default().between(Duration::from_millis(25));
    let seen = wait.ok(async || match api.create(&parameters, &wrong).await {
        Err(kube::Error::Api(status)) if status.message.contains("providerID") => Ok(()),
        Err(other) => Err(other.to_string()),
        Ok(_) => Err("an invalid object was accepted".to_owned()),
    });
    seen.await.map_err(|last| {
        format!("the validating webhooks are not in force after {PATIENCE:?}: {last}").into()
    })
}

/// Creates a namespace if it does not exist.
pub async fn namespace(client: &Client, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply::apply(client, &[namespace]).await.unwrap();
}

/// A kind in one version.
pub fn api(client: &Client, kind: &str, version: &str, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource(kind, version))
}

pub fn resource(kind: &str, version: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", version, kind),
        &format!("{}s", kind.to_lowercase()),
    )
}

/// An object for [`Api`] from its parts.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the callers write the parts with json!"
)]
pub fn object(kind: &str, version: &str, name: &str, parts: Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": format!("infrastructure.cluster.x-k8s.io/{version}"), "kind": kind,
        "metadata": {"name": name},
    });
    for (key, value) in parts.as_object().unwrap() {
        object[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Label of a namespace whose objects are not validated on admission, as if the webhook were not installed.
pub const WITHOUT_ADMISSION: &str = "tests.capo-rs/without-admission";

/// The shipped configuration, with this process's address instead of the Service's, except in namespaces with the label
/// [`WITHOUT_ADMISSION`].
pub fn admission(listening: &Listening) -> Result<Vec<Value>, Error> {
    use base64::Engine as _;
    let bundle =
        base64::engine::general_purpose::STANDARD.encode(listening.authority.certificate());
    let mut documents = apply::documents(include_str!("../../../deploy/webhooks.yaml"))?;
    documents.retain(|document| document["kind"] == "ValidatingWebhookConfiguration");
    for webhook in documents
        .iter_mut()
        .filter_map(|document| document["webhooks"].as_array_mut())
        .flatten()
    {
        let path = webhook["clientConfig"]["service"]["path"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        webhook["clientConfig"] =
            json!({"url": format!("{}{path}", listening.url), "caBundle": bundle});
        webhook["namespaceSelector"] =
            json!({"matchExpressions": [{"key": WITHOUT_ADMISSION, "operator": "DoesNotExist"}]});
    }
    assert_eq!(documents.len(), 1);
    Ok(documents)
}

fn typed(
    version: &str,
    kind: &str,
    object: &impl serde::Serialize,
) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    value["apiVersion"] = json!(version);
    value["kind"] = json!(kind);
    Ok(value)
}

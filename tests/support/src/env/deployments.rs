//! What a node, the Deployment controller and cert-manager would do for the providers that clusterctl installs: their
//! managers run as processes with the arguments of their Deployments, and the API server reaches their webhooks.
//!
//! No node runs here, so no Service has an address. Where clusterctl writes one into a webhook's configuration, an
//! address of the loopback network takes its place while the manager runs, with the certificate's authority beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        core::v1::Namespace,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Error, Guarded, Kubernetes, apply, guarded::Program, installation, kubernetes::free_port,
    manager, programs,
};
use crate::waiting::PATIENCE;

/// Time between two passes over the Deployments.
const INTERVAL: Duration = Duration::from_millis(300);
/// The program for which an image's name stands.
const CLUSTER_API: [(&str, &str); 3] = [
    ("/cluster-api-controller", "core"),
    ("/kubeadm-bootstrap-controller", "bootstrap"),
    ("/kubeadm-control-plane-controller", "control-plane"),
];
/// Flags whose ports and paths are those of a Pod.
const OF_A_POD: [&str; 5] = [
    "--webhook-port",
    "--webhook-cert-dir",
    "--health-addr",
    "--diagnostics-address",
    "--insecure-diagnostics",
];
/// Outside of a Pod, Cluster API's managers do not know in which namespace their lease would be, and end.
const LEADER_ELECTION: &str = "--leader-elect";
/// Enough of cert-manager's definitions to take its objects. Certificates come from the test's own authority.
const CERT_MANAGER: &str = include_str!("../../crds/cert-manager.yaml");

/// The managers of one management cluster; they end when this is dropped.
pub struct Deployments {
    _work: AbortOnDropHandle<()>,
}

struct Runtime {
    kubernetes: Arc<Kubernetes>,
    client: Client,
    /// By namespace and name of the Deployment.
    running: BTreeMap<(String, String), Running>,
}

struct Running {
    uid: String,
    provider: String,
    port: u16,
    health: u16,
    is_ready: bool,
    process: Guarded,
    /// The conversion webhooks as clusterctl wrote them, by the name of the definition.
    services: BTreeMap<String, Value>,
}

impl Deployments {
    /// Installs cert-manager's definitions, and starts a manager for each Deployment from now on.
    pub async fn start(kubernetes: &Arc<Kubernetes>) -> Result<Self, Error> {
        let client = kubernetes.admin().await?;
        apply::apply(&client, &apply::documents(CERT_MANAGER)?).await?;
        let mut runtime = Runtime {
            kubernetes: kubernetes.clone(),
            client,
            running: BTreeMap::new(),
        };
        let work = tokio::spawn(async move {
            loop {
                // A step that fails because objects change at the same moment succeeds in the next pass.
                if let Err(error) = runtime.sync().await {
                    tracing::debug!(%error, "Trying again");
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Ok(Self {
            _work: AbortOnDropHandle::new(work),
        })
    }
}

impl Runtime {
    async fn sync(&mut self) -> Result<(), Error> {
        let all: Api<Deployment> = Api::all(self.client.clone());
        let mut wanted = BTreeSet::new();
        for deployment in all.list(&ListParams::default()).await? {
            let key = (
                deployment.namespace().unwrap_or_default(),
                deployment.name_any(),
            );
            let replicas = deployment.spec.replicas;
            let runs = replicas != Some(0) && deployment.metadata.deletion_timestamp.is_none();
            if !runs {
                self.stop(&key).await?;
                self.report(&deployment, 0).await?;
                continue;
            }
            let uid = deployment.uid().unwrap_or_default();
            if self.running.get(&key).is_some_and(|one| one.uid != uid) {
                self.stop(&key).await?;
            }
            if !self.running.contains_key(&key) {
                let started = self.start(&deployment).await?;
                self.running.insert(key.clone(), started);
            }
            self.until_ready(&key, &deployment).await?;
            wanted.insert(key);
        }
        let gone: Vec<_> = self.running.keys().cloned().collect();
        for key in gone.into_iter().filter(|key| !wanted.contains(key)) {
            self.stop(&key).await?;
        }
        self.finish_namespaces().await
    }

    async fn start(&self, deployment: &Deployment) -> Result<Running, Error> {
        let value = serde_json::to_value(deployment)?;
        let pod = &value["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let image = container["image"].as_str().unwrap_or_default();
        let namespace = deployment.namespace().unwrap_or_default();
        let part = CLUSTER_API.iter().find(|(name, _)| image.contains(name));
        let (path, kubeconfig): (PathBuf, PathBuf) = if let Some((_, part)) = part {
            // The rights of Cluster API are aggregated by a controller that does not run here.
            (
                programs::cluster_api_manager(part)?,
                self.kubernetes.admin_kubeconfig(),
            )
        } else {
            let account = pod["serviceAccountName"].as_str().unwrap_or_default();
            let own = self
                .kubernetes
                .kubeconfig_of_service_account(&namespace, account);
            (manager::binary(), own.await?)
        };
        let (webhook_port, health) = (free_port()?, free_port()?);
        let folder = self.kubernetes.folder().join(format!("pod-{webhook_port}"));
        let serving = self.kubernetes.authority().server(&["127.0.0.1"])?;
        installation::write_pair(&folder, &serving.certificate, &serving.key)?;
        let mut arguments: Vec<String> = container["args"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|argument| !OF_A_POD.iter().any(|flag| argument.starts_with(flag)))
            .filter(|argument| part.is_none() || !argument.starts_with(LEADER_ELECTION))
            .map(str::to_owned)
            .collect();
        arguments.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--webhook-port={webhook_port}"),
            format!("--webhook-cert-dir={}", folder.display()),
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--diagnostics-address=127.0.0.1:{}", free_port()?),
            "--insecure-diagnostics=true".to_owned(),
        ]);
        let labels = deployment.labels();
        let provider = labels.get("cluster.x-k8s.io/provider").cloned();
        let provider = provider.ok_or("a Deployment without a provider's label")?;
        let services = self.point_conversion_at(&provider, webhook_port).await?;
        let process = Guarded::start(&Program {
            path: &path,
            arguments,
            variables: vec![
                ("POD_NAMESPACE".to_owned(), namespace),
                ("NO_COLOR".to_owned(), "1".to_owned()),
            ],
            log: folder.join("manager.log"),
            remove_after: None,
        })?;
        Ok(Running {
            uid: deployment.uid().unwrap_or_default(),
            provider,
            port: webhook_port,
            health,
            is_ready: false,
            process,
            services,
        })
    }

    /// Keeps the webhooks reachable, and reports the manager as ready in the status of its Deployment.
    async fn until_ready(
        &mut self,
        key: &(String, String),
        deployment: &Deployment,
    ) -> Result<(), Error> {
        let Some(one) = self.running.get(key) else {
            return Ok(());
        };
        let (provider, port, health) = (one.provider.clone(), one.port, one.health);
        self.point_admission_at::<ValidatingWebhookConfiguration>(&provider, port)
            .await?;
        self.point_admission_at::<MutatingWebhookConfiguration>(&provider, port)
            .await?;
        if one.is_ready {
            return Ok(());
        }
        let answer = manager::get(&format!("127.0.0.1:{health}/readyz")).await;
        if answer.is_ok_and(|(status, _)| status == 200) {
            self.report(deployment, 1).await?;
            if let Some(one) = self.running.get_mut(key) {
                one.is_ready = true;
            }
        }
        Ok(())
    }

    /// Ends a manager as the kubelet does, and names the Services again, which clusterctl patches.
    async fn stop(&mut self, key: &(String, String)) -> Result<(), Error> {
        let Some(mut one) = self.running.remove(key) else {
            return Ok(());
        };
        one.process.signal("TERM")?;
        let ended = tokio::task::spawn_blocking(move || one.process.wait(PATIENCE));
        ended.await??;
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for (name, service) in one.services {
            if definitions.get_opt(&name).await?.is_some() {
                patch_conversion(
                    &definitions,
                    &name,
                    json!({"url": null, "caBundle": null, "service": service}),
                )
                .await?;
            }
        }
        Ok(())
    }

    async fn report(&self, deployment: &Deployment, replicas: i32) -> Result<(), Error> {
        let reported = deployment.status.as_ref();
        let known = reported.and_then(|status| status.replicas).unwrap_or(0);
        if known == replicas {
            return Ok(());
        }
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
        let available = if replicas == 0 { "False" } else { "True" };
        let status = json!({"status": {
            "observedGeneration": deployment.metadata.generation,
            "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{"type": "Available", "status": available}],
        }});
        let (name, none) = (deployment.name_any(), PatchParams::default());
        let changed = api.patch_status(&name, &none, &Patch::Merge(status)).await;
        match changed {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Points the conversion of a provider's definitions at `port`; returns the Services that they named before.
    async fn point_conversion_at(
        &self,
        provider: &str,
        port: u16,
    ) -> Result<BTreeMap<String, Value>, Error> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let bundle = self.kubernetes.authority().certificate();
        let mut services = BTreeMap::new();
        let theirs = ListParams::default().labels(&format!("cluster.x-k8s.io/provider={provider}"));
        for definition in definitions.list(&theirs).await? {
            let value = serde_json::to_value(&definition.spec.conversion)?;
            let service = &value["webhook"]["clientConfig"]["service"];
            if service.is_null() {
                continue;
            }
            let mut local = installation::local(port, "/convert", &bundle);
            local["service"] = Value::Null;
            patch_conversion(&definitions, &definition.name_any(), local).await?;
            services.insert(definition.name_any(), service.clone());
        }
        Ok(services)
    }

    /// Points the admission webhooks of a provider at `port`.
    async fn point_admission_at<K>(&self, provider: &str, port: u16) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let bundle = self.kubernetes.authority().certificate();
        let theirs = ListParams::default().labels(&format!("cluster.x-k8s.io/provider={provider}"));
        for configuration in api.list(&theirs).await? {
            let value = serde_json::to_value(&configuration)?;
            let webhooks = value["webhooks"].as_array().into_iter().flatten();
            let by_service =
                |webhook: &Value| webhook["clientConfig"]["service"]["path"].is_string();
            if !webhooks.clone().any(by_service) {
                continue;
            }
            let local = installation::localised(
                json!({"webhooks": webhooks.collect::<Vec<_>>()}),
                &|path| installation::local(port, path, &bundle),
            );
            api.patch(
                &configuration.name_any(),
                &PatchParams::default(),
                &Patch::Merge(local),
            )
            .await?;
        }
        Ok(())
    }

    /// Ends Namespaces that are being deleted, with their Deployments, because no other program does so here.
    async fn finish_namespaces(&self) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        for namespace in api.list(&ListParams::default()).await? {
            if namespace.metadata.deletion_timestamp.is_none() {
                continue;
            }
            let name = namespace.name_any();
            let inside: Api<Deployment> = Api::namespaced(self.client.clone(), &name);
            inside
                .delete_collection(&DeleteParams::default(), &ListParams::default())
                .await?;
            let mut value = serde_json::to_value(&namespace)?;
            value["apiVersion"] = json!("v1");
            value["kind"] = json!("Namespace");
            value["spec"]["finalizers"] = json!([]);
            let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
                .header("content-type", "application/json")
                .body(serde_json::to_vec(&value)?)?;
            let _: Value = self.client.request(request).await?;
        }
        Ok(())
    }
}

async fn patch_conversion(
    definitions: &Api<CustomResourceDefinition>,
    name: &str,
    client_config: Value,
) -> Result<(), Error> {
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": client_config}}}});
    definitions
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

//! Server-side apply of any documents.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    discovery::{Scope, pinned_kind},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::{Value, json};

use super::Error;
use crate::waiting::PATIENCE;

/// The documents of a YAML stream.
pub fn documents(yaml: &str) -> Result<Vec<Value>, Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    Ok(documents
        .into_iter()
        .filter(|value| !value.is_null())
        .collect())
}

/// The first document of the first YAML block of a page of the repository.
pub fn first_manifest(page: &str) -> Result<Value, Error> {
    let text = std::fs::read_to_string(crate::repository(page))?;
    let block = text.split("```yaml\n").nth(1);
    let block = block.and_then(|rest| rest.split("```").next());
    let found = documents(block.ok_or("the page has no YAML block")?)?;
    Ok(found.into_iter().next().ok_or("the YAML block is empty")?)
}

/// A Secret with credentials.
pub fn credentials(namespace: &str, name: &str, clouds_yaml: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {"clouds.yaml": clouds_yaml},
    })
}

/// A namespace, and the credentials `cloud-config` in it.
pub fn namespace_with_credentials(name: &str, clouds_yaml: &str) -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        credentials(name, "cloud-config", clouds_yaml),
    ]
}

/// Applies `documents` in their order and waits for custom resource definitions among them to be served.
pub async fn apply(client: &Client, documents: &[Value]) -> Result<(), Error> {
    let mut definitions = Vec::new();
    for document in documents {
        let object: DynamicObject = serde_json::from_value(document.clone())?;
        let types = object
            .types
            .clone()
            .ok_or("a document without apiVersion and kind")?;
        let name = object
            .metadata
            .name
            .clone()
            .ok_or_else(|| format!("a {} without a name", types.kind))?;
        let (resource, capabilities) = pinned_kind(client, &(&types).try_into()?).await?;
        let api: Api<DynamicObject> = match (&capabilities.scope, &object.metadata.namespace) {
            (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), namespace, &resource)
            }
            (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        };
        api.patch(
            &name,
            &PatchParams::apply("capo-rs-tests").force(),
            &Patch::Apply(document),
        )
        .await
        .map_err(|error| format!("applying {} {name}: {error}", types.kind))?;
        if types.kind == "CustomResourceDefinition" {
            definitions.push(name);
        }
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in definitions {
        tokio::time::timeout(
            PATIENCE,
            await_condition(api.clone(), &name, is_crd_established()),
        )
        .await
        .map_err(|_| format!("{name} was not established within {PATIENCE:?}"))??;
    }
    Ok(())
}

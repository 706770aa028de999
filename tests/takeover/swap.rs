//! The two swaps, step by step as `docs/migrate-from-capo.md` has them.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhookConfiguration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use test_support::env::{
    Capo, Error, Guarded, Installation, Manager, capo::WEBHOOKS, manager, programs,
};

/// What an operator reads.
pub(crate) const PAGE: &str = include_str!("../../docs/migrate-from-capo.md");

/// Ends a manager in order, as a Deployment that is scaled to zero does.
pub(crate) fn stop(mut process: Guarded) {
    process.signal("TERM").unwrap();
    process.wait(Duration::from_secs(40)).unwrap();
}

/// CAPO's entries would stay beside ours and point at a manager that is gone.
pub(crate) async fn remove_webhooks(client: &Client) -> Result<(), Error> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    api.delete(WEBHOOKS, &DeleteParams::default()).await?;
    Ok(())
}

/// Starts capo-rs as it is shipped, with these arguments on top.
pub(crate) async fn capo_rs(
    installation: &Installation,
    logs: &Path,
    more: &[&str],
) -> Result<Manager, Error> {
    let mut arguments = installation.arguments();
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut manager = Manager::start(logs, &installation.kubeconfig, &arguments)?;
    manager.until_ready().await?;
    Ok(manager)
}

/// `capo-rs release-hooks`, while no manager runs.
pub(crate) fn release_hooks(installation: &Installation) -> Result<(), Error> {
    let output = Command::new(manager::binary())
        .arg("release-hooks")
        .arg("--kubeconfig")
        .arg(&installation.kubeconfig)
        .output()?;
    ended_well("release-hooks", &output)
}

/// Makes v1beta1 the stored version again and rewrites every object, with the commands of the page.
pub(crate) fn store_v1beta1(kubeconfig: &Path, folder: &Path) -> Result<(), Error> {
    let (_, rest) = PAGE
        .split_once("```bash store-v1beta1\n")
        .ok_or("the page has no block store-v1beta1")?;
    let (commands, _) = rest.split_once("```").ok_or("the block has no end")?;
    let kubectl = programs::kubectl()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let beside = kubectl.parent().unwrap_or(Path::new(".")).display();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .env("PATH", format!("{beside}:{path}"))
        .env("KUBECONFIG", kubeconfig)
        .current_dir(folder)
        .output()?;
    ended_well("store-v1beta1", &output)
}

fn ended_well(what: &str, output: &Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{what} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

/// CAPO's own definitions and webhooks in place of ours.
pub(crate) async fn restore(client: &Client, capo: &Capo) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for wanted in capo.definitions()? {
        let mut wanted: CustomResourceDefinition = serde_json::from_value(wanted)?;
        let name = wanted.metadata.name.clone().unwrap_or_default();
        let present = definitions.get(&name).await?;
        wanted.metadata.resource_version = present.metadata.resource_version;
        definitions
            .replace(&name, &PostParams::default(), &wanted)
            .await?;
    }
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    api.delete(WEBHOOKS, &DeleteParams::default()).await?;
    let webhooks: ValidatingWebhookConfiguration = serde_json::from_value(capo.webhooks()?)?;
    api.create(&PostParams::default(), &webhooks).await?;
    Ok(())
}

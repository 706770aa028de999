//! The manager's Deployment with the chosen settings, and what contradicts what.

use clap::Parser;
use serde_json::{Value, json};

use super::{
    Choices, ManifestError, PullPolicy,
    edit::{append, edit, insert},
};
use crate::manager::{Settings, settings::normalise};

/// The ports of the shipped Service, probes and PodMonitor.
const WEBHOOK_PORT: u16 = 9443;
const HEALTH_PORT: u16 = 9440;

/// The flags of the shipped Deployment.
const FLAGS: [&str; 2] = ["--leader-elect", "--v=2"];

#[derive(Debug, Parser)]
#[command(name = "capo-rs", args_override_self = true)]
struct CommandLine {
    #[command(flatten)]
    settings: Settings,
}

/// The additional flags of the manager, once they and all options are known to fit together.
pub(super) fn check(choices: &Choices) -> Result<Vec<String>, ManifestError> {
    let mut more = choices.arg.clone();
    if let Some(namespace) = &choices.watch_namespace {
        more.push(format!("--namespace={namespace}"));
        // A manager of one namespace may not rewrite the objects of all.
        more.push("--skip-crd-migration-phases=All".to_owned());
    }
    let line = std::iter::once("capo-rs")
        .chain(FLAGS)
        .chain(more.iter().map(String::as_str))
        .map(Into::into);
    let line = CommandLine::try_parse_from(normalise(line))
        .map_err(|error| ManifestError::Flag(error.to_string()))?;
    let settings = line.settings;
    settings
        .check()
        .map_err(|error| ManifestError::Flag(error.to_string()))?;
    let contradiction = |text: String| Err(ManifestError::Contradiction(text));
    if choices.replicas > 1 && !settings.leader_elect {
        return contradiction(format!(
            "--replicas={} needs leader election, which --arg=--leader-elect=false turns off",
            choices.replicas
        ));
    }
    if settings.webhook_port != WEBHOOK_PORT {
        return contradiction(format!(
            "--arg=--webhook-port={}: the Service of the manifests sends webhook requests to port {WEBHOOK_PORT}",
            settings.webhook_port
        ));
    }
    let health = settings.health_addr.0.map(|address| address.port());
    if health != Some(HEALTH_PORT) {
        return contradiction(format!(
            "--arg=--health-addr: the probes of the manifests use port {HEALTH_PORT}"
        ));
    }
    if choices.watch_namespace.is_none() && !settings.namespace.is_empty() {
        return contradiction(format!(
            "--arg=--namespace={0} alone leaves the manager its rights in all namespaces: use --watch-namespace={0}",
            settings.namespace
        ));
    }
    if let (Some(request), Some(limit)) = (&choices.memory_request, &choices.memory_limit)
        && request.amount > limit.amount
    {
        return contradiction(format!(
            "--memory-request={} is above --memory-limit={}",
            request.text, limit.text
        ));
    }
    Ok(more)
}

/// Fills the choices into the Deployment. `flags` come after the shipped ones.
pub(super) fn fill_in(
    documents: &mut [String],
    choices: &Choices,
    flags: &[String],
) -> Result<(), ManifestError> {
    let shipped = Choices::default();
    let unchanged = flags.is_empty()
        && choices.replicas == shipped.replicas
        && choices.image_pull_policy.is_none()
        && choices.cpu_request.is_none()
        && choices.memory_request.is_none()
        && choices.memory_limit.is_none()
        && choices.toleration.is_empty();
    if unchanged {
        return Ok(());
    }
    edit(
        documents,
        "Deployment",
        "capo-controller-manager",
        |deployment| {
            insert(deployment, &["spec"], "replicas", choices.replicas.into());
            let pod = &mut deployment["spec"]["template"]["spec"];
            let tolerations = choices.toleration.iter().map(|one| one.0.clone());
            append(pod, "tolerations", tolerations);
            let container = &mut pod["containers"][0];
            append(container, "args", flags.iter().map(|flag| json!(flag)));
            if let Some(policy) = choices.image_pull_policy {
                insert(container, &[], "imagePullPolicy", name_of(policy));
            }
            for (path, key, quantity) in [
                ("requests", "cpu", &choices.cpu_request),
                ("requests", "memory", &choices.memory_request),
                ("limits", "memory", &choices.memory_limit),
            ] {
                if let Some(quantity) = quantity {
                    let text = Value::from(quantity.text.as_str());
                    insert(container, &["resources", path], key, text);
                }
            }
        },
    )
}

fn name_of(policy: PullPolicy) -> Value {
    Value::from(match policy {
        PullPolicy::Always => "Always",
        PullPolicy::IfNotPresent => "IfNotPresent",
        PullPolicy::Never => "Never",
    })
}

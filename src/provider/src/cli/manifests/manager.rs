//! The manager's Deployment with the chosen settings, and the checks that they do not contradict each other.

use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};

use super::{
    Choices, Extra, ManifestError, PullPolicy,
    edit::{append, edit, insert},
    options::Quantity,
};
use crate::manager::{
    Settings,
    settings::{ListenAddress, normalise},
};

/// The ports of the shipped Service, probes and PodMonitor.
const WEBHOOK_PORT: u16 = 9443;
const HEALTH_PORT: u16 = 9440;
const METRICS_PORT: u16 = 8443;
/// Where the shipped Deployment mounts the Secret with the webhooks' certificate.
const WEBHOOK_CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

/// The flags of the shipped Deployment.
const FLAGS: [&str; 2] = ["--leader-elect", "--v=2"];

#[derive(Debug, Parser)]
#[command(name = "capo-rs", args_override_self = true)]
struct CommandLine {
    #[command(flatten)]
    settings: Settings,
}

/// Checks that the manager's flags and all options fit together, and returns the additional flags.
pub(super) fn check(choices: &Choices) -> Result<Vec<String>, ManifestError> {
    let mut more = choices.arg.clone();
    if let Some(namespace) = &choices.watch_namespace {
        more.push(format!("--namespace={namespace}"));
        // A manager of one namespace does not have the right to rewrite the objects of all namespaces.
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
    if settings.webhook_cert_dir != Path::new(WEBHOOK_CERTIFICATES) {
        return contradiction(format!(
            "--arg=--webhook-cert-dir={}: the manifests mount the certificate at {WEBHOOK_CERTIFICATES}",
            settings.webhook_cert_dir.display()
        ));
    }
    if !serves_pods(settings.health_addr, HEALTH_PORT) {
        return contradiction(format!(
            "--arg=--health-addr: the probes of the manifests use port {HEALTH_PORT} of the Pod's address"
        ));
    }
    let scraped = choices.with.contains(&Extra::Monitoring);
    if scraped && !serves_pods(settings.diagnostics_address, METRICS_PORT) {
        return contradiction(format!(
            "--arg=--diagnostics-address: the PodMonitor of --with=monitoring scrapes port {METRICS_PORT} of the Pod's address"
        ));
    }
    if scraped && settings.insecure_diagnostics {
        return contradiction(
            "--arg=--insecure-diagnostics: the PodMonitor of --with=monitoring scrapes over HTTPS"
                .to_owned(),
        );
    }
    if settings.dry_run {
        return contradiction(
            "--arg=--dry-run ends by itself, and a Deployment would start it again and again: use capo-rs plan"
                .to_owned(),
        );
    }
    if choices.storage_version != Choices::default().storage_version
        && !choices.with.contains(&Extra::Crds)
    {
        return contradiction(
            "--storage-version is about the definitions, which are printed with --with=crds only"
                .to_owned(),
        );
    }
    if choices.watch_namespace.is_none() && !settings.namespace.is_empty() {
        return contradiction(format!(
            "--arg=--namespace={0} alone leaves the manager its rights in all namespaces: use --watch-namespace={0}",
            settings.namespace
        ));
    }
    Ok(more)
}

/// Whether a listener is reached at this port of the Pod's address.
fn serves_pods(address: ListenAddress, port: u16) -> bool {
    address
        .0
        .is_some_and(|address| address.port() == port && !address.ip().is_loopback())
}

/// Sets the chosen settings in the Deployment. `flags` come after the shipped ones.
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
    let mut memory = [None, None];
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
                insert(container, &[], "imagePullPolicy", pull_policy(policy));
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
            memory =
                ["requests", "limits"].map(|of| quantity(&container["resources"][of]["memory"]));
        },
    )?;
    match memory {
        [Some(request), Some(limit)] if request.amount > limit.amount => {
            Err(ManifestError::Contradiction(format!(
                "--memory-request={}{} is above --memory-limit={}{}",
                request.text,
                default_suffix(choices.memory_request.as_ref()),
                limit.text,
                default_suffix(choices.memory_limit.as_ref()),
            )))
        }
        _ => Ok(()),
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// The text that a message has after a default value.
fn default_suffix(chosen: Option<&Quantity>) -> &'static str {
    if chosen.is_some() {
        ""
    } else {
        " (the default)"
    }
}

fn pull_policy(policy: PullPolicy) -> Value {
    Value::from(match policy {
        PullPolicy::Always => "Always",
        PullPolicy::IfNotPresent => "IfNotPresent",
        PullPolicy::Never => "Never",
    })
}

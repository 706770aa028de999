//! `release-hooks`: removes the deletion hooks before capo-rs is uninstalled, without `--load-balancer-gate=off`.

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Arc};

use clap::Args;
use kube::Client;

use crate::{
    kubernetes::{
        connect,
        leader::{LEASE_NAME, Leader, leader},
    },
    manager::{ManagerError, namespace_or_own, with_authorities},
    reconcile::deletion_hooks::{Released, release_all},
};
use capo_core::GateMode;
use capo_openstack::{ClientSettings, Clouds, LeaseToken, NoObserver};

/// The options of `release-hooks`.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Kubeconfig file; without it the Pod's own ServiceAccount is used
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Only in this namespace; in all namespaces if empty
    #[arg(long, default_value = "", hide_default_value = true)]
    namespace: String,
    /// Namespace of the managers' lease; the Pod's own, or capo-system, if empty
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "POD_NAMESPACE"
    )]
    leader_elect_resource_namespace: String,
    /// PEM file of certificate authorities, trusted if a clouds.yaml Secret has no cacert
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "FILE"
    )]
    ca_certs: String,
}

/// Removes the hooks, and prints what was done and what failed.
pub(super) fn run(choices: &Choices) -> ExitCode {
    match super::wait_for(released(choices)) {
        Ok(released) => report(&released),
        Err(error) => {
            super::complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn released(choices: &Choices) -> Result<Released, String> {
    let clouds = clouds(&choices.ca_certs).map_err(|error| error.to_string())?;
    let client = connect(choices.kubeconfig.as_deref())
        .await
        .map_err(|error| error.to_string())?;
    check_no_leader_enforces(&client, choices).await?;
    let namespace = Some(choices.namespace.as_str()).filter(|name| !name.is_empty());
    Ok(release_all(&client, &clouds, namespace).await)
}

fn clouds(ca_certs: &str) -> Result<Clouds, ManagerError> {
    let settings = with_authorities(ClientSettings::default(), ca_certs)?;
    Ok(Clouds::new(
        settings,
        LeaseToken::unlimited(),
        Arc::new(NoObserver),
    ))
}

/// Refuses to continue while the leading manager enforces the gate, because it would add every hook again within
/// seconds.
async fn check_no_leader_enforces(client: &Client, choices: &Choices) -> Result<(), String> {
    let namespace = namespace_or_own(&choices.leader_elect_resource_namespace);
    let lease = format!("{namespace}/{LEASE_NAME}");
    match leader(client.clone(), &namespace).await {
        Ok(None) => super::warn(&format!(
            "the lease {lease} has no holder; a manager that runs without --leader-elect would add the hooks again"
        )),
        Ok(Some(Leader {
            identity,
            mode: Some(mode),
        })) if mode == GateMode::Enforce.as_str() => {
            return Err(format!(
                "{identity} holds the lease {lease} and enforces the load balancer gate: it would add the hooks again at once. \
                 Stop it first, as with `kubectl --namespace {namespace} scale deployment capo-controller-manager \
                 --replicas=0`, or start it with --load-balancer-gate=off, which removes the hooks by itself"
            ));
        }
        Ok(Some(Leader { identity, mode })) => super::warn(&format!(
            "{identity} holds the lease {lease} {}",
            mode.map_or_else(
                || "and does not record a gate mode: if it is capo-rs, it may add the hooks again"
                    .to_owned(),
                |mode| format!("with --load-balancer-gate={mode}, which adds no hooks")
            )
        )),
        Err(error) => super::warn(&format!(
            "the lease {lease} can't be read: {error}. A manager that enforces the load balancer gate would add the hooks again"
        )),
    }
    Ok(())
}

fn report(released: &Released) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for machine in &released.machines {
        let _ = writeln!(out, "hooks removed: Machine {machine}");
    }
    for member in &released.members {
        let _ = writeln!(out, "enabled: load balancer member {member}");
    }
    let _ = writeln!(
        out,
        "Machines released: {}, members enabled: {}, failures: {}",
        released.machines.len(),
        released.members.len(),
        released.failed.len()
    );
    for failure in &released.failed {
        super::complain(failure);
    }
    if released.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

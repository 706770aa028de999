//! `release-hooks`: the way back for whoever takes capo-rs away without `--load-balancer-gate=off`.

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Arc};

use clap::Args;
use kube::Client;

use crate::{
    controllers::release_hooks::{Released, release},
    manager::{
        connect,
        leader::{LEASE_NAME, Leader, leader},
        namespace_or_own,
    },
};
use capo_openstack::{ClientSettings, Clouds, LeaseToken, NoObserver};

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Kubeconfig file; without it the Pod's own ServiceAccount is used
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Only in this namespace; in all of them if empty
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
    /// PEM file of authorities to trust where a clouds.yaml Secret has no cacert
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "FILE"
    )]
    ca_certs: String,
}

/// Releases, and tells what was done and what was not.
pub(super) fn run(choices: &Choices) -> ExitCode {
    match super::wait_for(released(choices)) {
        Ok(released) => tell(&released),
        Err(error) => {
            super::complain(&error);
            ExitCode::FAILURE
        }
    }
}

async fn released(choices: &Choices) -> Result<Released, String> {
    let clouds = clouds(&choices.ca_certs)?;
    let client = connect(choices.kubeconfig.as_deref()).await?;
    nobody_enforces(&client, choices).await?;
    let namespace = Some(choices.namespace.as_str()).filter(|name| !name.is_empty());
    Ok(release(&client, &clouds, namespace).await)
}

fn clouds(ca_certs: &str) -> Result<Clouds, String> {
    let trusted = match ca_certs {
        "" => None,
        path => Some(
            std::fs::read_to_string(path).map_err(|error| format!("--ca-certs {path}: {error}"))?,
        ),
    };
    let settings = ClientSettings {
        ca_certs: trusted,
        ..ClientSettings::default()
    };
    settings
        .validate()
        .map_err(|error| format!("--ca-certs {ca_certs}: {error}"))?;
    Ok(Clouds::new(
        settings,
        LeaseToken::unlimited(),
        Arc::new(NoObserver),
    ))
}

/// A manager that enforces the gate would put every hook back within seconds.
async fn nobody_enforces(client: &Client, choices: &Choices) -> Result<(), String> {
    let namespace = namespace_or_own(&choices.leader_elect_resource_namespace);
    let lease = format!("{namespace}/{LEASE_NAME}");
    match leader(client.clone(), &namespace).await {
        Ok(None) => super::complain_softly(&format!(
            "nobody holds the lease {lease}. A manager that runs without --leader-elect would put the hooks back"
        )),
        Ok(Some(Leader {
            identity,
            mode: Some(mode),
        })) if mode == "enforce" => {
            return Err(format!(
                "{identity} holds the lease {lease} and enforces the load balancer gate: it would put the hooks back at once. \
                 Stop it first, as with `kubectl --namespace {namespace} scale deployment capo-controller-manager \
                 --replicas=0`, or start it with --load-balancer-gate=off, which takes the hooks off by itself"
            ));
        }
        Ok(Some(Leader { identity, mode })) => super::complain_softly(&format!(
            "{identity} holds the lease {lease} {}",
            mode.map_or_else(
                || "and does not say how it acts on the gate: if it is capo-rs, it may put the hooks back".to_owned(),
                |mode| format!("with --load-balancer-gate={mode}, and puts no hook back")
            )
        )),
        Err(error) => super::complain_softly(&format!(
            "the lease {lease} can't be read: {error}. A manager that enforces the load balancer gate would put the hooks back"
        )),
    }
    Ok(())
}

fn tell(released: &Released) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for machine in &released.machines {
        let _ = writeln!(out, "hooks taken off: Machine {machine}");
    }
    for member in &released.members {
        let _ = writeln!(out, "let in: load balancer member {member}");
    }
    let _ = writeln!(
        out,
        "Machines released: {}, members let in: {}, failures: {}",
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

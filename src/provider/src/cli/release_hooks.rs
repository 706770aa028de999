//! `release-hooks`: removes the deletion hooks before capo-rs is uninstalled, without `--load-balancer-gate=off`.

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Arc};

use clap::Args;
use kube::Client;

use crate::{
    kubernetes::{
        connect,
        leader::{Holder, LEASE_NAME, Leader, holder},
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
    /// Also beside a manager that would add the hooks again, and where the lease can't be read
    #[arg(long)]
    force: bool,
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
/// seconds, and while it is unknown which manager leads. With `--force` either is a warning.
async fn check_no_leader_enforces(client: &Client, choices: &Choices) -> Result<(), String> {
    let namespace = namespace_or_own(&choices.leader_elect_resource_namespace);
    let lease = format!("{namespace}/{LEASE_NAME}");
    let found = holder(client.clone(), &namespace, |leader, duration| {
        super::warn(&format!(
            "{} seems not to have renewed the lease {lease}. It is watched for {} s, because the clocks may differ",
            leader.identity,
            duration.as_secs()
        ));
    })
    .await;
    match verdict(found, &lease, &namespace) {
        Ok(text) => super::warn(&text),
        Err(text) if choices.force => super::warn(&text),
        Err(text) => return Err(text),
    }
    Ok(())
}

/// What to warn of before the command goes on, or why it refuses.
fn verdict(
    found: Result<Holder, kube::Error>,
    lease: &str,
    namespace: &str,
) -> Result<String, String> {
    match found {
        Ok(Holder::Nobody) => Ok(format!(
            "the lease {lease} has no holder; a manager that runs without --leader-elect would add the hooks again"
        )),
        Ok(Holder::Expired(Leader { identity, .. })) => Ok(format!(
            "{identity} holds the lease {lease} and has stopped renewing it; a manager that starts again may add the hooks again"
        )),
        Ok(Holder::Leads(Leader {
            identity,
            mode: Some(mode),
        })) if mode == GateMode::Enforce.as_str() => Err(format!(
            "{identity} holds the lease {lease} and enforces the load balancer gate: it would add the hooks again at once. \
             Stop it first, as with `kubectl --namespace {namespace} scale deployment capo-controller-manager \
             --replicas=0`, or start it with --load-balancer-gate=off, which removes the hooks by itself"
        )),
        Ok(Holder::Leads(Leader { identity, mode })) => Ok(format!(
            "{identity} holds the lease {lease} {}",
            mode.map_or_else(
                || "and does not record a gate mode: if it is capo-rs, it may add the hooks again"
                    .to_owned(),
                |mode| format!("with --load-balancer-gate={mode}, which adds no hooks")
            )
        )),
        Err(error) => Err(format!(
            "the lease {lease} can't be read: {error}. A manager that enforces the load balancer gate may hold it, and would \
             add the hooks again at once. --force removes the hooks nevertheless"
        )),
    }
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

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan as _};
    use serde_json::json;

    use super::{Choices, check_no_leader_enforces};
    use crate::kubernetes::leader::lease_server::{LeaseServer, Treatment};

    fn choices() -> Choices {
        Choices {
            kubeconfig: None,
            namespace: String::new(),
            leader_elect_resource_namespace: "n".to_owned(),
            ca_certs: String::new(),
            force: false,
        }
    }

    fn lease(holder: &str, renewed: Timestamp) -> serde_json::Value {
        json!({
            "metadata": {"name": "controller-leader-election-capo", "namespace": "n", "annotations":
                {"infrastructure.cluster.x-k8s.io/load-balancer-gate-mode": format!("enforce {holder}")}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed.to_string()},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn it_refuses_while_the_lease_cannot_be_read() {
        let server = LeaseServer::default();
        server.treats(Treatment::AllFail);
        let mut choices = choices();
        let checked = check_no_leader_enforces(&server.client(), &choices).await;
        assert!(checked.unwrap_err().contains("can't be read"));
        choices.force = true;
        let checked = check_no_leader_enforces(&server.client(), &choices).await;
        assert_eq!(checked, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn it_refuses_beside_a_manager_whose_clock_is_behind() {
        let server = LeaseServer::default();
        let now = Timestamp::now();
        server.put(lease("m", now - 20.seconds()));
        server.renews_after_a_read(&(now - 18.seconds()).to_string());
        let checked = check_no_leader_enforces(&server.client(), &choices()).await;
        assert!(checked.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_after_a_manager_that_was_killed_or_has_released_the_lease() {
        for holder in ["m", ""] {
            let server = LeaseServer::default();
            server.put(lease(holder, Timestamp::now() - 20.seconds()));
            let checked = check_no_leader_enforces(&server.client(), &choices()).await;
            assert_eq!(checked, Ok(()), "{holder}");
        }
    }
}

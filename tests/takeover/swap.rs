//! The swaps from CAPO to capo-rs and back, with the steps of `docs/migrate-from-capo.md`.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
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
use serde_json::Value;
use test_support::{
    env::{Capo, Error, Guarded, Installation, capo::WEBHOOKS, manager, programs},
    migration_page::{RUN_ON_CLUSTERS, block},
};

/// Ends a manager as a Deployment that is scaled to zero does: in order, or by force after 10 s.
pub(crate) fn stop(mut process: Guarded) {
    process.signal("TERM").unwrap();
    // Dropping it kills it.
    let _ = process.wait(Duration::from_secs(10));
}

/// Removes CAPO's webhooks. Their entries would otherwise stay beside ours and point at a manager that does not run any
/// more.
pub(crate) async fn remove_webhooks(client: &Client) -> Result<(), Error> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    api.delete(WEBHOOKS, &DeleteParams::default()).await?;
    Ok(())
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

/// `capo-rs migrate-storage --to=v1beta1`, while a manager of ours converts.
pub(crate) async fn store_v1beta1(kubeconfig: &Path) -> Result<(), Error> {
    let output = command(&["migrate-storage", "--to=v1beta1"], kubeconfig).await?;
    ended_well("migrate-storage", &output)
}

/// What `capo-rs plan` printed.
pub(crate) struct Planned {
    pub code: Option<i32>,
    pub plan: Value,
    pub complaints: String,
}

/// The home folder in which an operator runs the commands of the page.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn make(logs: &Path, kubeconfig: &Path) -> Result<Self, Error> {
        let home = logs.join("home");
        std::fs::create_dir_all(home.join("bin"))?;
        std::fs::create_dir_all(home.join(".kube"))?;
        symlink(manager::binary(), home.join("bin/capo-rs"))?;
        symlink(programs::kubectl()?, home.join("bin/kubectl"))?;
        symlink(kubeconfig, home.join(".kube/config"))?;
        Ok(Self(home))
    }

    /// Runs a block of the page, with more arguments for its last command, beside the fake clouds of this process.
    async fn run(&self, name: &str, more: &str) -> Result<Output, Error> {
        assert!(RUN_ON_CLUSTERS.contains(&name), "{name}");
        self.bash(format!("{}{more}", block(name).trim_end())).await
    }

    async fn bash(&self, commands: String) -> Result<Output, Error> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &commands])
            .current_dir(&self.0)
            .env("HOME", &self.0)
            .env_remove("KUBECONFIG")
            .env("PATH", format!("{}:{path}", self.0.join("bin").display()));
        Ok(tokio::task::spawn_blocking(move || bash.output()).await??)
    }

    /// `capo-rs plan` with the gate in `observe`.
    pub(crate) async fn plan(&self) -> Result<Planned, Error> {
        let output = self.run("plan", " --output=json").await?;
        Ok(Planned {
            code: output.status.code(),
            plan: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            complaints: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// What `capo-rs preflight` found.
    pub(crate) async fn preflight(&self) -> Result<Value, Error> {
        let output = self.run("preflight", " --output=json").await?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            let complaints = String::from_utf8_lossy(&output.stderr);
            let status = output.status;
            format!("preflight ended with {status}: {error}: {complaints}").into()
        })
    }

    /// The output of the commands with which an operator checks this cluster after the swap.
    pub(crate) async fn verify(&self, cluster: &str) -> Result<String, Error> {
        let of_cluster = format!("status {cluster} --namespace {cluster}");
        let commands = block("verify").replace("status CLUSTER --namespace NAMESPACE", &of_cluster);
        let output = self.bash(commands).await?;
        ended_well("verify", &output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The findings of `capo-rs preflight` about the objects of a namespace that are more than a note.
pub(crate) fn problems(report: &Value, namespace: &str) -> Vec<String> {
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let theirs = findings.iter().filter(|finding| {
        let about = finding["about"].as_str().unwrap_or_default();
        about.contains(&format!(" {namespace}/")) && finding["level"] != "note"
    });
    theirs.map(ToString::to_string).collect()
}

impl Planned {
    /// The changes that the plan lists for the objects of a namespace, and the objects whose changes it does not know.
    pub(crate) fn of(&self, namespace: &str) -> Vec<String> {
        let objects = self.plan["objects"].as_array().cloned().unwrap_or_default();
        let theirs = objects
            .iter()
            .filter(|object| object["namespace"] == namespace);
        let changed = theirs.filter(|object| {
            let none = |list: &str| object[list].as_array().is_some_and(Vec::is_empty);
            let known = ["judged", "waiting"]
                .contains(&object["result"]["state"].as_str().unwrap_or_default());
            !(none("openstack") && none("kubernetes") && known)
        });
        changed.map(ToString::to_string).collect()
    }
}

/// Runs a command of ours to its end, beside the fake clouds of this process.
async fn command(arguments: &[&str], kubeconfig: &Path) -> Result<Output, Error> {
    let mut command = Command::new(manager::binary());
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
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

/// Replaces our definitions and webhooks by those of CAPO.
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

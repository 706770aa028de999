//! The arguments of the installed managers. capo-rs needs those that select objects, and `preflight` has to read the
//! same objects.

use std::ffi::OsString;

use clap::Parser;
use kube::{
    Api, Client,
    api::{ApiResource, ListParams},
    core::{NotUsed, Object},
};
use serde::Deserialize;

use super::finding::{About, Code, Level};
use crate::{
    manager::{Settings, settings::normalise},
    reconcile::{kubernetes_text, name_of},
};

/// The label of the Deployment in CAPO's releases. The Deployment of capo-rs has it too.
const LABEL: &str = "control-plane=capo-controller-manager";
/// The arguments of the Deployments in CAPO's releases. The Deployment of capo-rs does not need them. The value of the
/// last one is set when CAPO is installed, and has no effect in capo-rs.
const RELEASE_ARGUMENTS: [&str; 5] = [
    "--leader-elect",
    "--v=2",
    "--diagnostics-address=127.0.0.1:8080",
    "--insecure-diagnostics=true",
    "--feature-gates=",
];

/// The managers, or why they can't be read.
pub(super) type Managers = Result<Vec<Manager>, String>;

/// One Deployment of a manager.
#[derive(Debug, Clone)]
pub(super) struct Manager {
    /// Namespace and name.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

/// Which objects a manager works on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// All namespaces if empty.
    namespace: String,
    /// The value of the watch-filter label; every object if empty.
    watch_filter: String,
}

impl Reach {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            namespace: settings.namespace.clone(),
            watch_filter: settings.watch_filter.clone(),
        }
    }

    /// The objects, by the flags that select them.
    fn objects(&self) -> String {
        let flags = [
            ("--namespace", &self.namespace),
            ("--watch-filter", &self.watch_filter),
        ];
        let given = flags.into_iter().filter(|(_, value)| !value.is_empty());
        let given: Vec<String> = given
            .map(|(flag, value)| format!("{flag}={value}"))
            .collect();
        match given.as_slice() {
            [] => "all objects".to_owned(),
            given => format!("the objects of {}", given.join(" ")),
        }
    }
}

/// A Deployment with nothing but the arguments of its containers: the generated types of a whole Pod would make the
/// program several hundred kB larger.
type Deployment = Object<DeploymentSpec, NotUsed>;

#[derive(Debug, Clone, Deserialize)]
struct DeploymentSpec {
    template: PodTemplate,
}

#[derive(Debug, Clone, Deserialize)]
struct PodTemplate {
    spec: PodSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Debug, Clone, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    args: Vec<String>,
}

/// Reads the Deployments of managers in all namespaces.
pub(super) async fn read(client: &Client) -> Managers {
    let kind = ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&());
    let deployments: Api<Deployment> = Api::all_with(client.clone(), &kind);
    let listed = deployments.list(&ListParams::default().labels(LABEL)).await;
    let listed =
        listed.map_err(|error| format!("reading Deployments: {}", kubernetes_text(&error)))?;
    Ok(listed.items.into_iter().map(Manager::from).collect())
}

impl From<Deployment> for Manager {
    fn from(deployment: Deployment) -> Self {
        let name = name_of(&deployment).to_string();
        let containers = deployment.spec.template.spec.containers;
        let manager = containers
            .into_iter()
            .find(|container| container.name == "manager");
        Self {
            name,
            arguments: manager.map(|manager| manager.args).unwrap_or_default(),
        }
    }
}

/// The manager's flags without commands.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, args_override_self = true)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

impl Manager {
    /// Which objects it works on, or the argument that capo-rs does not know.
    fn reach(&self) -> Result<Reach, String> {
        let arguments = self.arguments.iter().map(OsString::from);
        match Flags::try_parse_from(normalise(arguments)) {
            Ok(flags) => Ok(Reach::of(&flags.settings)),
            Err(error) => Err(error
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned()),
        }
    }

    /// The arguments that are not among those of a release.
    fn own_arguments(&self) -> Vec<&str> {
        let arguments = self.arguments.iter().map(String::as_str);
        arguments
            .filter(|argument| {
                !RELEASE_ARGUMENTS.iter().any(|known| {
                    argument == known || (known.ends_with('=') && argument.starts_with(known))
                })
            })
            .collect()
    }
}

/// What the arguments of the managers mean for this run and for an installation of capo-rs.
pub(super) fn assess(managers: &Managers, reach: &Reach, about: &mut About<'_>) {
    let code = Code::ManagerArguments;
    let managers = match managers {
        Ok(managers) => managers,
        Err(error) => {
            about.find(
                Level::Unknown,
                code,
                format!("{error}: whether a manager runs with --namespace or --watch-filter is not known"),
            );
            return;
        }
    };
    let looked_at = managers
        .iter()
        .any(|manager| manager.reach().as_ref() == Ok(reach));
    for manager in managers {
        let name = &manager.name;
        match manager.reach() {
            Err(unknown) => about.find(
                Level::Problem,
                code,
                format!("an argument of Deployment {name} is none of capo-rs: {unknown}"),
            ),
            Ok(of_manager) if of_manager != *reach => about.find(
                if looked_at { Level::Note } else { Level::Problem },
                code,
                format!(
                    "Deployment {name} works on {}, and this run looked at {}: run preflight and plan \
                     with its flags too",
                    of_manager.objects(),
                    reach.objects()
                ),
            ),
            Ok(_) => {}
        }
        let own = manager.own_arguments();
        if !own.is_empty() {
            about.find(
                Level::Note,
                code,
                format!(
                    "Deployment {name} has arguments of its own, {}: give each to `capo-rs manifests` with --arg, and the \
                     namespace with --watch-namespace, so that the manager of capo-rs has them too",
                    own.join(" ")
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests;

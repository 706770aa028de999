//! The manifests of an installation: the files of `deploy/`, with the chosen settings filled in.

mod edit;
mod manager;
mod monitoring;
mod namespaced;
mod network_policy;
mod options;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::crds::{DefinitionsError, StorageVersion};
use crate::manager::NAMESPACE;
use edit::{edit, insert};
use options::{Quantity, Toleration};

/// The image that `deploy/` names.
const IMAGE: &str = "ghcr.io/capo-rs/capo-rs:dev";
/// The version of the release that the program was built for, if it was built for one.
const RELEASE: Option<&str> = option_env!("CAPO_RS_VERSION");
/// The replicas of the manager in `deploy/`.
const REPLICAS: u32 = 2;

/// Roles that become part of the built-in roles with `--with=aggregated-roles`.
const AGGREGATED: [(&str, &str); 2] = [
    (
        "capo-viewer-role",
        "rbac.authorization.k8s.io/aggregate-to-view",
    ),
    (
        "capo-editor-role",
        "rbac.authorization.k8s.io/aggregate-to-edit",
    ),
];

/// What is printed besides the manager itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Extra {
    /// The custom resource definitions, first: the one file of a clusterctl release
    Crds,
    /// The roles for users as part of the built-in roles view and edit
    AggregatedRoles,
    /// A PodMonitor, the alerts and the boards
    Monitoring,
    /// The connections that the manager may accept and open
    #[value(name = "networkpolicy")]
    NetworkPolicy,
    /// Configuration and rights for kube-state-metrics
    KubeStateMetrics,
    /// The rights that --cluster-operator-name needs
    ClusterOperator,
}

/// When the kubelet pulls the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum PullPolicy {
    /// At every start
    Always,
    /// Where the node does not have it
    IfNotPresent,
    /// Not at all
    Never,
}

/// The options of `manifests`.
#[derive(Debug, Clone, Args)]
pub struct Choices {
    /// Namespace of the manager
    #[arg(long, default_value = NAMESPACE)]
    namespace: String,
    /// Image of the manager
    #[arg(long, default_value_t = image_of(RELEASE))]
    image: String,
    /// When the image is pulled; by default as Kubernetes decides by the image's tag
    #[arg(long, value_enum, value_name = "POLICY")]
    image_pull_policy: Option<PullPolicy>,
    /// Replicas of the manager; one leads, and all serve the webhooks
    #[arg(long, default_value_t = REPLICAS, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,
    /// Processor time that the manager requests, such as 100m
    #[arg(long, value_name = "QUANTITY")]
    cpu_request: Option<Quantity>,
    /// Memory that the manager requests, such as 128Mi
    #[arg(long, value_name = "QUANTITY")]
    memory_request: Option<Quantity>,
    /// Memory that the manager may use at most, such as 512Mi
    #[arg(long, value_name = "QUANTITY")]
    memory_limit: Option<Quantity>,
    #[arg(
        long,
        value_name = "TAINT",
        help = "A taint to tolerate besides those of control-plane nodes: KEY[=VALUE][:EFFECT]"
    )]
    toleration: Vec<Toleration>,
    /// A further flag of the manager, such as --arg=--load-balancer-gate=observe
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    arg: Vec<String>,
    /// Reconcile this namespace only, which must exist, with rights in this namespace instead of in all
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Option<String>,
    /// Leave out the objects of cert-manager. The Secret capo-webhook-service-cert must then come from elsewhere, with
    /// tls.crt and tls.key for capo-webhook-service.NAMESPACE.svc
    #[arg(long, requires = "webhook_ca")]
    without_cert_manager: bool,
    /// PEM file of the authority that signed the webhooks' certificate, without cert-manager
    #[arg(long, value_name = "FILE", requires = "without_cert_manager")]
    webhook_ca: Option<PathBuf>,
    /// Ports of the OpenStack services that the NetworkPolicy of --with=networkpolicy lets the manager reach; by
    /// default 5000, 8774, 9696, 9876, 9292, 8776, and 443 always
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    openstack_port: Vec<u16>,
    /// Ports of this and the workload clusters' Kubernetes APIs that the NetworkPolicy of --with=networkpolicy lets the
    /// manager reach; by default 6443, and 443 always
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    kubernetes_port: Vec<u16>,
    /// Print more than the manager itself needs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    with: Vec<Extra>,
    /// Version in which objects are stored, with --with=crds; v1beta1 leaves the way back to CAPO 0.14 open without a
    /// migration
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = StorageVersion::V1beta2, requires = "with")]
    storage_version: StorageVersion,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            image: image_of(RELEASE),
            image_pull_policy: None,
            replicas: REPLICAS,
            cpu_request: None,
            memory_request: None,
            memory_limit: None,
            toleration: Vec::new(),
            arg: Vec::new(),
            watch_namespace: None,
            without_cert_manager: false,
            webhook_ca: None,
            openstack_port: Vec::new(),
            kubernetes_port: Vec::new(),
            with: Vec::new(),
            storage_version: StorageVersion::V1beta2,
        }
    }
}

/// The image that belongs to a program of this release.
fn image_of(release: Option<&str>) -> String {
    match (release, IMAGE.rsplit_once(':')) {
        (Some(version), Some((repository, _))) => format!("{repository}:v{version}"),
        _ => IMAGE.to_owned(),
    }
}

/// Why manifests can't be printed.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The definitions can't be made from the types.
    #[error("the definitions can't be written: {0}")]
    Definitions(#[from] DefinitionsError),
    /// A shipped file is no YAML.
    #[error("a shipped manifest can't be read: {0}")]
    Read(#[from] serde_saphyr::Error),
    /// An edited document can't be written.
    #[error("an edited manifest can't be written: {0}")]
    Write(#[from] serde_saphyr::SerializeError),
    /// The file of `--webhook-ca` can't be read.
    #[error("--webhook-ca {path}: {source}")]
    AuthorityUnreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file of `--webhook-ca` holds no certificate.
    #[error("--webhook-ca {0}: the file holds no PEM certificate")]
    AuthorityNotPem(PathBuf),
    /// A flag that the manager does not accept.
    #[error("--arg: {0}")]
    Flag(String),
    /// Options that contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

/// All documents, as one YAML stream. The order of the options does not matter.
///
/// # Errors
/// Which option can't be used, and why.
pub fn yaml(choices: &Choices) -> Result<String, ManifestError> {
    let settings = manager::check(choices)?;
    let authority = authority(choices)?;
    let with = |extra: Extra| choices.with.contains(&extra);
    let mut files = vec![
        include_str!("../../../../../deploy/namespace.yaml"),
        include_str!("../../../../../deploy/rbac.yaml"),
        include_str!("../../../../../deploy/certificate.yaml"),
        include_str!("../../../../../deploy/webhooks.yaml"),
        include_str!("../../../../../deploy/deployment.yaml"),
    ];
    if choices.without_cert_manager {
        files.remove(2);
    }
    for (extra, file) in [
        (
            Extra::NetworkPolicy,
            include_str!("../../../../../deploy/network-policy.yaml"),
        ),
        (
            Extra::KubeStateMetrics,
            include_str!("../../../../../deploy/kube-state-metrics.yaml"),
        ),
        (
            Extra::ClusterOperator,
            include_str!("../../../../../deploy/cluster-operator.yaml"),
        ),
    ] {
        if with(extra) {
            files.push(file);
        }
    }
    let mut text = files.join("---\n");
    if with(Extra::Monitoring) {
        text = format!("{text}---\n{}", monitoring::yaml());
    }
    let text = text
        .replace(NAMESPACE, &choices.namespace)
        .replace(IMAGE, &choices.image);
    let mut documents: Vec<String> = text.split("---\n").map(str::to_owned).collect();
    manager::fill_in(&mut documents, choices, &settings)?;
    network_policy::fill_in(&mut documents, choices)?;
    if with(Extra::AggregatedRoles) {
        for (role, label) in AGGREGATED {
            edit(&mut documents, "ClusterRole", role, |role| {
                insert(role, &["metadata", "labels"], label, "true".into());
            })?;
        }
    }
    if let Some(namespace) = &choices.watch_namespace {
        namespaced::restrict(&mut documents, namespace, &choices.namespace)?;
    }
    if let Some(authority) = &authority {
        edit::trust(&mut documents, authority)?;
    }
    if with(Extra::Crds) {
        let definitions =
            super::crds::yaml_in(&choices.namespace, authority, choices.storage_version)?;
        documents.insert(0, definitions);
    }
    Ok(documents.join("---\n"))
}

/// The certificate authority of the webhooks in PEM, if cert-manager does not fill it in.
fn authority(choices: &Choices) -> Result<Option<String>, ManifestError> {
    let Some(path) = &choices.webhook_ca else {
        return Ok(None);
    };
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|source| ManifestError::AuthorityUnreadable {
        path: path.clone(),
        source,
    })?;
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        return Err(ManifestError::AuthorityNotPem(path.clone()));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_program_names_the_image_of_its_version() {
        assert_eq!(image_of(Some("1.0.0")), "ghcr.io/capo-rs/capo-rs:v1.0.0");
        assert_eq!(image_of(None), IMAGE);
        assert!(include_str!("../../../../../deploy/deployment.yaml").contains(IMAGE));
    }
}

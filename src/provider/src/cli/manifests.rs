//! What a deployment takes: the files of `deploy/`, with namespace and image filled in.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use crate::manager::NAMESPACE;

/// The image that `deploy/` names.
const IMAGE: &str = "ghcr.io/capo-rs/capo-rs:dev";

/// The files in the order in which they must be applied.
const FILES: &[&str] = &[
    include_str!("../../../../deploy/namespace.yaml"),
    include_str!("../../../../deploy/rbac.yaml"),
    include_str!("../../../../deploy/certificate.yaml"),
    include_str!("../../../../deploy/webhooks.yaml"),
    include_str!("../../../../deploy/deployment.yaml"),
];

/// Alerts and recording rules.
const RULES: &str = include_str!("../../../../dashboards/rules.yaml");

/// The boards, by name.
const BOARDS: [(&str, &str); 3] = [
    (
        "capo-rollout-gate",
        include_str!("../../../../dashboards/capo-rollout-gate.json"),
    ),
    (
        "capo-openstack-api",
        include_str!("../../../../dashboards/capo-openstack-api.json"),
    ),
    (
        "capo-controller",
        include_str!("../../../../dashboards/capo-controller.json"),
    ),
];

/// What may come along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Extra {
    /// The custom resource definitions, first: the one file of a clusterctl release
    Crds,
    /// A PodMonitor, the alerts and the boards
    Monitoring,
    /// Who may reach the manager, and whom it may reach
    #[value(name = "networkpolicy")]
    NetworkPolicy,
    /// Configuration and rights for kube-state-metrics
    KubeStateMetrics,
    /// The rights that --cluster-operator-name needs
    ClusterOperator,
}

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub struct Choices {
    /// Namespace of the manager
    #[arg(long, default_value = NAMESPACE)]
    namespace: String,
    /// Image of the manager
    #[arg(long, default_value = IMAGE)]
    image: String,
    /// Print more than the manager itself needs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    with: Vec<Extra>,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            with: Vec::new(),
        }
    }
}

/// All documents, as one YAML stream, in the same order however the choices are ordered.
///
/// # Errors
/// Never with the types as they are.
pub fn yaml(choices: &Choices) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let mut texts: Vec<String> = FILES.iter().map(|&file| file.to_owned()).collect();
    let mut extras = choices.with.clone();
    extras.sort_unstable();
    extras.dedup();
    for extra in extras {
        match extra {
            Extra::Crds => texts.insert(0, super::crds::yaml_in(NAMESPACE)?),
            Extra::Monitoring => texts.push(monitoring()),
            Extra::NetworkPolicy => {
                texts.push(include_str!("../../../../deploy/network-policy.yaml").to_owned());
            }
            Extra::KubeStateMetrics => {
                texts.push(include_str!("../../../../deploy/kube-state-metrics.yaml").to_owned());
            }
            Extra::ClusterOperator => {
                texts.push(include_str!("../../../../deploy/cluster-operator.yaml").to_owned());
            }
        }
    }
    Ok(texts
        .join("---\n")
        .replace(NAMESPACE, &choices.namespace)
        .replace(IMAGE, &choices.image))
}

/// How Prometheus scrapes, and what it and Grafana make of it.
fn monitoring() -> String {
    let mut text = include_str!("../../../../deploy/monitoring.yaml").to_owned();
    let head = |api: &str, kind: &str, name: &str, label: &str| {
        format!(
            "---\napiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {NAMESPACE}\n  labels:\n    \
             cluster.x-k8s.io/provider: infrastructure-openstack\n{label}"
        )
    };
    text += &head(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        "capo-rules",
        "",
    );
    let _ = write!(text, "spec:\n{}", indented(RULES, 2));
    for (name, board) in BOARDS {
        // The label is what Grafana's usual sidecar looks for.
        text += &head("v1", "ConfigMap", name, "    grafana_dashboard: \"1\"\n");
        let _ = write!(text, "data:\n  {name}.json: |\n{}", indented(board, 4));
    }
    text
}

fn indented(text: &str, by: usize) -> String {
    let mut indented = String::with_capacity(text.len() * 3 / 2);
    for line in text.lines() {
        let by = if line.is_empty() { 0 } else { by };
        let _ = writeln!(indented, "{:by$}{line}", "");
    }
    indented
}

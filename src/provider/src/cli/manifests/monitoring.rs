//! How Prometheus scrapes the manager, with the alerts and the boards.

use std::fmt::Write as _;

use crate::manager::NAMESPACE;

/// Alerts and recording rules.
const RULES: &str = include_str!("../../../../../dashboards/rules.yaml");

/// The boards, by name.
const BOARDS: [(&str, &str); 3] = [
    (
        "capo-rollout-gate",
        include_str!("../../../../../dashboards/capo-rollout-gate.json"),
    ),
    (
        "capo-openstack-api",
        include_str!("../../../../../dashboards/capo-openstack-api.json"),
    ),
    (
        "capo-controller",
        include_str!("../../../../../dashboards/capo-controller.json"),
    ),
];

/// The PodMonitor, the alerts as a PrometheusRule, and the boards as ConfigMaps.
pub(super) fn yaml() -> String {
    let mut text = include_str!("../../../../../deploy/monitoring.yaml").to_owned();
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
        // Grafana's usual sidecar selects ConfigMaps by this label.
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

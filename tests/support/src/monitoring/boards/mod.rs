//! The boards of `dashboards/`: their content, and how it becomes Grafana's JSON.
//!
//! In queries `S` stands for the matchers of job and instance, `W` for those and the chosen clusters, `C` for
//! `S` and the chosen clouds, `$M` for the labels of a member, `$K` for those of a gate.

mod controller;
mod openstack_api;
mod panel;
mod rollout_gate;

use serde_json::{Value, json};

pub use panel::{Panel, Query};

/// A board.
pub struct Board {
    /// The name of the file, and the permanent uid of the board in Grafana.
    pub uid: &'static str,
    title: &'static str,
    description: &'static str,
    /// The variables besides data source, job and instance.
    variables: Vec<Value>,
    annotations: Vec<Value>,
    /// The panels from left to right and from top to bottom.
    pub panels: Vec<Panel>,
}

/// Every board.
pub fn all() -> [Board; 3] {
    [
        rollout_gate::board(),
        openstack_api::board(),
        controller::board(),
    ]
}

const DATA_SOURCE: &str = "${datasource}";

fn data_source() -> Value {
    json!({"type": "prometheus", "uid": DATA_SOURCE})
}

/// The query without abbreviations.
fn expanded(query: &str) -> String {
    const SELF: &str = r#"job=~"$job",instance=~"$instance""#;
    let clusters = format!(r#"{SELF},cluster_namespace=~"$ns",cluster_name=~"$wc""#);
    let clouds = format!(r#"{SELF},cloud=~"$cloud""#);
    query
        .replace("{W", &format!("{{{clusters}"))
        .replace("{C", &format!("{{{clouds}"))
        .replace("{S", &format!("{{{SELF}"))
        .replace("$M", "cluster_namespace, cluster_name, machine, port")
        .replace("$K", "cluster_namespace, cluster_name, gate")
        .replace("[R]", "[$__rate_interval]")
}

/// A query as Grafana sends it if every choice is selected, with this interval for rates and this range of time.
pub fn filled_in(query: &str, rate_interval: &str, range_seconds: f64) -> String {
    ["$job", "$instance", "$ns", "$wc", "$cloud"]
        .iter()
        .fold(query.to_owned(), |query, variable| {
            query.replace(&format!("\"{variable}\""), "\".+\"")
        })
        .replace("$__rate_interval", rate_interval)
        .replace("$__range", &format!("{range_seconds:.0}s"))
}

/// A variable that offers the values of a label.
fn variable(name: &str, label: &str, of: &str) -> Value {
    let query = format!("label_values({of}, {name})");
    json!({
        "name": name, "label": label, "type": "query", "hide": 0, "skipUrlSync": false,
        "datasource": data_source(), "query": {"query": query, "refId": "Variable"},
        "multi": true, "includeAll": true, "allValue": ".+", "current": {"text": ["All"], "value": ["$__all"]},
        "options": [], "regex": "", "refresh": 2, "sort": 1,
    })
}

fn annotation(name: &str, colour: &str, query: &str, title: &str) -> Value {
    json!({
        "name": name, "datasource": data_source(), "enable": true, "hide": false, "iconColor": colour,
        "expr": expanded(query), "titleFormat": title, "step": "1m",
    })
}

impl Board {
    /// The JSON that Grafana imports.
    pub fn json(&self) -> Value {
        let mut variables = vec![
            json!({
                "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0,
                "current": {"text": "default", "value": "default"}, "options": [], "regex": "", "refresh": 1, "skipUrlSync": false,
                "multi": false, "includeAll": false,
            }),
            variable("job", "Job", "capo_build_info"),
            variable("instance", "Instance", r#"capo_build_info{job=~"$job"}"#),
        ];
        variables.extend(self.variables.iter().cloned());
        let links: Vec<Value> = [
            ("capo-rollout-gate", "Rollout gates"),
            ("capo-openstack-api", "OpenStack API"),
            ("capo-controller", "Controller"),
        ]
        .into_iter()
        .filter(|(uid, _)| *uid != self.uid)
        .map(|(uid, title)| {
            json!({
                "title": title, "type": "link", "url": format!("/d/{uid}"), "icon": "dashboard", "tooltip": "",
                "tags": [], "asDropdown": false, "targetBlank": false, "includeVars": true, "keepTime": true,
            })
        })
        .collect();
        json!({
            "uid": self.uid, "title": self.title, "description": self.description, "schemaVersion": 42, "version": 1,
            "tags": ["capi", "openstack"], "editable": false, "graphTooltip": 1, "timezone": "utc", "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"}, "timepicker": {}, "fiscalYearStartMonth": 0, "preload": false,
            "links": links, "annotations": {"list": self.annotations}, "templating": {"list": variables},
            "panels": self.laid_out(),
        })
    }

    /// The queries of the board's annotations.
    pub fn queries_of_annotations(&self) -> Vec<String> {
        let queries = self.annotations.iter().map(|one| &one["expr"]);
        queries
            .filter_map(|query| query.as_str().map(str::to_owned))
            .collect()
    }

    fn laid_out(&self) -> Vec<Value> {
        let (mut x, mut y, mut row) = (0, 0, 0);
        let mut laid = Vec::new();
        for (index, panel) in self.panels.iter().enumerate() {
            let (width, height) = panel.size;
            if x + width > 24 {
                (x, y, row) = (0, y + row, 0);
            }
            laid.push(panel.json(index + 1, json!({"x": x, "y": y, "w": width, "h": height})));
            x += width;
            row = row.max(height);
        }
        laid
    }
}

//! One panel, and its JSON.

use serde_json::{Value, json};

use super::{data_source, expanded};

/// A panel.
pub struct Panel {
    pub title: &'static str,
    description: &'static str,
    kind: &'static str,
    unit: &'static str,
    pub(super) size: (u32, u32),
    pub queries: Vec<Query>,
    defaults: Value,
    overrides: Vec<Value>,
    options: Value,
    transformations: Vec<Value>,
}

/// A query of a panel.
pub struct Query {
    /// The expression, without abbreviations.
    pub expression: String,
    legend: &'static str,
}

impl Panel {
    fn new(
        kind: &'static str,
        size: (u32, u32),
        title: &'static str,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            title,
            description,
            kind,
            unit,
            size,
            queries: Vec::new(),
            defaults: json!({}),
            overrides: Vec::new(),
            options: json!({}),
            transformations: Vec::new(),
        }
    }

    /// One number, or one per series.
    pub(super) fn stat(title: &'static str, unit: &'static str, description: &'static str) -> Self {
        let mut panel = Self::new("stat", (4, 4), title, unit, description);
        panel.options = json!({
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false}, "orientation": "auto",
            "textMode": "auto", "colorMode": "value", "graphMode": "area", "justifyMode": "auto",
        });
        panel
    }

    /// Lines over time.
    pub(super) fn lines(
        title: &'static str,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        let mut panel = Self::new("timeseries", (12, 8), title, unit, description);
        panel.defaults = json!({"custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}});
        panel.options = json!({
            "legend": {"displayMode": "table", "placement": "right", "showLegend": true, "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        });
        panel
    }

    /// Bars over time, stacked.
    pub(super) fn bars(title: &'static str, unit: &'static str, description: &'static str) -> Self {
        let mut panel = Self::lines(title, unit, description);
        panel.defaults = json!({"custom": {
            "drawStyle": "bars", "lineWidth": 1, "fillOpacity": 80, "showPoints": "never", "stacking": {"mode": "normal", "group": "A"},
        }});
        panel
    }

    /// A panel of states over time.
    pub(super) fn timeline(
        title: &'static str,
        description: &'static str,
        states: &[(&str, &str)],
    ) -> Self {
        let mut panel = Self::new("state-timeline", (24, 8), title, "none", description);
        let mapped: serde_json::Map<String, Value> = states
            .iter()
            .enumerate()
            .map(|(index, (text, colour))| {
                (
                    index.to_string(),
                    json!({"text": text, "color": colour, "index": index}),
                )
            })
            .collect();
        panel.defaults = json!({
            "mappings": [{"type": "value", "options": mapped}],
            "custom": {"fillOpacity": 80, "lineWidth": 0},
        });
        panel.options = json!({
            "mergeValues": true, "showValue": "auto", "alignValue": "left", "rowHeight": 0.85,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []}, "tooltip": {"mode": "single", "sort": "none"},
        });
        panel
    }

    /// A table of the current values.
    pub(super) fn table(
        title: &'static str,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        let mut panel = Self::new("table", (12, 8), title, unit, description);
        panel.options = json!({"showHeader": true, "cellHeight": "sm"});
        panel
    }

    /// A heatmap: how often each size occurred over time.
    pub(super) fn heatmap(title: &'static str, description: &'static str) -> Self {
        let mut panel = Self::new("heatmap", (12, 8), title, "s", description);
        panel.options = json!({
            "calculate": false, "cellGap": 1, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 32, "exponent": 0.5, "fill": "dark-orange", "reverse": false},
            "yAxis": {"unit": "s", "axisPlacement": "left"}, "tooltip": {"mode": "single", "yHistogram": false},
            "legend": {"show": true}, "exemplars": {"color": "rgba(255,0,255,0.7)"}, "rowsFrame": {"layout": "auto"},
            "filterValues": {"le": 1e-9}, "showValue": "never",
        });
        panel
    }

    /// The states for which its values stand: text and colour, by value.
    pub fn states(&self) -> Vec<(String, String)> {
        let options = &self.defaults["mappings"][0]["options"];
        (0..)
            .map_while(|value| options.get(value.to_string()))
            .map(|state| ["text", "color"].map(|field| state[field].as_str().unwrap().to_owned()))
            .map(|[text, colour]| (text, colour))
            .collect()
    }

    pub(super) fn size(mut self, width: u32, height: u32) -> Self {
        self.size = (width, height);
        self
    }

    pub(super) fn query(mut self, expression: &str, legend: &'static str) -> Self {
        self.queries.push(Query {
            expression: expanded(expression),
            legend,
        });
        self
    }

    /// Colours by the value from which each one applies. The first one applies from the smallest value on.
    pub(super) fn thresholds(mut self, steps: &[(Option<f64>, &str)]) -> Self {
        let steps: Vec<Value> = steps
            .iter()
            .map(|(value, color)| json!({"value": value, "color": color}))
            .collect();
        self.defaults["thresholds"] = json!({"mode": "absolute", "steps": steps});
        self
    }

    /// Shows shares from 0 to 1.
    pub(super) fn share(mut self) -> Self {
        self.defaults["min"] = json!(0);
        self.defaults["max"] = json!(1);
        self
    }

    pub(super) fn transform(mut self, id: &str, options: Value) -> Self {
        let mut transformation = json!({"id": id});
        transformation["options"] = options;
        self.transformations.push(transformation);
        self
    }

    /// Sets a unit for one column.
    pub(super) fn column(mut self, name: &str, unit: &str) -> Self {
        self.overrides.push(json!({
            "matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": unit}],
        }));
        self
    }

    pub(super) fn json(&self, id: usize, position: Value) -> Value {
        let now = matches!(self.kind, "table");
        let targets: Vec<Value> = self
            .queries
            .iter()
            .zip('A'..)
            .map(|(query, letter)| {
                json!({
                    "refId": letter, "datasource": data_source(), "editorMode": "code", "expr": query.expression,
                    "legendFormat": if query.legend.is_empty() { "__auto" } else { query.legend },
                    "range": !now, "instant": now, "format": match self.kind { "table" => "table", "heatmap" => "heatmap", _ => "time_series" },
                })
            })
            .collect();
        let mut defaults = self.defaults.clone();
        defaults["unit"] = json!(self.unit);
        let mut panel = json!({
            "id": id, "type": self.kind, "title": self.title, "description": self.description, "datasource": data_source(),
            "fieldConfig": {"defaults": defaults, "overrides": self.overrides}, "options": self.options, "targets": targets,
            "transparent": false,
        });
        panel["gridPos"] = position;
        if !self.transformations.is_empty() {
            panel["transformations"] = json!(self.transformations);
        }
        panel
    }
}

//! The seventeen rules of Grafana's dashboard-linter, as far as this project applies them. Exceptions are in
//! `dashboards/.lint`, each with its reason.

use serde_json::Value;

use test_support::monitoring::selectors::{Selector, selectors};

/// The violations of a board, rule by rule.
pub(super) fn problems(board: &Value, exceptions: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut report = |rule: &str, panel: &Value, text: String| {
        let title = panel["title"].as_str().unwrap_or_default();
        if !is_excepted(exceptions, rule, title) {
            found.push(format!("{rule}: {title}: {text}"));
        }
    };
    let variables = board["templating"]["list"].as_array().unwrap();
    let named = |name: &str| -> Vec<&Value> {
        variables
            .iter()
            .filter(|variable| variable["name"] == name)
            .collect()
    };

    // Variables.
    let of_sources: Vec<&Value> = variables
        .iter()
        .filter(|v| v["type"] == "datasource")
        .collect();
    match of_sources.as_slice() {
        [one]
            if one["name"] == "datasource"
                && one["label"] == "Data source"
                && one["query"] == "prometheus" => {}
        other => report("template-datasource-rule", board, format!("{other:?}")),
    }
    for (rule, name, label) in [
        ("template-job-rule", "job", "Job"),
        ("template-instance-rule", "instance", "Instance"),
    ] {
        let good = |v: &Value| {
            v["label"] == label
                && v["type"] == "query"
                && v["multi"] == true
                && v["includeAll"] == true
                && v["allValue"] == ".+"
                && v["datasource"]["uid"] == "${datasource}"
        };
        match named(name).as_slice() {
            [one] if good(one) => {}
            other => report(rule, board, format!("{other:?}")),
        }
    }
    for variable in variables.iter().filter(|v| v["type"] == "query") {
        let query = variable["query"]["query"].as_str().unwrap_or_default();
        let inner = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'));
        let good = inner
            .and_then(|inner| inner.rsplit_once(", "))
            .is_some_and(|(of, label)| {
                selectors(of).len() == 1
                    && label.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            });
        if !good {
            report("template-label-promql-rule", variable, query.to_owned());
        }
        if variable["refresh"] != 2 {
            report(
                "template-on-time-change-reload-rule",
                variable,
                variable["refresh"].to_string(),
            );
        }
    }
    if board["editable"] != false {
        report("uneditable-dashboard", board, "it is editable".to_owned());
    }

    // Panels.
    for panel in board["panels"].as_array().unwrap() {
        let kind = panel["type"].as_str().unwrap_or_default();
        if panel["datasource"]["uid"] != "${datasource}" {
            report(
                "panel-datasource-rule",
                panel,
                panel["datasource"].to_string(),
            );
        }
        if ["title", "description"]
            .iter()
            .any(|field| panel[field].as_str().unwrap_or_default().is_empty())
        {
            report(
                "panel-title-description-rule",
                panel,
                "lacks one of them".to_owned(),
            );
        }
        let checked = [
            "stat",
            "singlestat",
            "graph",
            "table",
            "timeseries",
            "gauge",
        ]
        .contains(&kind);
        if checked
            && panel["fieldConfig"]["defaults"]["unit"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
        {
            report("panel-units-rule", panel, "has no unit".to_owned());
        }
        let targets = panel["targets"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if targets.is_empty() {
            report("panel-no-targets-rule", panel, "has no query".to_owned());
        }
        for target in targets {
            let query = target["expr"].as_str().unwrap_or_default();
            if target["datasource"]["type"] != "prometheus" {
                // The boards read no logs, so the two rules about LogQL have the same result.
                report("target-logql-rule", panel, "is not PromQL".to_owned());
                report("target-logql-auto-rule", panel, "is not PromQL".to_owned());
            }
            let found = selectors(query);
            if found.is_empty() || query.matches('(').count() != query.matches(')').count() {
                // The recorded rollout shows that Prometheus accepts the expression.
                report("target-promql-rule", panel, query.to_owned());
            }
            for Selector {
                name,
                matchers,
                range,
                function,
            } in found
            {
                if range
                    .as_deref()
                    .is_some_and(|range| range != "$__rate_interval" && range != "$__range")
                {
                    report("target-rate-interval-rule", panel, query.to_owned());
                }
                for (rule, matcher) in [
                    ("target-job-rule", r#"job=~"$job""#),
                    ("target-instance-rule", r#"instance=~"$instance""#),
                ] {
                    if !matchers.iter().any(|one| one == matcher) {
                        report(rule, panel, format!("{name} has no {matcher}"));
                    }
                }
                let counts = ["_total", "_sum", "_count", "_bucket"]
                    .iter()
                    .any(|end| name.ends_with(end));
                let rated = ["rate", "irate", "increase"].contains(&function.as_str());
                if counts && !rated {
                    report(
                        "target-counter-agg-rule",
                        panel,
                        format!("{name} in {function}()"),
                    );
                }
            }
        }
    }
    found
}

fn is_excepted(exceptions: &Value, rule: &str, panel: &str) -> bool {
    exceptions["exclusions"][rule]["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|entry| entry["panel"] == panel)
}

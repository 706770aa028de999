//! The committed boards match the code and satisfy the linter's rules.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_support::{monitoring::boards::all, repository};

use super::board_linter as linter;

/// `CAPO_RS_WRITE_DOCS=1 cargo test --test documents metrics::boards` writes the files.
#[test]
fn the_committed_boards_are_those_of_the_code() {
    for board in all() {
        let mut text = serde_json::to_string_pretty(&board.json()).unwrap();
        text.push('\n');
        let path = repository(&format!("dashboards/{}.json", board.uid));
        if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        assert_eq!(committed, text, "{}", path.display());
    }
}

#[test]
fn the_boards_keep_the_rules_of_the_dashboard_linter() {
    let path = repository("dashboards/.lint");
    let exceptions: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (rule, exception) in exceptions["exclusions"].as_object().unwrap() {
        assert!(
            exception["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
            "{rule}"
        );
    }
    let mut uids = BTreeSet::new();
    for board in all() {
        assert!(uids.insert(board.uid));
        assert_eq!(
            linter::problems(&board.json(), &exceptions),
            Vec::<String>::new(),
            "{}",
            board.uid
        );
    }
}

#[test]
fn the_linter_finds_what_is_wrong() {
    let [board, ..] = all();
    let good = board.json();
    let broken = |path: &str, value: Value| -> Vec<String> {
        let mut board = good.clone();
        *board.pointer_mut(path).unwrap() = value;
        let rules = linter::problems(&board, &json!({"exclusions": {}}));
        rules
            .into_iter()
            .map(|text| text.split(':').next().unwrap().to_owned())
            .collect()
    };
    for (rule, path, value) in [
        (
            "template-datasource-rule",
            "/templating/list/0/name",
            json!("source"),
        ),
        (
            "template-job-rule",
            "/templating/list/1/multi",
            json!(false),
        ),
        (
            "template-instance-rule",
            "/templating/list/2/allValue",
            json!(".*"),
        ),
        (
            "template-label-promql-rule",
            "/templating/list/3/query/query",
            json!("query_result(x)"),
        ),
        (
            "template-on-time-change-reload-rule",
            "/templating/list/3/refresh",
            json!(1),
        ),
        (
            "panel-datasource-rule",
            "/panels/0/datasource/uid",
            json!("prometheus"),
        ),
        (
            "panel-title-description-rule",
            "/panels/0/description",
            json!(""),
        ),
        (
            "panel-units-rule",
            "/panels/0/fieldConfig/defaults/unit",
            json!(""),
        ),
        ("panel-no-targets-rule", "/panels/0/targets", json!([])),
        (
            "target-logql-rule",
            "/panels/0/targets/0/datasource/type",
            json!("loki"),
        ),
        (
            "target-logql-auto-rule",
            "/panels/0/targets/0/datasource/type",
            json!("loki"),
        ),
        (
            "target-promql-rule",
            "/panels/0/targets/0/expr",
            json!("sum("),
        ),
        (
            "target-rate-interval-rule",
            "/panels/0/targets/0/expr",
            json!("rate(x_total[5m])"),
        ),
        (
            "target-job-rule",
            "/panels/0/targets/0/expr",
            json!(r#"x{instance=~"$instance"}"#),
        ),
        (
            "target-instance-rule",
            "/panels/0/targets/0/expr",
            json!(r#"x{job=~"$job"}"#),
        ),
        (
            "target-counter-agg-rule",
            "/panels/0/targets/0/expr",
            json!("sum(x_total)"),
        ),
        ("uneditable-dashboard", "/editable", json!(true)),
    ] {
        let found = broken(path, value);
        assert!(
            found.iter().any(|one| one == rule),
            "{rule} is not among {found:?}"
        );
    }
}

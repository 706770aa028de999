//! The committed boards are those of this folder, keep the linter's rules, and are taken by Grafana's schema.

use std::{collections::BTreeSet, fmt::Write as _, process::Command};

use serde_json::{Value, json};

use super::{all, linter};
use crate::env::programs;

fn committed(uid: &str) -> String {
    format!(
        "{}/dashboards/{uid}.json",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
    )
}

/// Written anew with `CAPO_RS_WRITE_DOCS=1 cargo test --test suite metrics::boards`.
#[test]
fn the_committed_boards_are_those_of_the_code() {
    for board in all() {
        let mut text = serde_json::to_string_pretty(&board.json()).unwrap();
        text.push('\n');
        let path = committed(board.uid);
        if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{path}");
    }
}

#[test]
fn the_boards_keep_the_rules_of_the_dashboard_linter() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards/.lint");
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

/// The types that Grafana generates from its own schema, held against every board, panel, and its options.
#[test]
fn the_boards_are_of_grafanas_types() {
    let types = programs::grafana_types().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        types.join("node_modules"),
        folder.path().join("node_modules"),
    )
    .unwrap();
    let source = format!(
        "{}/tests/support/programs/grafana/loose.ts",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
    );
    std::fs::copy(source, folder.path().join("loose.ts")).unwrap();
    let files = all().map(|board| {
        std::fs::write(
            folder.path().join(format!("{}.ts", board.uid)),
            typed(&board.json()),
        )
        .unwrap();
        format!("{}.ts", board.uid)
    });
    let compile = || {
        let output = Command::new(types.join("node_modules/.bin/tsc"))
            .args([
                "--noEmit",
                "--strict",
                "--skipLibCheck",
                "--module",
                "esnext",
                "--moduleResolution",
                "bundler",
            ])
            .args(&files)
            .current_dir(folder.path())
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (good, told) = compile();
    assert!(good, "{told}");

    // The compiler really looks at all of it.
    let mut wrong = all()[0].json();
    wrong["panels"][0]["options"]["colorMode"] = json!("loud");
    wrong["panels"][1]["gridPos"]["x"] = json!("0");
    wrong["panles"] = json!([]);
    std::fs::write(folder.path().join(&files[0]), typed(&wrong)).unwrap();
    let (good, told) = compile();
    assert!(!good);
    for mistake in ["loud", "'string' is not assignable", "panles"] {
        assert!(told.contains(mistake), "{mistake} is not in {told}");
    }
}

/// A board as TypeScript, each part declared to be what Grafana says it is.
fn typed(board: &Value) -> String {
    let module = |kind: &str| match kind {
        "stat" => "stat/panelcfg/x/StatPanelCfg_types.gen",
        "table" => "table/panelcfg/x/TablePanelCfg_types.gen",
        "timeseries" => "timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen",
        "heatmap" => "heatmap/panelcfg/x/HeatmapPanelCfg_types.gen",
        "state-timeline" => "statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen",
        other => panic!("no types for panels of kind {other}"),
    };
    let mut text = String::from(
        "import type { Dashboard, Panel } from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';\nimport type { Loose } from './loose';\n",
    );
    let panels = board["panels"].as_array().unwrap();
    for (index, panel) in panels.iter().enumerate() {
        let kind = panel["type"].as_str().unwrap();
        let from = format!(
            "import('@grafana/schema/dist/esm/raw/composable/{}')",
            module(kind)
        );
        let own = if kind == "stat" {
            "{}".to_owned()
        } else {
            format!("Partial<Loose<{from}.FieldConfig>>")
        };
        let custom = panel["fieldConfig"]["defaults"]["custom"]
            .as_object()
            .map_or_else(|| json!({}), |c| json!(c));
        let _ = writeln!(
            text,
            "export const panel{index}: Loose<Panel> = {panel};\nexport const options{index}: Partial<Loose<{from}.Options>> = {};\nexport const custom{index}: {own} = {custom};",
            panel["options"]
        );
    }
    let mut rest = board.clone();
    rest["panels"] = json!([]);
    for annotation in rest["annotations"]["list"].as_array_mut().unwrap() {
        // What its data source makes of an annotation is not in the schema of boards.
        let annotation = annotation.as_object_mut().unwrap();
        for own in ["expr", "step", "titleFormat"] {
            assert!(annotation.remove(own).is_some(), "{own}");
        }
    }
    text + &format!("export const board: Loose<Dashboard> = {rest};\n")
}

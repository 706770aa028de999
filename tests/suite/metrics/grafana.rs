//! The boards against the types that Grafana generates from its own schema.

use std::{fmt::Write as _, process::Command};

use serde_json::{Value, json};
use test_support::{monitoring::boards::all, repository};

use crate::env::programs;

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
    let source = repository("tests/support/programs/grafana/loose.ts");
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
    let (good, printed) = compile();
    assert!(good, "{printed}");

    // A wrong board is refused, so the compiler does check boards, panels and options.
    let mut wrong = all()[0].json();
    wrong["panels"][0]["options"]["colorMode"] = json!("loud");
    wrong["panels"][1]["gridPos"]["x"] = json!("0");
    wrong["panles"] = json!([]);
    std::fs::write(folder.path().join(&files[0]), typed(&wrong)).unwrap();
    let (good, printed) = compile();
    assert!(!good);
    for mistake in ["loud", "'string' is not assignable", "panles"] {
        assert!(printed.contains(mistake), "{mistake} is not in {printed}");
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
        // The schema of boards does not have the fields that the data source reads from an annotation.
        let annotation = annotation.as_object_mut().unwrap();
        for own in ["expr", "step", "titleFormat"] {
            assert!(annotation.remove(own).is_some(), "{own}");
        }
    }
    text + &format!("export const board: Loose<Dashboard> = {rest};\n")
}

//! Argo CD's health scripts, run by the Lua that Argo CD runs, on objects written down in its own test layout.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use test_support::repository;

use crate::env::{apply::documents, programs};

const SCRIPTS: &str = "deploy/argocd/infrastructure.cluster.x-k8s.io";

/// The status and message that the script of the object's kind returns.
pub(super) fn verdict(object: &Value) -> (String, String) {
    let kind = object["kind"].as_str().unwrap();
    let script = repository(SCRIPTS).join(kind).join("health.lua");
    let folder = tempfile::tempdir().unwrap();
    let around = folder.path().join("around.lua");
    // Argo CD gives scripts the object and takes what they return. It does not give them these libraries.
    let text = format!(
        "local script = assert(loadfile({}))\nlocal out = print\nobj = {}\n\
         io, os, string, math, debug, coroutine = nil, nil, nil, nil, nil, nil\n\
         local health = script()\nout(health.status)\nout(health.message)\n",
        literal(&Value::from(script.to_str().unwrap())),
        literal(object)
    );
    std::fs::write(&around, text).unwrap();
    let output = Command::new(programs::glua().unwrap())
        .arg(&around)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{kind}: {error}{text}");
    let (status, message) = text
        .split_once('\n')
        .unwrap_or_else(|| panic!("{kind}: {text}{error}"));
    (status.to_owned(), message.trim_end().to_owned())
}

/// A value as Lua writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let mut quoted = String::from("\"");
            for byte in text.bytes() {
                let _ = write!(quoted, "\\{byte:03}");
            }
            quoted + "\""
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| {
                format!(
                    "[{}] = {}",
                    literal(&Value::from(key.as_str())),
                    literal(value)
                )
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn yaml(path: &Path) -> Value {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    documents(&text).unwrap().remove(0)
}

#[test]
fn every_kind_is_judged_as_its_tests_say() {
    for kind in ["OpenStackCluster", "OpenStackMachine", "OpenStackServer"] {
        let folder = repository(SCRIPTS).join(kind);
        let tests = yaml(&folder.join("health_test.yaml"));
        let mut tested: Vec<PathBuf> = Vec::new();
        for test in tests["tests"].as_array().unwrap() {
            let input = folder.join(test["inputPath"].as_str().unwrap());
            let (status, message) = verdict(&yaml(&input));
            let expected = &test["healthStatus"];
            assert_eq!(
                status,
                expected["status"].as_str().unwrap(),
                "{}",
                input.display()
            );
            assert_eq!(
                message,
                expected["message"].as_str().unwrap(),
                "{}",
                input.display()
            );
            tested.push(input);
        }
        for file in std::fs::read_dir(folder.join("testdata")).unwrap() {
            let file = file.unwrap().path();
            assert!(tested.contains(&file), "no test reads {}", file.display());
        }
    }
}

//! docs/fields.md lists the fields of every kind, from the custom resource definitions.

use std::{collections::BTreeSet, fmt::Write as _};

use capo_api::{ConversionTarget, manifests};
use serde_json::Value;
use test_support::{env::apply, repository};

const PAGE: &str = "docs/fields.md";
const HEAD: &str = "\
# Fields

Every field of every kind, written from the custom resource definitions; `kubectl explain openstackcluster.spec` shows the same. A kind that
is served in two versions is listed in the newer one; [v1beta1 and v1beta2](conversion.md) names the differences. The templates,
OpenStackClusterTemplate and OpenStackMachineTemplate, have the fields of `spec` below `spec.template.spec`. `[]` stands for each item of a list,
`{}` for each value of a map.
";

/// One field: its path, its type and the first paragraph of its description.
struct Field {
    path: String,
    kind: String,
    text: String,
}

fn of_type(schema: &Value) -> String {
    let name = schema["type"].as_str().unwrap_or("any");
    match name {
        "array" => format!("list of {}", of_type(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", of_type(&schema["additionalProperties"]))
        }
        _ if schema["x-kubernetes-int-or-string"] == true => "integer or string".to_owned(),
        _ => match schema["enum"].as_array() {
            Some(values) => {
                let values: Vec<String> = values
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|value| format!("`{value}`"))
                    .collect();
                values.join(" or ")
            }
            None => name.to_owned(),
        },
    }
}

fn walk(schema: &Value, path: &str, fields: &mut Vec<Field>) {
    let required: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let description = property["description"].as_str().unwrap_or_default();
        let first = description.split("\n\n").next().unwrap_or_default();
        let mut text = first.replace('\n', " ").replace('<', "\\<");
        if required.contains(name.as_str()) {
            text = format!("**Required.** {text}");
        }
        if !property["default"].is_null() {
            let _ = write!(text, " Default: `{}`.", property["default"]);
        }
        fields.push(Field {
            path: path.clone(),
            kind: of_type(property),
            text,
        });
        match property["type"].as_str() {
            Some("array") => walk(&property["items"], &format!("{path}[]"), fields),
            _ if property["additionalProperties"].is_object() => {
                walk(
                    &property["additionalProperties"],
                    &format!("{path}{{}}"),
                    fields,
                );
            }
            _ => walk(property, &path, fields),
        }
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (_, text) in manifests(&ConversionTarget::default()).unwrap() {
        let definition = apply::documents(&text).unwrap().remove(0);
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        if kind.ends_with("Template") {
            continue;
        }
        let version = definition["spec"]["versions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap();
        let schema = &version["schema"]["openAPIV3Schema"];
        let _ = write!(
            page,
            "\n## {kind}\n\n`infrastructure.cluster.x-k8s.io/{}`. {}\n",
            version["name"].as_str().unwrap(),
            schema["description"].as_str().unwrap_or_default()
        );
        for part in ["spec", "status"] {
            let mut fields = Vec::new();
            walk(&schema["properties"][part], part, &mut fields);
            if fields.is_empty() {
                continue;
            }
            let _ = write!(page, "\n### {part} of {kind}\n\n");
            for field in fields {
                let _ = writeln!(page, "- `{}` ({}): {}", field.path, field.kind, field.text);
            }
        }
    }
    page
}

/// The fields of a page, each with its type.
fn fields(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter(|line| line.starts_with("- `s"))
        .map(|line| line.split_once("): ").map_or(line, |(field, _)| field))
        .collect()
}

/// Written by `make documents`, which also takes over changed descriptions.
#[test]
fn the_page_of_fields_lists_the_fields_of_every_kind() {
    let page = page();
    let path = repository(PAGE);
    if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(fields(&page).len() > 500, "{}", fields(&page).len());
    assert!(
        fields(&committed) == fields(&page),
        "make documents writes {PAGE}: {:?}",
        fields(&committed).symmetric_difference(&fields(&page))
    );
}

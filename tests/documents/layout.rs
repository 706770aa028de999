//! Rules of the source tree that the compiler does not check, and paths that pages name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use test_support::repository;

/// The files below `folder` with this extension, except those that cargo builds.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<(String, String)> {
    ["src", "tests"]
        .iter()
        .flat_map(|folder| files(&repository(folder), "rs"))
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_module_lies_where_its_name_says() {
    // The text is written in two parts, because this file is searched too.
    let attribute = ["#[", "path"].concat();
    for (path, text) in sources() {
        assert!(!text.contains(&attribute), "{path} has {attribute}");
    }
}

#[test]
fn no_code_is_kept_that_nothing_uses() {
    let lints = ["dead", "_code"].concat();
    for (path, text) in sources() {
        assert!(!text.contains(&lints), "{path} allows {lints}");
    }
}

#[test]
fn the_changelog_says_what_is_not_released() {
    let text = fs::read_to_string(repository("CHANGELOG.md")).unwrap();
    let (unreleased, released) = text.split_once("\n## 0.1.0\n").unwrap();
    assert!(unreleased.starts_with("# Changelog\n") && !released.is_empty());
    assert!(unreleased.contains("\n## Unreleased\n"), "{unreleased}");
}

/// `rustfmt` breaks code at column 100, and does not touch comments.
#[test]
fn comments_end_at_column_120() {
    for (path, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            let is_comment = line.trim_start().starts_with("//");
            let length = line.chars().count();
            assert!(
                !is_comment || length <= 120,
                "{path}:{number} has {length} columns"
            );
        }
    }
}

/// The paths that the `use` tree after `prefix` names, each written out.
fn paths_of_tree(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, group)) = tree.split_once('{') else {
        paths.push(format!("{prefix}{}", tree.trim()));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let group = group.trim_end().trim_end_matches('}');
    let (mut depth, mut start) = (0, 0);
    for (at, char) in group.char_indices().chain([(group.len(), ',')]) {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 || at == group.len() => {
                paths_of_tree(&prefix, &group[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The paths from the crate's root that the text of a module names, in `use` declarations and elsewhere.
fn named_paths(module: &[&str], text: &str) -> Vec<String> {
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut paths = Vec::new();
    for tree in code.split("use ").skip(1) {
        paths_of_tree("", tree.split(';').next().unwrap_or_default(), &mut paths);
    }
    let elsewhere = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    paths.extend(elsewhere.map(str::to_owned));
    let from_root = |path: &String| {
        let local = path.trim_start_matches("super::");
        let up = (path.len() - local.len()) / "super::".len();
        match path.strip_prefix("crate::") {
            Some(path) => Some(path.to_owned()),
            None if (1..=module.len()).contains(&up) => {
                Some([&module[..module.len() - up], &[local]].concat().join("::"))
            }
            None => None,
        }
    };
    paths.iter().filter_map(from_root).collect()
}

/// The module that a file of a crate holds, as the parts of its path from the crate's root.
fn module_of(source: &Path, path: &Path) -> Vec<String> {
    let module = path.strip_prefix(source).unwrap().with_extension("");
    let parts = module
        .iter()
        .map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| part != "mod").collect()
}

/// The modules of a crate, each with those that it names. What a module takes from the modules around it does not
/// count.
fn imports(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let is_test = |module: &[String]| {
        let mut parts = module.iter();
        parts.any(|part| part == "tests" || part.ends_with("_tests"))
    };
    let modules: Vec<(Vec<String>, String)> = files(source, "rs")
        .into_iter()
        .map(|path| (module_of(source, &path), fs::read_to_string(path).unwrap()))
        .filter(|(module, _)| !is_test(module))
        .collect();
    let names: BTreeSet<String> = modules.iter().map(|(name, _)| name.join("::")).collect();
    let imported = |module: &[String], text: &str| -> BTreeSet<String> {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let parts: Vec<&str> = module.iter().map(String::as_str).collect();
        let around = module.join("::");
        named_paths(&parts, code)
            .into_iter()
            .filter_map(|path| {
                let parts: Vec<&str> = path.split("::").collect();
                let prefixes = (1..=parts.len()).rev().map(|end| parts[..end].join("::"));
                prefixes.into_iter().find(|prefix| names.contains(prefix))
            })
            .filter(|name| *name != around && !around.starts_with(&format!("{name}::")))
            .collect()
    };
    modules
        .iter()
        .map(|(module, text)| (module.join("::"), imported(module, text)))
        .collect()
}

/// What is left when modules that name none of the others are taken away again and again: circles, and what leads to
/// them.
fn circles(mut imports: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    loop {
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        imports.retain(|_, named| named.intersection(&left).next().is_some());
        if imports.len() == left.len() {
            return left.into_iter().collect();
        }
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for name in ["api", "core", "gate", "openstack", "provider"] {
        let imports = imports(&repository("src").join(name).join("src"));
        let arrows: usize = imports.values().map(BTreeSet::len).sum();
        assert!(arrows > 5, "{name}: {imports:?}");
        assert_eq!(circles(imports), [""; 0], "{name}");
    }
    let of = |arrows: &[(&str, &str)]| {
        let arrows = arrows.iter().map(|(from, to)| {
            let to = BTreeSet::from([(*to).to_owned()]);
            ((*from).to_owned(), to)
        });
        circles(arrows.collect())
    };
    assert_eq!(of(&[("a", "b"), ("b", "c")]), [""; 0]);
    assert_eq!(of(&[("a", "b"), ("b", "c"), ("c", "b")]), ["a", "b", "c"]);
}

/// The first other controller that a module of a controller names.
fn named_sibling(module: &[&str], text: &str, controllers: &[String]) -> Option<String> {
    named_paths(module, text).into_iter().find(|path| {
        let mut parts = path.split("::");
        parts.next() == Some("controllers")
            && parts.next().is_some_and(|name| {
                name != module[1] && controllers.iter().any(|known| known == name)
            })
    })
}

#[test]
fn no_controller_imports_another_one() {
    let source = repository("src/provider/src");
    let folders = fs::read_dir(source.join("controllers")).unwrap();
    let controllers: Vec<String> = folders
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(controllers.len() > 1, "{controllers:?}");
    for controller in &controllers {
        for path in files(&source.join("controllers").join(controller), "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let module = module_of(&source, &path);
            let module: Vec<&str> = module.iter().map(String::as_str).collect();
            let named = named_sibling(&module, &text, &controllers);
            assert_eq!(named, None, "{}", path.display());
        }
    }
    for path in files(&source.join("reconcile"), "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let named = named_paths(&["reconcile", "it"], &text);
        let named = named.iter().find(|path| path.starts_with("controllers"));
        assert_eq!(named, None, "{}", path.display());
    }
}

#[test]
fn an_import_of_another_controller_is_found_in_every_spelling() {
    let controllers = ["machine".to_owned(), "server".to_owned()];
    let module = ["controllers", "server", "delete"];
    for (text, expected) in [
        ("use crate::controllers::machine;", true),
        ("use crate::controllers::machine::FINALIZER;", true),
        (
            "use crate::{\n    controllers::{Context, machine::{A, B}, project_match::P},\n    kubernetes,\n};",
            true,
        ),
        ("use super::super::machine::FINALIZER;", true),
        ("fn f() { crate::controllers::machine::f() }", true),
        ("use super::super::{server::A, Context};", false),
        ("use super::machine;", false),
        ("use crate::controllers::{Context, machine_state};", false),
        ("use capo_gate::model::machine::Machine;", false),
        ("// use crate::controllers::machine;", false),
    ] {
        let found = named_sibling(&module, text, &controllers);
        assert_eq!(found.is_some(), expected, "{text}: {found:?}");
    }
}

#[test]
fn a_panic_unwinds_in_a_release() {
    // It ends one pass only, because the controllers catch it.
    for file in ["Cargo.toml", "deploy/build.sh", "Dockerfile"] {
        let text = fs::read_to_string(repository(file)).unwrap();
        let plain = text.to_lowercase().replace([' ', '"', '\''], "");
        assert!(!plain.contains("panic=abort"), "{file}");
    }
}

#[test]
fn the_readme_has_at_most_150_lines() {
    let lines = fs::read_to_string(repository("README.md"))
        .unwrap()
        .lines()
        .count();
    assert!(lines <= 150, "README.md has {lines} lines");
}

/// The parts of a page between backticks, and the targets of its links.
fn quoted_and_linked(page: &str) -> Vec<&str> {
    let quoted = page
        .lines()
        .filter(|line| !line.starts_with("```") && !line.starts_with("    "))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let linked = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    quoted.chain(linked).collect()
}

/// Pages about the repository. The paths in them are relative to its top folder.
const GUIDES: [&str; 5] = [
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/architecture.md",
    "docs/deep.md",
    "tests/README.md",
];

/// Folders at the top with which a path can begin.
const TOPS: [&str; 7] = [
    "src/",
    "tests/",
    "docs/",
    "deploy/",
    "dashboards/",
    "crds/",
    ".ci/",
];

#[test]
fn paths_that_the_guides_name_exist() {
    for guide in GUIDES {
        let text = fs::read_to_string(repository(guide)).unwrap();
        let mut named = 0;
        for path in quoted_and_linked(&text) {
            let plain = path
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if plain && TOPS.iter().any(|top| path.starts_with(top)) {
                named += 1;
                assert!(repository(path).exists(), "{guide} names {path}");
            }
        }
        assert!(named > 0, "{guide} names no path");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = files(&repository("docs"), "md");
    pages.extend(GUIDES.map(repository));
    pages.push(repository("README.md"));
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1) {
            let link = link.split([')', '#']).next().unwrap_or_default();
            if link.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let target = page.parent().unwrap().join(link);
            assert!(target.exists(), "{} links to {link}", page.display());
        }
    }
}

#[test]
fn every_page_is_in_the_table_of_contents_and_links_within_the_site() {
    let folder = repository("docs");
    let contents = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    for page in files(&folder, "md") {
        let name = page.strip_prefix(&folder).unwrap().display().to_string();
        let listed = contents.contains(&format!("({name})"));
        assert!(
            listed || name == "SUMMARY.md",
            "docs/SUMMARY.md does not list {name}"
        );
        let text = fs::read_to_string(&page).unwrap();
        let up = "../".repeat(name.matches('/').count() + 1);
        let out = text
            .split("](")
            .skip(1)
            .find(|link| link.starts_with(up.as_str()));
        assert!(
            out.is_none(),
            "docs/{name} links to a file outside of docs/; use its address on GitHub"
        );
    }
}

/// The names of the test targets in a manifest.
fn targets(manifest: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(repository(manifest)).unwrap();
    text.split("[[test]]")
        .skip(1)
        .filter_map(|part| part.split("name = \"").nth(1)?.split('"').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_map_of_the_tests_has_every_binary() {
    let map = fs::read_to_string(repository("tests/README.md")).unwrap();
    for manifest in ["src/provider/Cargo.toml", "src/openstack/Cargo.toml"] {
        for target in targets(manifest) {
            assert!(
                map.contains(&format!("| `{target}` |")),
                "tests/README.md has no line for the test binary {target}"
            );
        }
    }
}

//! What the releases of CAPO write, 0.12 to 0.15: an unknown field, finalizer, annotation, label, tag or description
//! fails here and is no surprise at a takeover. `make takeover` compares the same list with what CAPO 0.14.7 really
//! leaves behind.

use std::{collections::BTreeMap, fs, path::Path};

use test_support::repository;

use super::{fields::Fields, flatten, folder, pairs};

/// A text of `tests/facts/written-by-capo` without its comments.
fn lines(file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder().join("written-by-capo").join(file)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn every_field_of_a_release_is_ours_with_its_type() {
    let ours: Vec<(String, Fields)> = pairs()
        .into_iter()
        .map(|(file, _, _, version)| {
            let mut fields = Fields::new();
            flatten(
                "",
                &version["schema"]["openAPIV3Schema"],
                false,
                &mut fields,
            );
            (file, fields)
        })
        .collect();
    let (mut kind, mut releases, mut unknown) = (String::new(), Vec::new(), Vec::new());
    let mut compared: BTreeMap<String, u32> = BTreeMap::new();
    for line in lines("fields.txt") {
        if let Some(head) = line.strip_prefix('[') {
            let mut words = head.trim_end_matches(']').split(' ').map(str::to_owned);
            kind = words.next().unwrap();
            releases = words.collect();
            continue;
        }
        let (path, of_type) = line.split_once('\t').unwrap();
        let (_, fields) = ours.iter().find(|(file, _)| *file == kind).unwrap();
        let known = fields.get(path).and_then(|field| field.get("type"));
        if known.is_none_or(|known| known != of_type) {
            unknown.push(format!("{kind} {path} {of_type}"));
        }
        for release in &releases {
            *compared.entry(release.clone()).or_default() += 1;
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    let expected = [
        ("0.12", 1420),
        ("0.13", 1430),
        ("0.14", 1467),
        ("0.15", 1513),
    ];
    let expected = expected.map(|(release, fields)| (release.to_owned(), fields));
    assert_eq!(compared, BTreeMap::from(expected));
}

#[test]
fn every_mark_of_a_release_is_in_our_code() {
    let mut code = String::new();
    read(&repository("src"), &mut code);
    let mut unknown = Vec::new();
    for line in lines("marks.txt") {
        let columns: Vec<&str> = line.split('\t').collect();
        let [releases, by, part, value] = columns.as_slice() else {
            panic!("{line:?} has not four columns");
        };
        assert!(
            ["0.12-0.15", "0.14-0.15", "0.15"].contains(releases),
            "{line}"
        );
        // Cluster API writes these, whichever provider runs.
        if by.ends_with("(Cluster API)") {
            continue;
        }
        for fixed in value.split(['{', '}']).step_by(2) {
            let fixed = fixed.trim_matches('-');
            if fixed.len() > 2 && !code.contains(fixed) {
                unknown.push(format!("{by} {part} {value}"));
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
}

fn read(folder: &Path, code: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

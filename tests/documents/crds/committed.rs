//! `crds/` matches the types. `make crds` writes it.

use std::fs;

use capo_api::{ConversionTarget, manifests};
use test_support::repository;

/// Set to write the files instead of comparing them.
const WRITE: &str = "CAPO_RS_WRITE_CRDS";

#[test]
fn committed_definitions_are_those_of_the_types() {
    let folder = repository("crds");
    let expected = manifests(&ConversionTarget::default()).unwrap();
    if std::env::var_os(WRITE).is_some() {
        for (name, text) in &expected {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let mut committed: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    committed.sort();
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(committed, names, "files in crds/");
    for (name, text) in &expected {
        let committed = fs::read_to_string(folder.join(name)).unwrap();
        let difference = committed
            .lines()
            .zip(text.lines())
            .position(|(committed, generated)| committed != generated);
        assert!(
            committed == *text,
            "crds/{name} is not what the types say, first at line {}; run `make crds`",
            difference.map_or_else(|| "its end".to_owned(), |line| (line + 1).to_string())
        );
    }
}

//! Tells the program what it was built with, and gives it the runbooks to print.

use std::{path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CAPO_RS_REVISION");
    let rustc = std::env::var("RUSTC")
        .ok()
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .and_then(|text| text.split_whitespace().nth(1).map(str::to_owned));
    let value = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=BUILT_WITH_RUSTC={}", value(rustc));
    println!(
        "cargo:rustc-env=BUILT_FOR_TARGET={}",
        value(std::env::var("TARGET").ok())
    );
    println!(
        "cargo:rustc-env=BUILT_FROM_REVISION={}",
        value(std::env::var("CAPO_RS_REVISION").ok())
    );
    runbooks();
}

/// One page per alert, named after it, as a list of names and texts.
fn runbooks() {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let folder = Path::new(&root).join("docs/runbooks");
    println!("cargo:rerun-if-changed=docs/runbooks");
    let mut pages: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    pages.sort();
    let rows = pages.iter().filter_map(|path| {
        let alert = path.file_stem()?.to_str()?;
        let source = path.to_str()?;
        // README.md is about the pages.
        alert
            .starts_with("Capo")
            .then(|| format!("    ({alert:?}, include_str!({source:?})),\n"))
    });
    let list = format!("&[\n{}]\n", rows.collect::<String>());
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Err(error) = std::fs::write(Path::new(&out).join("runbooks.rs"), list) {
        println!("cargo:error=runbooks.rs can't be written: {error}");
    }
}

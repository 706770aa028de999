//! Gives the program the runbooks to print, and the shipped program compact relocations.

use std::path::Path;

/// One page per alert, named after it, as a list of names and texts.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The table of relocations of the static program shrinks from 400 kB to some kB.
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let folder = Path::new(&root).join("../../docs/runbooks");
    println!("cargo:rerun-if-changed=../../docs/runbooks");
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

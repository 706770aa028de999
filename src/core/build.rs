//! Passes the version, the commit, the compiler and the platform of the build to the crate as environment variables.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CAPO_RS_REVISION");
    println!("cargo:rerun-if-env-changed=CAPO_RS_VERSION");
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
        "cargo:rustc-env=BUILT_AS_VERSION={}",
        value(
            std::env::var("CAPO_RS_VERSION")
                .or_else(|_| std::env::var("CARGO_PKG_VERSION"))
                .ok()
        )
    );
    println!(
        "cargo:rustc-env=BUILT_FROM_REVISION={}",
        value(std::env::var("CAPO_RS_REVISION").ok())
    );
}

//! The committed files match the code: definitions, pages, boards, rules, manifests, the Dockerfile, the layout.
//!
//! These tests need Rust only, so `make check` runs them.

// What prepares a test fails it as the test itself would; .clippy.toml lets test functions alone do so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crds;
mod dockerfile;
mod fields;
mod figures;
mod flags;
mod layout;
mod metrics;
mod reasons;
mod rollouts;
mod sources;

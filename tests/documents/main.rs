//! The committed files match the code: definitions, pages, boards, rules, manifests, the Dockerfile, the layout.
//!
//! These tests need Rust only, so `make check` runs them.

// .clippy.toml allows these in test functions only.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

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

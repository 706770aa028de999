//! The common parts of the tests of capo-rs: the real programs they run against, the contract of every cloud, rollouts
//! with their client and their invariants, and the fixtures of several test binaries.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    async_fn_in_trait,
    missing_docs,
    reason = "a test's helper fails the test, and is read with it"
)]

pub mod anomalies;
pub mod client;
pub mod contract;
pub mod env;
pub mod figures;
pub mod full_objects;
pub mod gate;
pub mod invariants;
pub mod measured_environment;
pub mod migration_page;
pub mod monitoring;
pub mod replay;
pub mod rollout;
pub mod timeline;
pub mod waiting;
pub mod webhooks;

/// The absolute path of a file or folder of the repository.
pub fn repository(path: &str) -> std::path::PathBuf {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    // By name, because demo and tests print such paths.
    own.ancestors().nth(2).unwrap_or(own).join(path)
}

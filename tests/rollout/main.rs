//! Rollouts with the real Cluster API: its three managers, capo-rs as shipped, the fake cloud, and a real
//! kube-apiserver for every control-plane machine. Run by `make rollout`; README.md says how it is built.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

#[path = "../anomalies/mod.rs"]
mod anomalies;
mod client;
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each binary uses its own part of it"
)]
#[path = "../contract/mod.rs"]
mod contract;
#[path = "../env/mod.rs"]
mod env;
mod intruder;
mod invariants;
mod objects;
mod plane;
mod player;
mod proof;
mod results;
mod rollout;
mod scenarios;
mod timeline;
mod workload;

//! Rollouts with the real Cluster API: its three managers, capo-rs as shipped, the fake cloud, and a real
//! kube-apiserver for every control-plane machine. Run by `make rollout`; README.md says how it is built.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod scenarios;

use test_support::{anomalies, env, invariants, rollout, timeline};

//! The tests of `make test` that need a real kube-apiserver or the fake cloud.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod cluster;
mod crds;
mod environment;
mod fake_contract;
mod figures;
mod gate;
mod haproxy;
mod machine;
mod manager;
mod metrics;
mod octavia;
mod operator;
mod webhooks;
mod whole;

use test_support::{anomalies, contract, env};

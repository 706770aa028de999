//! Everything that `make test` runs beyond unit tests: wire, contract, real kube-apiserver.

// What prepares a test fails it as the test itself would; clippy.toml lets test functions alone do so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../anomalies/mod.rs"]
mod anomalies;
#[path = "../rollout/client/mod.rs"]
mod client;
mod cluster;
#[path = "../contract/mod.rs"]
mod contract;
mod crds;
mod dockerfile;
mod docs;
#[path = "../env/mod.rs"]
mod env;
mod environment;
mod fake_contract;
mod figures;
#[path = "../gate/mod.rs"]
mod gate;
#[path = "gate/mod.rs"]
mod gates;
#[path = "../rollout/invariants/mod.rs"]
mod invariants;
mod machine;
mod manager;
mod metrics;
mod octavia;
mod operator;
mod rollouts;
#[path = "../rollout/timeline/mod.rs"]
mod timeline;
mod webhooks;
mod whole;
mod wire;

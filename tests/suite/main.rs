//! Everything that `make test` runs beyond unit tests: wire, contract, real kube-apiserver.

mod crds;
mod dockerfile;
#[path = "../env/mod.rs"]
mod env;
mod environment;
mod machine;
mod manager;
mod webhooks;
mod wire;
